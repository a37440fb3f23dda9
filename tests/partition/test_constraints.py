"""Which loads there are, in which order, with which limit."""

from __future__ import annotations

import math

import numpy as np

from graphprep.core.types import EdgeType
from graphprep.partition.constraints import loads_of, node_loads
from graphprep.partition.typed_graph import WholeGraph
from graphprep.traffic import LIMITS
from tests.partition.test_typed_graph import typed_graph

DEGREES = np.array([3, 0, 1])
MASK = np.array([True, False, False])


def test_all_loads_of_one_type() -> None:
    """Guards against a load that is forgotten, and against work as a fourth constraint that follows from two."""
    nodes, in_edges, training = node_loads(DEGREES, MASK, imbalance=1.05)
    assert (nodes.what, in_edges.what, training.what) == ("nodes", "in-edges", "training nodes")
    assert (nodes.limit, in_edges.limit, training.limit) == (1.05, 1.05, 1.10)
    assert in_edges.amount_N.tolist() == [3, 0, 1]


def test_what_is_not_asked_for_is_free() -> None:
    """Guards against a cut that pays for a balance of edges that nobody wants; nodes still come first."""
    [nodes] = node_loads(DEGREES, MASK, imbalance=1.03, limits=["nodes"])
    assert nodes.limit == 1.03
    free, work = node_loads(DEGREES, None, imbalance=1.03, limits=["work"])
    assert (free.what, free.limit) == ("nodes", math.inf)
    assert work.amount_N.tolist() == [13, 10, 11]


def test_types_have_loads_of_their_own() -> None:
    """Guards against a rank that gets all the papers and another all the authors."""
    graph = typed_graph()
    found = {load.what: load.amount_N.tolist() for load in loads_of(graph, imbalance=1.05)}
    assert found["nodes of author"] == [1, 1, 0, 0, 0]
    assert found["nodes of paper"] == [0, 0, 1, 1, 1]
    assert found["in-edges of author__writes__paper"] == [0, 0, 2, 1, 0]
    assert found["in-edges of paper__cites__paper"] == [0, 0, 0, 1, 1]
    assert found["in-edges"] == [0, 0, 2, 2, 1]
    assert found["training nodes"] == [0, 0, 1, 0, 0]
    limits = [name for name in LIMITS if name != "types"]
    assert not [load for load in loads_of(graph, imbalance=1.05, limits=limits) if " of " in load.what]


def test_one_type_has_no_loads_of_types() -> None:
    """Guards against every limit being told twice."""
    matrix = typed_graph().matrices[EdgeType("paper", "cites", "paper")]
    assert len(loads_of(WholeGraph.of_one_type(matrix), imbalance=1.05)) == 2
