"""One pass over the edges of a store, by ranges of rows: degrees, components, duplicates, direction, homophily.

Groups of ranges are looked at side by side, by an executor. What is held is some 30 bytes a node, and a range of edges
and 16 bytes a node for each group that is under way, whatever the number of edges. Every figure but one counts
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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.csr import index_dtype
from graphprep.core.row_ranges import grouped, row_ranges
from graphprep.core.source import GraphSource
from graphprep.core.types import EdgeType
from graphprep.report.summary import edge_kernels as kernels
from graphprep.system import progress
from graphprep.system.executor import Executor, Threads

EDGES_AT_A_TIME = 1 << 23
ROWS_AT_A_TIME = 1 << 20
GROUPS = 16
"""of ranges, at most: each gives some figures for all nodes"""
BYTES_AN_EDGE, BYTES_A_NODE = 16, 16
"""that a group takes, of a range and of all nodes"""
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


def scan_edges(
    source: GraphSource, labels: Mapping[str, NDArray[np.int32]], *, executor: Executor | None = None
) -> Findings:
    """Look at every edge once.

    Args:
        source: the graph.
        labels: int32 [N], -1 for none, of the node types that have one class a node.
        executor: of groups of ranges; None for threads.
    """
    executor = executor or Threads()
    firsts, total = {}, 0
    for node_type, count in source.num_nodes.items():
        firsts[node_type], total = total, total + count
    parent_N: NDArray[Any] = np.arange(total, dtype=index_dtype(total))
    edges = {}
    with progress.task("looking at edges", total=sum(source.num_edges.values()), unit="edges") as task:
        for kind in source.num_edges:
            found = _Sum(source, kind, labels)
            groups = [(kind, group) for group in grouped(_ranges(source, kind), GROUPS)]
            needed = EDGES_AT_A_TIME * BYTES_AN_EDGE + total * BYTES_A_NODE
            for seen in executor.map(_look, groups, source, dict(labels), firsts, needed=needed):
                found.add(seen)
                kernels.join_components(seen.parent_N, parent_N)
                task.advance(seen.num_edges)
            edges[kind] = found.findings()
    size_N = np.zeros(total, parent_N.dtype)
    kernels.component_sizes(parent_N, size_N)
    return Findings(edges=edges, components=int((size_N > 0).sum()), largest_component=int(size_N.max(initial=0)))


def _ranges(source: GraphSource, kind: EdgeType) -> list[tuple[int, int]]:
    """Ranges of rows of at most EDGES_AT_A_TIME edges, or one row."""
    return row_ranges(source.indptr(kind), EDGES_AT_A_TIME, ROWS_AT_A_TIME)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Seen:
    """What a group of ranges that follow each other showed."""

    first_row: int
    num_edges: int
    in_degree_R: NDArray[np.int32]
    """of the group's rows"""
    out_degree_N: NDArray[np.int32]
    counts: NDArray[np.int64]
    node_sums: NDArray[np.float64]
    into_C: NDArray[np.int64]
    from_C: NDArray[np.int64]
    low_S: NDArray[np.int64]
    high_S: NDArray[np.int64]
    sampled: int
    """pairs of the sample, also those for which there was no room"""
    parent_N: NDArray[Any]
    """components of the group's edges, over the nodes of all types"""


def _look(
    group: tuple[EdgeType, tuple[tuple[int, int], ...]],
    source: GraphSource,
    labels: Mapping[str, NDArray[np.int32]],
    firsts: Mapping[str, int],
) -> _Seen:
    """Look at the ranges of a group. Anything that is summed is summed from 0 here, and group by group afterwards."""
    kind, ranges = group
    square = kind.source == kind.destination
    label_N = labels.get(kind.source, NO_LABELS) if square else NO_LABELS
    num_classes = int(label_N.max(initial=-1)) + 1
    first_row, last_row = ranges[0][0], ranges[-1][1]
    total = sum(source.num_nodes.values())
    mask, room = _sample(source, kind)
    low_S, high_S, sampled = np.empty(room, np.int64), np.empty(room, np.int64), 0
    parent_N: NDArray[Any] = np.arange(total, dtype=index_dtype(total))
    in_degree_R = np.zeros(last_row - first_row, np.int32)
    out_degree_N = np.zeros(source.num_nodes[kind.source], np.int32)
    counts, node_sums = np.zeros(4, np.int64), np.zeros(2)
    into_C, from_C = np.zeros(num_classes, np.int64), np.zeros(num_classes, np.int64)
    num_edges = 0
    for start, stop in ranges:
        rows = source.csr_rows(kind, start, stop)
        num_edges += rows.num_edges
        in_degree_R[start - first_row : stop - first_row] = np.diff(rows.indptr)
        kernels.scan_rows(
            rows.indptr,
            rows.indices,
            start if square else -1,
            label_N[start:stop],
            label_N,
            out_degree_N,
            counts,
            into_C,
            from_C,
            node_sums,
        )
        kernels.join_rows(rows.indptr, rows.indices, firsts[kind.destination] + start, firsts[kind.source], parent_N)
        if room:
            sampled = kernels.sample_pairs(rows.indptr, rows.indices, start, mask, low_S, high_S, sampled)
    kept = min(sampled, room)
    return _Seen(
        first_row=first_row,
        num_edges=num_edges,
        in_degree_R=in_degree_R,
        out_degree_N=out_degree_N,
        counts=counts,
        node_sums=node_sums,
        into_C=into_C,
        from_C=from_C,
        low_S=low_S[:kept].copy(),
        high_S=high_S[:kept].copy(),
        sampled=sampled,
        parent_N=parent_N,
    )


def _sample(source: GraphSource, kind: EdgeType) -> tuple[np.uint64, int]:
    """The mask of the hashes of pairs that are looked up, and for how many there is room; 0 where none are."""
    num_edges = source.num_edges[kind]
    bits = max(0, (num_edges - 1).bit_length() - (SAMPLED_EDGES - 1).bit_length()) if num_edges else 0
    asks = kind.source == kind.destination and source.directed
    return np.uint64((1 << bits) - 1), 4 * min(num_edges, SAMPLED_EDGES) if asks else 0


class _Sum:
    """The edges of one type, group after group."""

    def __init__(self, source: GraphSource, kind: EdgeType, labels: Mapping[str, NDArray[np.int32]]) -> None:
        self._square = kind.source == kind.destination
        label_N = labels.get(kind.source, NO_LABELS) if self._square else NO_LABELS
        num_classes = int(label_N.max(initial=-1)) + 1
        self._in_degree_N = np.zeros(source.num_nodes[kind.destination], np.int32)
        self._out_degree_N = np.zeros(source.num_nodes[kind.source], np.int32)
        self._counts, self._node_sums = np.zeros(4, np.int64), np.zeros(2)
        self._into_C, self._from_C = np.zeros(num_classes, np.int64), np.zeros(num_classes, np.int64)
        self._asks = self._square and source.directed
        self._mask, self._room = _sample(source, kind)
        self._pairs: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._sampled = 0

    def add(self, seen: _Seen) -> None:
        """Add what a group showed."""
        self._in_degree_N[seen.first_row : seen.first_row + len(seen.in_degree_R)] = seen.in_degree_R
        self._out_degree_N += seen.out_degree_N
        self._counts += seen.counts
        self._node_sums += seen.node_sums
        self._into_C += seen.into_C
        self._from_C += seen.from_C
        self._pairs.append((seen.low_S, seen.high_S))
        self._sampled += seen.sampled

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
        kept = min(self._sampled, self._room)
        low_S = np.concatenate([low for low, _ in self._pairs])[:kept]
        high_S = np.concatenate([high for _, high in self._pairs])[:kept]
        pair = np.stack([low_S, np.maximum(high_S, -1 - high_S)])
        order = np.lexsort(pair[::-1])
        same = (pair[:, order[1:]] == pair[:, order[:-1]]).all(axis=0)
        two_way = 2 * int(same.sum())
        is_exact = not int(self._mask) and kept == self._sampled
        return {"share": (kept - two_way) / kept if kept else 0.0, "looked_at": kept, "is_exact": is_exact}
