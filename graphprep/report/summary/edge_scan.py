"""One pass over the edges of a store, by ranges of rows: degrees, components, duplicates, direction, homophily.

An executor scans groups of ranges in parallel. The memory is some 30 bytes a node, and a range of edges and 16 bytes a
node for each group that is under way, whatever the number of edges. Every figure but one counts all edges: whether an
edge has its reverse is found for a sample of pairs of nodes, chosen by a hash of the pair, so that both directions are
sampled or neither. Where a type has no more edges than the sample holds, that is exact too.

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
"""of ranges, at most: each has some figures for all nodes"""
BYTES_AN_EDGE, BYTES_A_NODE = 16, 16
"""that a group takes, of a range and of all nodes"""
SAMPLED_EDGES = 1 << 20
"""Edges beyond which the reverse is looked up for a sample of the pairs of nodes."""
NO_LABELS: NDArray[np.int32] = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EdgeFindings:
    """The figures of the edges of one type."""

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
    """share of distinct edges without a reverse, how many were sampled, and whether those are all; None between
    types, where there are no reverses"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Findings:
    """The figures of the edges of all types."""

    edges: dict[EdgeType, EdgeFindings]
    components: int
    largest_component: int
    """nodes in it"""


def scan_edges(
    source: GraphSource, labels: Mapping[str, NDArray[np.int32]], *, executor: Executor | None = None
) -> Findings:
    """Read every edge once.

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
    with progress.task("scanning edges", total=sum(source.num_edges.values()), unit="edges") as task:
        for kind in source.num_edges:
            counts = _EdgeCounts(source, kind, labels, 0, source.num_nodes[kind.destination])
            ranges = row_ranges(source.indptr(kind), EDGES_AT_A_TIME, ROWS_AT_A_TIME)
            groups = [(kind, group) for group in grouped(ranges, GROUPS)]
            needed = EDGES_AT_A_TIME * BYTES_AN_EDGE + total * BYTES_A_NODE
            for of_group, parent_of_group_N in executor.map(
                _scan_group, groups, source, dict(labels), firsts, needed=needed
            ):
                counts.add(of_group)
                kernels.join_components(parent_of_group_N, parent_N)
                task.advance(of_group.num_edges)
            edges[kind] = counts.findings(source)
    size_N = np.zeros(total, parent_N.dtype)
    kernels.component_sizes(parent_N, size_N)
    return Findings(edges=edges, components=int((size_N > 0).sum()), largest_component=int(size_N.max(initial=0)))


def _scan_group(
    group: tuple[EdgeType, tuple[tuple[int, int], ...]],
    source: GraphSource,
    labels: Mapping[str, NDArray[np.int32]],
    firsts: Mapping[str, int],
) -> tuple[_EdgeCounts, NDArray[Any]]:
    """The counts of a group of ranges that follow each other, and the components of its edges over all nodes."""
    kind, ranges = group
    label_N, is_square = _labels(kind, labels), kind.source == kind.destination
    counts = _EdgeCounts(source, kind, labels, ranges[0][0], ranges[-1][1])
    total = sum(source.num_nodes.values())
    parent_N: NDArray[Any] = np.arange(total, dtype=index_dtype(total))
    mask, capacity = _sample(source, kind)
    low_S, high_S = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    for start, stop in ranges:
        rows = source.csr_rows(kind, start, stop)
        counts.num_edges += rows.num_edges
        counts.in_degree_R[start - counts.first_row : stop - counts.first_row] = np.diff(rows.indptr)
        kernels.scan_rows(
            rows.indptr,
            rows.indices,
            start if is_square else -1,
            label_N[start:stop],
            label_N,
            counts.out_degree_N,
            counts.counts,
            counts.into_C,
            counts.from_C,
            counts.node_sums,
        )
        kernels.join_rows(rows.indptr, rows.indices, firsts[kind.destination] + start, firsts[kind.source], parent_N)
        if capacity:
            counts.sampled = kernels.sample_pairs(rows.indptr, rows.indices, start, mask, low_S, high_S, counts.sampled)
    kept = min(counts.sampled, capacity)
    counts.pairs.append((low_S[:kept].copy(), high_S[:kept].copy()))
    return counts, parent_N


def _labels(kind: EdgeType, labels: Mapping[str, NDArray[np.int32]]) -> NDArray[np.int32]:
    """The labels of both ends of a type's edges; none where the ends are of different types."""
    return labels.get(kind.source, NO_LABELS) if kind.source == kind.destination else NO_LABELS


def _sample(source: GraphSource, kind: EdgeType) -> tuple[np.uint64, int]:
    """The mask of the hashes of pairs that are sampled, and the most edges to sample; 0 where none are."""
    num_edges = source.num_edges[kind]
    bits = max(0, (num_edges - 1).bit_length() - (SAMPLED_EDGES - 1).bit_length()) if num_edges else 0
    samples = kind.source == kind.destination and source.directed
    return np.uint64((1 << bits) - 1), 4 * min(num_edges, SAMPLED_EDGES) if samples else 0


class _EdgeCounts:
    """Sums over edges of one type: those of one group of ranges of rows, or of all."""

    def __init__(
        self,
        source: GraphSource,
        kind: EdgeType,
        labels: Mapping[str, NDArray[np.int32]],
        first_row: int,
        last_row: int,
    ) -> None:
        num_classes = int(_labels(kind, labels).max(initial=-1)) + 1
        self.kind, self.first_row, self.num_edges = kind, first_row, 0
        self.in_degree_R = np.zeros(last_row - first_row, np.int32)
        self.out_degree_N = np.zeros(source.num_nodes[kind.source], np.int32)
        self.counts, self.node_sums = np.zeros(4, np.int64), np.zeros(2)
        self.into_C, self.from_C = np.zeros(num_classes, np.int64), np.zeros(num_classes, np.int64)
        self.pairs: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self.sampled = 0
        """edges of the sample, also those beyond its capacity"""

    def add(self, group: _EdgeCounts) -> None:
        """Add the counts of a group; groups come in the order of their rows."""
        self.in_degree_R[group.first_row : group.first_row + len(group.in_degree_R)] = group.in_degree_R
        for name in ("out_degree_N", "counts", "node_sums", "into_C", "from_C"):
            getattr(self, name)[...] += getattr(group, name)
        self.pairs += group.pairs
        self.sampled += group.sampled

    def findings(self, source: GraphSource) -> EdgeFindings:
        return EdgeFindings(
            in_degree_N=self.in_degree_R,
            out_degree_N=self.out_degree_N,
            self_loops=int(self.counts[kernels.SELF_LOOPS]),
            duplicates=int(self.counts[kernels.DUPLICATES]),
            homophily=self._homophily(),
            one_way=self._one_way(source) if self.kind.source == self.kind.destination else None,
        )

    def _homophily(self) -> dict[str, float] | None:
        labelled = int(self.counts[kernels.LABELLED])
        if not labelled:
            return None
        edge = float(self.counts[kernels.SAME_LABEL]) / labelled
        by_chance = float((self.into_C / labelled * (self.from_C / labelled)).sum())
        return {
            "labelled_edges": labelled,
            "edge": edge,
            "node": float(self.node_sums[0] / self.node_sums[1]),
            "adjusted": (edge - by_chance) / (1 - by_chance) if by_chance < 1 else 1.0,
        }

    def _one_way(self, source: GraphSource) -> dict[str, Any]:
        if not source.directed:
            return {"share": 0.0, "looked_at": None, "is_exact": True}
        mask, capacity = _sample(source, self.kind)
        kept = min(self.sampled, capacity)
        low_S, high_S = (np.concatenate(ends)[:kept] for ends in zip(*self.pairs, strict=True))
        pair = np.stack([low_S, np.maximum(high_S, -1 - high_S)])
        order = np.lexsort(pair[::-1])
        same = (pair[:, order[1:]] == pair[:, order[:-1]]).all(axis=0)
        two_way = 2 * int(same.sum())
        is_exact = not int(mask) and kept == self.sampled
        return {"share": (kept - two_way) / kept if kept else 0.0, "looked_at": kept, "is_exact": is_exact}
