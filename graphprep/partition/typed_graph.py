"""The graph that is partitioned: the nodes of all types in one numbering, and all edges as one matrix.

An exchange sends a row for each distinct (type, node) that a peer needs, whatever the types of its edges; so to the
partitioner a graph of several types is a graph like any other, whose nodes are numbered type after type. Types return
in the limits (each type's nodes and in-edges are balanced) and in the assignment, which is split by type.

Letters: N nodes of all types, T types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphprep.core import csr
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, Csr, EdgeChunk, EdgeType, Ids, Treatment


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WholeGraph:
    """A graph of one or several types."""

    matrices: Mapping[EdgeType, Csr]
    """in-edges of each edge type, as the store has them"""
    num_nodes: Mapping[str, int]
    """of each node type, in name order"""
    training_masks: Mapping[str, NDArray[np.bool_]]
    """bool, one entry a node, of the types that have training nodes"""
    matrix: Csr
    """in-edges of all types in the common numbering, N x N; the only matrix itself where there is one type"""

    @classmethod
    def of(
        cls,
        matrices: Mapping[EdgeType, Csr],
        num_nodes: Mapping[str, int],
        *,
        training_masks: Mapping[str, NDArray[np.bool_]] | None = None,
    ) -> WholeGraph:
        """Number the nodes and join the matrices."""
        in_order = {name: num_nodes[name] for name in sorted(num_nodes)}
        return cls(
            matrices=matrices,
            num_nodes=in_order,
            training_masks=training_masks or {},
            matrix=joined(matrices, in_order),
        )

    @classmethod
    def of_one_type(cls, matrix: Csr, train_mask: NDArray[np.bool_] | None = None) -> WholeGraph:
        """A homogeneous graph."""
        return cls.of(
            {HOMOGENEOUS_EDGE: matrix},
            {HOMOGENEOUS_NODE: matrix.num_rows},
            training_masks={} if train_mask is None else {HOMOGENEOUS_NODE: train_mask},
        )

    @property
    def has_several_types(self) -> bool:
        return len(self.num_nodes) > 1 or len(self.matrices) > 1

    def by_type(self, values_N: NDArray[np.generic]) -> dict[str, NDArray[np.generic]]:
        """An array of all nodes, cut into one for each node type; views."""
        ends = np.cumsum(list(self.num_nodes.values()))
        return dict(zip(self.num_nodes, np.split(values_N, ends[:-1]), strict=True))

    def assignments(self, part_N: NDArray[np.int32]) -> dict[str, NDArray[np.int32]]:
        """The part of each node, type by type."""
        return self.by_type(part_N)  # type: ignore[return-value]

    def orders(self, nodes_P: list[NDArray[np.int64]]) -> dict[str, list[NDArray[np.int64]]]:
        """The nodes of each part in order, type by type, numbered within the type."""
        first, found = 0, {}
        for name, count in self.num_nodes.items():
            within = [(first <= nodes) & (nodes < first + count) for nodes in nodes_P]
            found[name] = [nodes[inside] - first for nodes, inside in zip(nodes_P, within, strict=True)]
            first += count
        return found

    def training_mask(self) -> NDArray[np.bool_] | None:
        """bool [N]: the training nodes of all types; None if there are none."""
        if not any(mask.any() for mask in self.training_masks.values()):
            return None
        nobody = {name: np.zeros(count, np.bool_) for name, count in self.num_nodes.items()}
        return np.concatenate([self.training_masks.get(name, nobody[name]) for name in self.num_nodes])


def joined(matrices: Mapping[EdgeType, Csr], num_nodes: Mapping[str, int], *, with_data: bool = False) -> Csr:
    """In-edges of all types in one matrix, whose nodes are numbered type after type; with the data of all, or of one
    type alone."""
    if len(num_nodes) == 1 and len(matrices) == 1:
        return next(iter(matrices.values()))
    firsts = dict(zip(num_nodes, np.cumsum([0, *num_nodes.values()]).tolist(), strict=False))
    total = sum(num_nodes.values())
    ids = csr.index_dtype(total)

    def chunk_of(kind: EdgeType, matrix: Csr) -> EdgeChunk:
        sources: Ids = matrix.indices + ids(firsts[kind.source])
        rows = np.arange(firsts[kind.destination], firsts[kind.destination] + matrix.num_rows, dtype=ids)
        return EdgeChunk(sources, np.repeat(rows, np.diff(matrix.indptr)), matrix.data if with_data else None)

    matrix, _ = csr.from_edges(
        [chunk_of(kind, matrix) for kind, matrix in matrices.items()],
        num_rows=total,
        num_sources=total,
        treatment=Treatment(),
        name="all types",
    )
    return matrix
