"""Features of nodes that change: sorted by node and time, and what they were before a time.

The features of a node at a time are those of its last row whose time is strictly earlier, as neighbours are of strictly
earlier events; of several rows of one time the last one of the input counts. Before its first row a node has zeros.

Letters: N nodes, R rows, D features, q queries (a node at a time).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.event_rows import ChangingFeatures
from graphprep.errors import DatasetError, UsageError
from graphprep.temporal.format import CHANGING_OFFSETS, CHANGING_TIME, CHANGING_X
from graphprep.temporal.time_index_kernels import rows_before


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureHistory:
    """All rows, in the order of nodes and of each node's times."""

    offsets_N: NDArray[np.int64]
    """[N + 1]: where the rows of each node begin"""
    time_R: NDArray[Any]
    x_RD: NDArray[np.float32]

    @classmethod
    def sorted(cls, rows: ChangingFeatures, num_nodes: int, time_dtype: np.dtype[Any]) -> FeatureHistory:
        """Rows in any order, as they are kept.

        Args:
            rows: of nodes and times.
            num_nodes: N.
            time_dtype: of the times of events.

        Raises:
            DatasetError: times are not whole and those of the events are.
        """
        time_R = np.asarray(rows.time)
        if time_R.dtype.kind == "f" and time_dtype.kind != "f":
            if not np.array_equal(time_R, np.floor(time_R)):
                raise DatasetError(
                    "times of features that change are not whole and those of events are; give both in one form"
                )
            time_R = time_R.astype(np.int64)
        order = np.lexsort((time_R, rows.node))  # stable
        counts = np.bincount(rows.node, minlength=num_nodes)
        return cls(
            offsets_N=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            time_R=time_R[order].astype(time_dtype),
            x_RD=np.ascontiguousarray(rows.x[order], np.float32),
        )

    def named(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """The arrays by the names of the format."""
        yield CHANGING_OFFSETS, self.offsets_N
        yield CHANGING_TIME, self.time_R
        yield CHANGING_X, self.x_RD

    def before(self, node_q: NDArray[Any], time_q: NDArray[Any]) -> NDArray[np.float32]:
        """The features of each node by its last row that is strictly earlier than a time; float32 [q, D].

        Args:
            node_q: rows of nodes.
            time_q: a time for each of them.

        Raises:
            UsageError: there are other numbers of nodes and times, or a node is not there.
        """
        nodes, times = np.asarray(node_q, np.int64), np.asarray(time_q)
        if nodes.shape != times.shape or nodes.ndim != 1:
            raise UsageError(f"{nodes.shape} nodes have {times.shape} times; give one time for each node")
        num_nodes = len(self.offsets_N) - 1
        if len(nodes) and (nodes.min() < 0 or nodes.max() >= num_nodes):
            wrong = int(nodes.min() if nodes.min() < 0 else nodes.max())
            raise UsageError(f"there is no node {wrong}; nodes are 0 .. {num_nodes - 1}")
        row_q = np.empty(len(nodes), np.int64)
        rows_before(self.offsets_N, self.time_R, nodes, times, row_q)
        x_qD = np.zeros((len(nodes), self.x_RD.shape[1]), np.float32)
        is_there_q = row_q >= 0
        x_qD[is_there_q] = self.x_RD[row_q[is_there_q]]
        return x_qD
