"""Which edges are learnt, validated and tested, and which are left in the graph: by a hash of the pair of nodes.

A pair is hashed without its direction, so an edge, its reverse and all copies of both are on the same side of the
split. The hash needs nothing but the seed and both nodes' numbers in the dataset, so every rank knows of every edge
where it belongs, and another number of ranks splits alike. In ascending order of the hash come

    0 .. val_end               validated
    val_end .. test_end        tested
    test_end .. train_end      learnt
    message_begin ..           in the graph, from which the rows are computed

where the last two are the same pairs, unless supervision is disjoint. In an undirected graph an edge and its reverse
are one pair, which one of its two nodes' owners has, by another bit of the hash. Self-loops are no pairs and stay in
the graph. Copies of an edge are one pair.

Letters: n rows of this part, E edges, k pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trainer.base.hash_rng import PAIRS, hash_62, key_of, pair_ids, randint
from trainer.data.csr import Csr, with_edges
from trainer.data.part import Part

HASH_END = 1 << 62
"""Hashes of pairs are below it."""
_SPLIT, _ORIENTATION = range(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Directed pairs of nodes, at the owner of the second one."""

    source_k: Tensor
    """int64: the number of the first node in the whole graph"""
    row_k: Tensor
    """int64: the row of the second node in this part"""

    def __len__(self) -> int:
        return len(self.source_k)

    def __getitem__(self, index: slice | Tensor) -> Pairs:
        return Pairs(source_k=self.source_k[index], row_k=self.row_k[index])


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSplit:
    """The split of a run, the same on every rank."""

    seed: int
    val_end: int
    test_end: int
    train_end: int
    message_begin: int

    def message_part(self, part: Part) -> Part:
        """The part without the edges that are not in the graph; its halo stays, also where no edge needs it now."""

        def left(peer: int | None, block: Csr) -> Csr:
            source_E, destination_E = edge_ends(part, peer, block)
            is_left = pair_hash(source_E, destination_E, self.seed) >= self.message_begin
            return with_edges(block, is_left | (source_E == destination_E))

        local = left(None, part.local)
        remote = {peer: left(peer, block) for peer, block in part.remote.items()}
        degree_n = local.row_sums(torch.float32)
        for block in remote.values():
            degree_n += block.row_sums(torch.float32)
        return replace(part, local=local, remote=remote, degree_n=degree_n, aggregated_nF=None)


class PartEdges:
    """The edges into one part, each once, without self-loops."""

    def __init__(self, part: Part, *, num_nodes: int, seed: int, is_undirected: bool) -> None:
        """Sort them.

        Args:
            part: with all its edges.
            num_nodes: N, of the whole graph.
            seed: of the run.
            is_undirected: whether every edge has its reverse.
        """
        self.ids_n, self.num_nodes = part.ids_n, num_nodes
        keys = []
        for peer, block in ((None, part.local), *part.remote.items()):
            source_E, destination_E = edge_ends(part, peer, block)
            row_E = block.row_E.long()
            keys.append((row_E * num_nodes + source_E)[source_E != destination_E])
        self._key_E: Tensor = torch.unique(torch.cat(keys))
        pairs = Pairs(source_k=self._key_E % num_nodes, row_k=self._key_E // num_nodes)
        if is_undirected:
            destination_k = self.ids_n[pairs.row_k]
            low, high = torch.minimum(pairs.source_k, destination_k), torch.maximum(pairs.source_k, destination_k)
            keeps_high = randint(pair_ids(low, high), key_of(seed, 0, _ORIENTATION, PAIRS), 2) == 1
            pairs = pairs[(destination_k == high) == keeps_high]
        self.pairs = pairs
        """What the split is of."""
        self.hash_k = pair_hash(pairs.source_k, self.ids_n[pairs.row_k], seed)

    @property
    def counts(self) -> list[int]:
        """Pairs of all groups together, in the place of those to train on: the split is not found yet."""
        return [len(self.pairs), 0, 0]

    def between(self, begin: int, end: int) -> Pairs:
        """The pairs whose hash is from `begin` and below `end`."""
        return self.pairs[(self.hash_k >= begin) & (self.hash_k < end)]

    def contain(self, pairs: Pairs) -> Tensor:
        """Which pairs are edges of the whole graph, on whichever side of the split: bool [k]."""
        if not len(self._key_E):
            return torch.zeros(len(pairs), dtype=torch.bool)
        key_k = pairs.row_k * self.num_nodes + pairs.source_k
        place_k = torch.searchsorted(self._key_E, key_k).clamp_(max=len(self._key_E) - 1)
        are_edges: Tensor = self._key_E[place_k] == key_k
        return are_edges


def pair_hash(first: Tensor, second: Tensor, seed: int) -> Tensor:
    """A number below HASH_END for each pair of nodes, whichever is the first: int64."""
    low, high = torch.minimum(first, second), torch.maximum(first, second)
    return hash_62(pair_ids(low, high), pair_ids(high, low), key_of(seed, 0, _SPLIT, PAIRS))


def smallest_with(count: Callable[[list[int]], list[int]], targets: list[int]) -> list[int]:
    """For each target the smallest number from 0 to HASH_END below which there are as many hashes, by bisection.

    Args:
        count: from numbers to how many hashes of all ranks are below each.
        targets: at most as many as there are hashes.
    """
    low, high = [0] * len(targets), [HASH_END] * len(targets)
    for _ in range(HASH_END.bit_length()):
        middle = [(one + other) // 2 for one, other in zip(low, high, strict=True)]
        for number, (below, target) in enumerate(zip(count(middle), targets, strict=True)):
            if below >= target:
                high[number] = middle[number]
            else:
                low[number] = min(middle[number] + 1, high[number])
    return high


def edge_ends(part: Part, peer: int | None, block: Csr) -> tuple[Tensor, Tensor]:
    """The numbers of both nodes of every edge of a block in the whole graph; None for this part's own."""
    columns = part.ids_n if peer is None else part.halo_ids[peer]
    return columns[block.indices], part.ids_n[block.row_E]
