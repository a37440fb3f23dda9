"""The same counts over fixed ranges of rows, by an executor, from a source that workers can open themselves.

Each range gives the edges between parts, and for every node a bit for each part that its row goes to (`in_order`); bits
are joined and counted in the end. 8 bytes a node for each 64 parts and each range that is under way.

Letters: N nodes, E directed edges, P parts, W words of 64 bits for a bit a part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from graphprep.core.row_ranges import grouped, row_ranges
from graphprep.core.types import EdgeType
from graphprep.system import progress
from graphprep.system.executor import Executor
from graphprep.traffic.counts import Assignments, Traffic, check_counts
from graphprep.traffic.counts_streamed import WORD_BITS, add_marked, mark_rows

if TYPE_CHECKING:
    from graphprep.core.source import EdgeSource

EDGES_AT_A_TIME = 1 << 22
BYTES_AN_EDGE = 16
GROUPS = 32
"""of ranges, at most: each gives bits for all nodes"""

Group = tuple[EdgeType, tuple[tuple[int, int], ...]]
"""ranges of rows of one edge type"""


def count_by_ranges(source: EdgeSource, assignments: Assignments, num_parts: int, executor: Executor) -> Traffic:
    """What `count_traffic` counts.

    Args:
        source: of the edges.
        assignments: int32 [N] for every node type.
        num_parts: P; parts may be empty.
        executor: of the ranges.

    Raises:
        PartitionError: as `count_traffic`.
    """
    sizes = source.num_nodes
    ends = {kind: (sizes[kind.destination], sizes[kind.source]) for kind in source.num_edges}
    check_counts(ends, assignments, num_parts)
    words = -(-num_parts // WORD_BITS)
    rows_PP = np.zeros((num_parts, num_parts), np.int64)
    edges_PP = np.zeros((num_parts, num_parts), np.int64)
    with progress.task("counting traffic", total=sum(source.num_edges.values()), unit="edges") as task:
        for node_type in dict.fromkeys(kind.source for kind in source.num_edges):
            bits_WN = np.zeros((words, source.num_nodes[node_type]), np.uint64)
            pieces: list[Group] = [
                (kind, group)
                for kind in source.num_edges
                if kind.source == node_type
                for group in grouped(row_ranges(source.indptr(kind), EDGES_AT_A_TIME), GROUPS)
            ]
            needed = bits_WN.nbytes + EDGES_AT_A_TIME * BYTES_AN_EDGE
            for marked_WN, crossing_PP in executor.map(
                _count_group, pieces, source, dict(assignments), num_parts, needed=needed
            ):
                bits_WN |= marked_WN
                edges_PP += crossing_PP
                task.advance(float(crossing_PP.sum()))
            for word in range(words):
                add_marked(bits_WN[word], assignments[node_type], word * WORD_BITS, rows_PP)
    local_edges_P = np.diagonal(edges_PP).copy()
    np.fill_diagonal(edges_PP, 0)
    return Traffic(rows_PP=rows_PP, edges_PP=edges_PP, local_edges_P=local_edges_P)


def _count_group(
    group: Group, source: EdgeSource, assignments: Assignments, num_parts: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """uint64 [W, N]: the parts that each source's row goes to; int64 [P, P]: the edges, local ones on the diagonal."""
    kind, ranges = group
    part_N, into_N = assignments[kind.source], assignments[kind.destination]
    bits_WN = np.zeros((-(-num_parts // WORD_BITS), len(part_N)), np.uint64)
    edges_PP, none = np.zeros((num_parts, num_parts), np.int64), np.zeros((0, 0), np.int64)
    for start, stop in ranges:
        rows = source.csr_rows(kind, start, stop)
        for word, bits_N in enumerate(bits_WN):
            counted = edges_PP if word == 0 else none
            mark_rows(rows.indptr, rows.indices, into_N[start:stop], part_N, word * WORD_BITS, bits_N, counted)
    return bits_WN, edges_PP
