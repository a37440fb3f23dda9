"""Edges grouped by part, from pieces of any size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphprep.cache.blocks import NodeLayout
from graphprep.cache.edge_buckets import bucket_by_part
from graphprep.core.csr import weighted_in_degree
from graphprep.core.types import HOMOGENEOUS_EDGE
from tests.conftest import BoundsChecked
from tests.graphs import labelled_graph, with_edge_arrays
from tests.stores import make_store


@pytest.mark.parametrize("piece_bytes", [1, 300, 10**9])
@pytest.mark.parametrize("num_edges", [0, 500])
def test_every_edge_lies_in_the_region_of_its_destination(tmp_path: Path, piece_bytes: int, num_edges: int) -> None:
    """Guards against a row that is cut between pieces, and against weights or features that part from their edge."""
    rng = np.random.default_rng(3)
    raw = labelled_graph(rng, 40, num_edges, weighted=True)
    store = make_store(with_edge_arrays(rng, raw))
    matrix = store.csr(HOMOGENEOUS_EDGE)
    part_N = rng.integers(0, 3, 40).astype(np.int32)
    layout = NodeLayout.from_order(part_N, [rng.permutation(np.flatnonzero(part_N == part)) for part in range(3)])
    buckets = bucket_by_part(store, HOMOGENEOUS_EDGE, layout, tmp_path, piece_bytes=piece_bytes)
    np.testing.assert_array_equal(buckets.degree_N, weighted_in_degree(matrix))
    rows_E = np.repeat(np.arange(40), np.diff(matrix.indptr))
    assert buckets.num_self_loops == int((rows_E == matrix.indices).sum())
    for part in range(3):
        rows = np.flatnonzero(part_N == part)
        edges = np.flatnonzero(part_N[rows_E] == part)
        found = buckets.matrix(part)
        np.testing.assert_array_equal(np.diff(found.indptr), np.diff(matrix.indptr)[rows])
        np.testing.assert_array_equal(found.indices, matrix.indices[edges])
        assert found.data is not None
        assert matrix.data is not None
        np.testing.assert_array_equal(found.data, matrix.data[edges])
        for name in store.edge_arrays(HOMOGENEOUS_EDGE):
            np.testing.assert_array_equal(buckets.array(part, name), store.edge_array(HOMOGENEOUS_EDGE, name)[:][edges])


@pytest.mark.slow
def test_kernels_stay_within_bounds(bounds_checked: BoundsChecked) -> None:
    """Guards against edges that are placed behind the end of a region."""
    bounds_checked(
        "import numpy as np\n"
        "from graphprep.core import csr_kernels as kernels\n"
        "from graphprep.cache.edge_buckets import _count, _place\n"
        "rng = np.random.default_rng(0)\n"
        "for n, e, parts in ((1, 0, 1), (30, 200, 4)):\n"
        "    rows = np.sort(rng.integers(0, n, e))\n"
        "    indptr = np.searchsorted(rows, np.arange(n + 1))\n"
        "    part = rng.integers(0, parts, n).astype(np.int32)\n"
        "    first = np.concatenate([[0], np.cumsum(np.bincount(part, minlength=parts))])\n"
        "    length, edges = np.empty(n, np.int32), np.zeros(parts, np.int64)\n"
        "    _count(part, indptr, first[:-1].copy(), length, edges)\n"
        "    place = np.empty(e, np.int64)\n"
        "    _place(part, indptr, np.concatenate([[0], np.cumsum(edges)])[:-1].copy(), place)\n"
        "    assert sorted(place.tolist()) == list(range(e))\n"
        "    kernels.count_self_loops(0, n, indptr, rng.integers(0, n, e), 0)\n"
    )
