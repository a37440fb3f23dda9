"""One part of a cache with its node types and relations told apart: see `trainer.data.typed`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from trainer.data.cache import Cache, NodeType, RelationType
from trainer.data.csr import indptr_of, rows_of
from trainer.data.part import (
    Csr,
    Part,
    index_type_of,
    read_csr,
    read_features,
    read_ids,
    read_labels,
    read_mask,
    read_send_rows,
)
from trainer.data.typed import RelationSums, Typed, TypeRows

_HERE = -1
"""Stands for this part where the others are peers."""


def load_typed_part(cache: Cache, number: int, *, split: int) -> Part:
    """Map part `number` of `cache`, with column `split` of its masks, and lay its types side by side.

    Raises:
        CacheError: a file is missing, too short, of another type, or points outside what it indexes.
    """
    folder = f"parts/{number}"
    index_type = index_type_of(cache, folder)
    peers = [peer for peer in range(cache.num_parts) if peer != number]
    nodes = [_Nodes(cache, kind, f"{folder}/nodes/{kind.name}", index_type, peers) for kind in cache.node_types]
    first_rows = [0, *accumulate(len(one.ids_k) for one in nodes)]
    types = [
        TypeRows(
            name=one.kind.name,
            rows=slice(first, first + len(one.ids_k)),
            first_id=one.kind.first_id,
            num_nodes=one.kind.num_nodes,
            x_kF=one.x_kF,
        )
        for one, first in zip(nodes, first_rows, strict=False)
    ]
    target = next(one for one in types if one.name == cache.node_type)
    columns = {_HERE: _Columns([len(one.ids_k) for one in nodes], nodes)}
    columns |= {peer: _Columns([len(one.halo_ids[peer]) for one in nodes], nodes) for peer in peers}
    relations = [
        _Relation(cache, kind, f"{folder}/edges/{kind.key}", index_type, types, columns) for kind in cache.relations
    ]
    blocks = {source: _stacked([one.blocks[source] for one in relations], of.total) for source, of in columns.items()}
    return Part(
        number=number,
        ids_n=torch.cat([one.ids_k + one.kind.first_id for one in nodes]),
        halo_ids={peer: torch.cat([one.halo_ids[peer] + one.kind.first_id for one in nodes]) for peer in peers},
        x_nF=None,
        aggregated_nF=None,
        y=_labels(cache, f"{folder}/nodes/{cache.node_type}/y", first_rows[-1], target.rows),
        train_n=_mask(cache, f"{folder}/nodes/{cache.node_type}/train_mask", split, first_rows[-1], target.rows),
        val_n=_mask(cache, f"{folder}/nodes/{cache.node_type}/val_mask", split, first_rows[-1], target.rows),
        test_n=_mask(cache, f"{folder}/nodes/{cache.node_type}/test_mask", split, first_rows[-1], target.rows),
        degree_n=sum(
            (_row_sums(block) for block in blocks.values()), start=torch.zeros(1, dtype=torch.float64)
        ).float(),
        local=blocks.pop(_HERE),
        remote=blocks,
        send_rows={
            peer: torch.cat([one.send_rows[peer] + first for one, first in zip(nodes, first_rows, strict=False)])
            for peer in peers
        },
        typed=Typed(
            types=types,
            relations=[RelationSums(name=one.name, rows_m=one.rows_m) for one in relations],
            target=target,
        ),
    )


class _Nodes:
    """The nodes of one type."""

    def __init__(self, cache: Cache, kind: NodeType, folder: str, index_type: str, peers: Sequence[int]) -> None:
        def numbers(name: str) -> Tensor:
            return read_ids(cache, f"{folder}/{name}", kind.num_nodes)

        self.kind, self.ids_k = kind, numbers("global_ids")
        self.halo_ids = {peer: numbers(f"recv_{peer}") for peer in peers}
        num_rows = len(self.ids_k)
        self.send_rows = {peer: read_send_rows(cache, f"{folder}/send_{peer}", index_type, num_rows) for peer in peers}
        self.x_kF = read_features(cache, f"{folder}/x", num_rows, kind.num_features) if kind.num_features else None


class _Columns:
    """The columns that the rows of one part have, type after type."""

    def __init__(self, widths: Sequence[int], nodes: Sequence[_Nodes]) -> None:
        names = [one.kind.name for one in nodes]
        self.width, self.total = dict(zip(names, widths, strict=True)), sum(widths)
        self.first = dict(zip(names, [0, *accumulate(widths)], strict=False))


class _Relation:
    """The in-edges of one relation, without the rows that have none, and with columns of all types."""

    def __init__(
        self,
        cache: Cache,
        kind: RelationType,
        folder: str,
        index_type: str,
        types: Sequence[TypeRows],
        columns: dict[int, _Columns],
    ) -> None:
        rows = next(one.rows for one in types if one.name == kind.destination)
        found = {
            source: read_csr(
                cache,
                f"{folder}/local" if source == _HERE else f"{folder}/from_{source}",
                index_type,
                rows.stop - rows.start,
                of.width[kind.source],
            )
            for source, of in columns.items()
        }
        has_edges_k = torch.stack([block.indptr.diff() for block in found.values()]).sum(0) > 0
        local_m = has_edges_k.nonzero().squeeze(1)
        self.name, self.rows_m = kind.key, local_m + rows.start
        self.blocks = {
            source: Csr(
                indptr=indptr_of(block.indptr.diff()[local_m], torch.int64),
                indices=block.indices.long() + columns[source].first[kind.source],
                weights=block.weights,
                num_columns=columns[source].total,
            )
            for source, block in found.items()
        }


def _stacked(blocks: Sequence[Csr], num_columns: int) -> Csr:
    """Matrices of the same columns, one below the other."""
    nothing = torch.empty(0, dtype=torch.int64)
    indices = torch.cat([nothing, *(block.indices for block in blocks)])
    counts = torch.cat([nothing, *(block.indptr.diff() for block in blocks)])
    index_type = torch.int32 if max(len(indices), len(counts), num_columns) < 2**31 else torch.int64
    weights = None
    if any(block.weights is not None for block in blocks):
        weights = torch.cat(
            [torch.ones(block.num_edges) if block.weights is None else block.weights for block in blocks]
        )
    return Csr(
        indptr=indptr_of(counts, index_type), indices=indices.to(index_type), weights=weights, num_columns=num_columns
    )


def _row_sums(block: Csr) -> Tensor:
    """The weights of each row's edges, added up: float64."""
    weights = torch.ones(block.num_edges) if block.weights is None else block.weights
    sums = torch.zeros(block.num_rows, dtype=torch.float64)
    return sums.index_add_(0, rows_of(block), weights.double())


def _labels(cache: Cache, name: str, num_rows: int, target: slice) -> Tensor:
    """Labels of the rows of all types: unknown for all but the target."""
    y = read_labels(cache, name, target.stop - target.start)
    if y.dim() == 1:
        every = torch.full((num_rows,), -1, dtype=torch.int64)
    else:
        every = torch.full((num_rows, y.shape[1]), float("nan"))
    every[target] = y.to(every.dtype)
    return every


def _mask(cache: Cache, name: str, split: int, num_rows: int, target: slice) -> Tensor:
    every = torch.zeros(num_rows, dtype=torch.bool)
    every[target] = read_mask(cache, name, target.stop - target.start, split)
    return every
