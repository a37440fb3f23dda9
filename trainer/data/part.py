"""One part of a cache, as one rank trains on it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.data.cache import Cache
from trainer.data.csr import Csr
from trainer.data.part_arrays import PartArrays
from trainer.data.relays import PartRelays, load_relays
from trainer.data.typed import Typed


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one rank owns: n rows of the graph, their in-edges, and which rows it sends to and gets from each peer."""

    number: int
    ids_n: Tensor
    """int64 [n]: the number of each row's node in the whole graph"""
    halo_ids: dict[int, Tensor]
    """int64 [V[q,p]] for each peer q: the same of the rows that q sends"""
    x_nF: Tensor | None
    """[n, F] in the cache's own type; None where the cache has sums of features alone"""
    aggregated_nF: Tensor | None
    """[n, F]: sums over neighbours, by the rule that the cache names; None where it has none"""
    y: Tensor
    """int64 [n], -1 where unlabelled; or of several labels a node bool or float [n, C], NaN where unknown"""
    train_n: Tensor
    """bool [n], as are the two below: the rows of this split"""
    val_n: Tensor
    test_n: Tensor
    degree_n: Tensor
    """float32 [n], or as many as `local` has rows: weighted in-degree in the whole graph, of the dataset's own edges"""
    local: Csr
    """Edges between rows of this part; a row a node, or with relations a row a sum."""
    remote: dict[int, Csr]
    """Edges from each peer's rows; columns count the rows that the peer sends."""
    send_rows: dict[int, Tensor]
    """[V[p,q]] for each peer q: the local rows that q needs, ascending"""
    relays: PartRelays | None = None
    """The way of halo rows that do not come from their owners; None where all do."""
    typed: Typed | None = None
    """Node types and relations, where the model distinguishes them."""

    @property
    def target(self) -> slice:
        """The rows of the type that is learnt."""
        return slice(0, self.num_rows) if self.typed is None else self.typed.target.rows

    @property
    def target_ids(self) -> Tensor:
        """The number of each of their nodes among those of its type: int64."""
        ids_k = self.ids_n[self.target]
        return ids_k if self.typed is None else ids_k - self.typed.target.first_id

    @property
    def num_rows(self) -> int:
        return len(self.ids_n)

    @property
    def num_edge_features(self) -> int:
        """D, 0 where edges have none that the model reads."""
        return 0 if self.local.features is None else self.local.features.shape[1]

    def halo_rows(self, peer: int) -> int:
        """How many rows `peer` sends to this part."""
        return self.remote[peer].num_columns


def halo_ids(part: Part) -> Tensor:
    """The number of each halo row's node in the whole graph, peer after peer: int64 [H]."""
    return torch.cat([torch.empty(0, dtype=torch.int64), *part.halo_ids.values()])


def load_part(cache: Cache, number: int, *, split: int, edge_features: str | None = None) -> Part:
    """Map part `number` of `cache`, with column `split` of its masks, and with `edge_features`, if any, of its edges.

    Raises:
        CacheError: a file is missing, too short, of another type, or points outside what it indexes.
    """
    arrays, kind = PartArrays(cache, number), cache.target
    nodes = arrays.nodes(kind)
    num_rows = len(nodes.ids_k)
    widths = {number: num_rows} | {peer: len(ids) for peer, ids in nodes.halo_ids.items()}
    [relation] = cache.relations
    blocks = arrays.blocks(relation.key, num_rows, widths, edge_features)
    train_n, val_n, test_n = arrays.masks(num_rows, split)
    return Part(
        number=number,
        ids_n=nodes.ids_k,
        halo_ids=nodes.halo_ids,
        x_nF=arrays.features(kind, num_rows) if cache.has_features else None,
        aggregated_nF=arrays.features(kind, num_rows, "x_aggregated") if cache.aggregated != "none" else None,
        y=arrays.labels(num_rows),
        train_n=train_n,
        val_n=val_n,
        test_n=test_n,
        degree_n=arrays.degrees(num_rows),
        local=blocks.pop(number),
        remote=blocks,
        send_rows=nodes.send_rows,
        relays=load_relays(cache, number, halo_ids=nodes.halo_ids, send_rows=nodes.send_rows),
    )
