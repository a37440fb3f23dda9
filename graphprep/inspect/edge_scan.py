"""One pass over the edges of a store, by ranges of rows: degrees, components, duplicates, direction, homophily.

What is held is a range of edges and some 30 bytes a node, whatever the number of edges. Every figure but one counts
all edges: whether an edge has its reverse is looked up for a sample of pairs of nodes, drawn by a hash of the pair, so
that both directions fall into it together. Where a type has no more edges than the sample holds, that is exact too.

- Components are weak ones, over all node and edge types, by union-find with path halving.
- Edge homophily is the share of edges between labelled nodes of one type whose ends have the same label; node
  homophily (Pei et al., "Geom-GCN", 2020) is the mean over nodes of that share among their in-neighbours; adjusted
  homophily (Platonov et al., "Characterizing Graph Datasets for Node Classification", 2023) takes off what the labels'
  frequencies alone would give: 0 is what chance gives, 1 the greatest. Self-loops count in none of them.

Letters: N nodes, E directed edges, C classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep import progress
from graphprep.cache.source import GraphSource
from graphprep.csr import index_dtype
from graphprep.graph import Csr, EdgeType
from graphprep.inspect import edge_kernels as kernels

EDGES_AT_A_TIME = 1 << 23
ROWS_AT_A_TIME = 1 << 20
SAMPLED_EDGES = 1 << 20
"""Edges beyond which only some pairs of nodes are asked for their reverse."""
NO_LABELS: NDArray[np.int32] = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EdgeFindings:
    """What the edges of one type showed."""

    in_degree_N: NDArray[np.int32]
    """of the destination type's nodes"""
    out_degree_N: NDArray[np.int32]
    """of the source type's nodes"""
    self_loops: int
    duplicates: int
    """edges with the same ends as the one before them"""
    homophily: dict[str, float] | None
    """edge, node, adjusted, and labelled_edges; None where the ends have no classes in common"""
    one_way: dict[str, Any] | None
    """share of distinct edges without a reverse, how many were looked at, and whether those are all; None between
    types, where there are no reverses"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Findings:
    """What the edges of all types showed."""

    edges: dict[EdgeType, EdgeFindings]
    components: int
    largest_component: int
    """nodes in it"""


def scan_edges(source: GraphSource, labels: Mapping[str, NDArray[np.int32]]) -> Findings:
    """Look at every edge once.

    Args:
        source: the graph.
        labels: int32 [N], -1 for none, of the node types that have one class a node.
    """
    firsts, total = {}, 0
    for node_type, count in source.num_nodes.items():
        firsts[node_type], total = total, total + count
    parent_N: NDArray[Any] = np.arange(total, dtype=index_dtype(total))
    edges = {}
    with progress.task("looking at edges", total=sum(source.num_edges.values()), unit="edges") as task:
        for kind in source.num_edges:
            scan = _Scan(source, kind, labels)
            for first_row, rows in ranges_of(source, kind):
                scan.add(first_row, rows)
                kernels.join_rows(
                    rows.indptr, rows.indices, firsts[kind.destination] + first_row, firsts[kind.source], parent_N
                )
                task.advance(rows.num_edges)
            edges[kind] = scan.findings()
    size_N = np.zeros(total, parent_N.dtype)
    kernels.component_sizes(parent_N, size_N)
    return Findings(edges=edges, components=int((size_N > 0).sum()), largest_component=int(size_N.max(initial=0)))


def ranges_of(source: GraphSource, kind: EdgeType) -> Iterator[tuple[int, Csr]]:
    """The in-edges of a type as (first row, rows), each range of at most EDGES_AT_A_TIME edges, or one row."""
    indptr = source.indptr(kind)
    start, num_rows = 0, len(indptr) - 1
    while start < num_rows:
        stop = int(np.searchsorted(indptr, indptr[start] + EDGES_AT_A_TIME, side="right")) - 1
        stop = min(max(stop, start + 1), start + ROWS_AT_A_TIME, num_rows)
        yield start, source.csr_rows(kind, start, stop)
        start = stop


class _Scan:
    """The edges of one type, range after range."""

    def __init__(self, source: GraphSource, kind: EdgeType, labels: Mapping[str, NDArray[np.int32]]) -> None:
        self._square = kind.source == kind.destination
        self._label_N = labels.get(kind.source, NO_LABELS) if self._square else NO_LABELS
        num_classes = int(self._label_N.max(initial=-1)) + 1
        self._in_degree_N = np.zeros(source.num_nodes[kind.destination], np.int32)
        self._out_degree_N = np.zeros(source.num_nodes[kind.source], np.int32)
        self._counts, self._node_sums = np.zeros(4, np.int64), np.zeros(2)
        self._into_C, self._from_C = np.zeros(num_classes, np.int64), np.zeros(num_classes, np.int64)
        num_edges = source.num_edges[kind]
        self._asks = self._square and source.directed
        bits = max(0, (num_edges - 1).bit_length() - (SAMPLED_EDGES - 1).bit_length()) if num_edges else 0
        self._mask = np.uint64((1 << bits) - 1)
        room = 4 * min(num_edges, SAMPLED_EDGES) if self._asks else 0
        self._low_S, self._high_S = np.empty(room, np.int64), np.empty(room, np.int64)
        self._sampled = 0

    def add(self, first_row: int, rows: Csr) -> None:
        """Look at one range."""
        last = first_row + rows.num_rows
        self._in_degree_N[first_row:last] = np.diff(rows.indptr)
        kernels.scan_rows(
            rows.indptr,
            rows.indices,
            first_row if self._square else -1,
            self._label_N[first_row:last],
            self._label_N,
            self._out_degree_N,
            self._counts,
            self._into_C,
            self._from_C,
            self._node_sums,
        )
        if self._asks:
            self._sampled = kernels.sample_pairs(
                rows.indptr, rows.indices, first_row, self._mask, self._low_S, self._high_S, self._sampled
            )

    def findings(self) -> EdgeFindings:
        return EdgeFindings(
            in_degree_N=self._in_degree_N,
            out_degree_N=self._out_degree_N,
            self_loops=int(self._counts[kernels.SELF_LOOPS]),
            duplicates=int(self._counts[kernels.DUPLICATES]),
            homophily=self._homophily(),
            one_way=self._one_way(),
        )

    def _homophily(self) -> dict[str, float] | None:
        labelled = int(self._counts[kernels.LABELLED])
        if not labelled:
            return None
        edge = float(self._counts[kernels.SAME_LABEL]) / labelled
        by_chance = float((self._into_C / labelled * (self._from_C / labelled)).sum())
        return {
            "labelled_edges": labelled,
            "edge": edge,
            "node": float(self._node_sums[0] / self._node_sums[1]),
            "adjusted": (edge - by_chance) / (1 - by_chance) if by_chance < 1 else 1.0,
        }

    def _one_way(self) -> dict[str, Any] | None:
        if not self._square:
            return None
        if not self._asks:
            return {"share": 0.0, "looked_at": None, "is_exact": True}
        kept = min(self._sampled, len(self._low_S))
        pair = np.stack([self._low_S[:kept], np.maximum(self._high_S[:kept], -1 - self._high_S[:kept])])
        order = np.lexsort(pair[::-1])
        same = (pair[:, order[1:]] == pair[:, order[:-1]]).all(axis=0)
        two_way = 2 * int(same.sum())
        is_exact = not int(self._mask) and kept == self._sampled
        return {"share": (kept - two_way) / kept if kept else 0.0, "looked_at": kept, "is_exact": is_exact}
