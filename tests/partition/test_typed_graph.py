"""Nodes of several types in one numbering, and back."""

from __future__ import annotations

import numpy as np

from graphprep.core.csr import from_edges
from graphprep.core.types import EdgeChunk, EdgeType, Treatment
from graphprep.partition.typed_graph import WholeGraph


def typed_graph() -> WholeGraph:
    """Two authors, three papers; papers are given first, since order is by name."""

    def matrix(edges: list[tuple[int, int]], sources: int, rows: int):  # type: ignore[no-untyped-def]
        src, dst = np.array(edges).T
        chunk = EdgeChunk(src, dst)
        return from_edges([chunk], num_rows=rows, num_sources=sources, treatment=Treatment(), name="t", square=False)[0]

    return WholeGraph.of(
        {
            EdgeType("author", "writes", "paper"): matrix([(0, 0), (1, 0), (1, 1)], 2, 3),
            EdgeType("paper", "cites", "paper"): matrix([(0, 1), (0, 2)], 3, 3),
        },
        {"paper": 3, "author": 2},
        training_masks={"paper": np.array([True, False, False])},
    )


def test_all_edges_in_one_matrix() -> None:
    """Guards against an edge whose ends are numbered within different types; authors are 0 and 1, papers 2 to 4."""
    graph = typed_graph()
    rows = np.repeat(np.arange(5), np.diff(graph.matrix.indptr))
    edges = sorted(zip(graph.matrix.indices.tolist(), rows.tolist(), strict=True))
    assert edges == [(0, 2), (1, 2), (1, 3), (2, 3), (2, 4)]
    assert graph.has_several_types
    mask = graph.training_mask()
    assert mask is not None
    assert mask.tolist() == [False, False, True, False, False]


def test_one_type_is_not_copied() -> None:
    """Guards against a second copy of a homogeneous graph's edges."""
    matrix = typed_graph().matrices[EdgeType("paper", "cites", "paper")]
    graph = WholeGraph.of_one_type(matrix)
    assert graph.matrix is matrix
    assert not graph.has_several_types
    assert graph.training_mask() is None


def test_assignments_and_orders_are_told_by_type() -> None:
    """Guards against a part's order that names a node of another type."""
    graph = typed_graph()
    by_type = graph.assignments(np.array([0, 1, 1, 0, 1], np.int32))
    assert {name: part.tolist() for name, part in by_type.items()} == {"author": [0, 1], "paper": [1, 0, 1]}
    orders = graph.orders([np.array([3, 0]), np.array([4, 1, 2])])
    assert {name: [ids.tolist() for ids in parts] for name, parts in orders.items()} == {
        "author": [[0], [1]],
        "paper": [[1], [2, 0]],
    }
