"""The in-edges of a part by relation, from rows that are made for each relation: for attention over several relations.

A relation has a weight of its own for the rows that its edges begin at, so a row counts once a relation here: there are
C columns, the sources of one relation after those of the other. Sources without an edge of the relation are not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from trainer.data.csr import Csr, index_type, indptr_of
from trainer.data.typed import RelationSums
from trainer.sparse.adjacency import TwoWay
from trainer.sparse.edges import EdgeBlocks


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationEdges:
    """The in-edges of some relations."""

    sources: Sequence[Tensor]
    """int64, ascending, by relation: which of this part's rows, and of the halo's below them, its edges begin at"""
    destinations: Sequence[Tensor]
    """int64, ascending, by relation: this part's rows that its edges end at"""
    numbers: Sequence[int]
    """Of the relations in the graph"""
    edges: TwoWay[EdgeBlocks]
    """A row for each of this part's [n, C], or for each destination of each relation [M, C]"""


def relation_edges(
    sums: Csr, relations: Sequence[RelationSums], used: Sequence[bool], *, num_nodes: int | None, device: torch.device
) -> RelationEdges:
    """Number the sources anew.

    Args:
        sums: the edges of all relations, a row for each destination of each relation, columns [n + H].
        relations: what the rows are of.
        used: for each relation whether its edges count.
        num_nodes: n for a row a node; None for a row for each destination of each relation.
        device: where attention is computed.
    """
    sources, counts, columns, destinations, numbers, begin, width = [], [], [], [], [], 0, 0
    for number, (relation, is_used) in enumerate(zip(relations, used, strict=True)):
        end = begin + len(relation.rows_m)
        if is_used:
            of_edges = sums.indices[int(sums.indptr[begin]) : int(sums.indptr[end])].long()
            # torch's own annotations do not cover `unique`.
            of_relation, places = of_edges.unique(return_inverse=True)  # type: ignore[no-untyped-call]
            sources.append(of_relation)
            columns.append(places + width)
            counts.append(sums.indptr[begin : end + 1].diff())
            destinations.append(relation.rows_m)
            numbers.append(number)
            width += len(of_relation)
        begin = end
    nothing = torch.empty(0, dtype=torch.int64)
    count_M, column_E = torch.cat([nothing, *counts]), torch.cat([nothing, *columns])
    if num_nodes is not None:
        row_E = torch.cat([nothing, *destinations]).repeat_interleave(count_M)
        column_E, count_M = column_E[row_E.argsort(stable=True)], row_E.bincount(minlength=num_nodes)
    small = index_type(len(column_E), len(count_M), width)
    csr = Csr(indptr=indptr_of(count_M, small), indices=column_E.to(small), weights=None, num_columns=width)
    to = partial(torch.Tensor.to, device=device)
    return RelationEdges(
        sources=list(map(to, sources)),
        destinations=list(map(to, destinations)),
        numbers=numbers,
        edges=TwoWay.of(csr, lambda one: EdgeBlocks(one.pattern(device))),
    )
