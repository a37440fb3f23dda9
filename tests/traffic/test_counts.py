"""Rows and edges between parts against a count with sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from graphprep.core.types import HOMOGENEOUS_EDGE, Csr, EdgeType
from graphprep.errors import PartitionError
from graphprep.traffic import count_traffic, counts
from tests.conftest import BoundsChecked
from tests.traffic.slow import Case, cases, csr_of, slow_rows_and_edges


def check(case: Case) -> None:
    traffic = count_traffic(case.csrs, case.assignments, case.num_parts)
    rows, edges = slow_rows_and_edges(case)
    assert traffic.rows_PP.tolist() == rows
    assert traffic.local_edges_P.tolist() == [edges[p][p] for p in range(case.num_parts)]
    assert (traffic.edges_PP + np.diag(traffic.local_edges_P)).tolist() == edges
    assert traffic.in_edges_P.tolist() == [sum(column) for column in zip(*edges, strict=True)]
    assert traffic.halo_rows_P.tolist() == [sum(column) for column in zip(*rows, strict=True)]
    assert traffic.rows_PP.dtype == traffic.edges_PP.dtype == traffic.local_edges_P.dtype == np.int64
    assert np.array_equal(traffic.reversed().rows_PP, traffic.rows_PP.T)


@settings(max_examples=200, deadline=None)
@given(cases())
def test_rows_and_edges_are_counted_exactly(case: Case) -> None:
    """Guards against nodes counted twice over edge types, duplicates, swapped rows and columns, and empty parts."""
    check(case)


@settings(max_examples=50, deadline=None)
@given(cases())
def test_the_count_does_not_depend_on_threads(case: Case) -> None:
    """Guards against stamps that two threads share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts, "EDGES_A_THREAD", 1)
        patch.setattr(counts, "cores", lambda: 4)
        check(case)


def test_large_counts_on_several_threads_equal_those_on_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against races, which small graphs are too quick to show."""
    rng = np.random.default_rng(0)
    num_nodes, num_edges, num_parts = 20_000, 400_000, 16
    indptr = np.concatenate([[0], np.sort(rng.integers(0, num_edges + 1, num_nodes - 1)), [num_edges]])
    csr = Csr(indptr=indptr, indices=rng.integers(0, num_nodes, num_edges).astype(np.int32), num_sources=num_nodes)
    assignments = {"node": rng.integers(0, num_parts, num_nodes).astype(np.int32)}
    one = count_traffic({HOMOGENEOUS_EDGE: csr}, assignments, num_parts)
    monkeypatch.setattr(counts, "EDGES_A_THREAD", 1)
    monkeypatch.setattr(counts, "cores", lambda: 8)
    for _ in range(3):
        many = count_traffic({HOMOGENEOUS_EDGE: csr}, assignments, num_parts)
        assert np.array_equal(many.rows_PP, one.rows_PP)
        assert np.array_equal(many.edges_PP, one.edges_PP)


def test_arrays_that_cannot_be_written_are_read() -> None:
    """Guards against memory-mapped graphs being refused."""
    csr = csr_of([(0, 1), (1, 0)], 2, 2)
    part_N = np.array([0, 1], np.int32)
    for array in (csr.indptr, csr.indices, part_N):
        array.setflags(write=False)
    assert count_traffic({HOMOGENEOUS_EDGE: csr}, {"node": part_N}, 2).rows_PP.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        ({"a": [0, 1]}, "'b' are not assigned"),
        ({"a": [0, 1], "b": [0]}, "1 nodes of type 'b' are assigned, and there are 3"),
        ({"a": [0, 2], "b": [0, 1, 1]}, "parts 0 to 2, and there are parts 0 to 1"),
        ({"a": [0, 1], "b": [-1, 1, 1]}, "parts -1 to 1"),
    ],
)
def test_assignments_that_do_not_fit_are_refused(assignments: dict[str, list[int]], words: str) -> None:
    """Guards against kernels that write outside their arrays."""
    csrs = {EdgeType("a", "to", "b"): csr_of([(0, 0)], 2, 3)}
    arrays = {name: np.array(parts, np.int32) for name, parts in assignments.items()}
    with pytest.raises(PartitionError, match=words):
        count_traffic(csrs, arrays, 2)


def test_kernels_stay_inside_their_arrays(bounds_checked: BoundsChecked) -> None:
    """Guards against reads beyond an array's end, which go unseen until they crash; bounds are checked here."""
    bounds_checked(
        "import numpy as np\n"
        "from graphprep.core.types import HOMOGENEOUS_EDGE, Csr\n"
        "from graphprep.traffic import count_traffic\n"
        "rng = np.random.default_rng(0)\n"
        "for n, e, parts in ((0, 0, 1), (1, 3, 2), (50, 400, 7), (300, 900, 300)):\n"
        "    indptr = np.sort(rng.integers(0, e + 1, n + 1)); indptr[0] = 0; indptr[-1] = e * (n > 0)\n"
        "    csr = Csr(indptr=indptr, indices=rng.integers(0, max(n, 1), e).astype(np.int32), num_sources=n)\n"
        "    traffic = count_traffic({HOMOGENEOUS_EDGE: csr}, {'node': rng.integers(0, parts, n, np.int32)}, parts)\n"
        "    assert traffic.in_edges_P.sum() == e\n"
    )
