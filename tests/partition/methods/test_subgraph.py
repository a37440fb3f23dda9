"""A restricted graph has exactly the edges between its nodes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphprep.partition.methods import subgraph
from tests.graphs import csr_of, random_edges


@pytest.mark.slow
@settings(deadline=None)
@given(
    seed=st.integers(0, 2**31),
    num_nodes=st.integers(1, 40),
    num_edges=st.integers(0, 200),
    weighted=st.booleans(),
    at_a_time=st.sampled_from([1, 7, 1000]),
)
def test_as_scipy_slices_it(seed: int, num_nodes: int, num_edges: int, weighted: bool, at_a_time: int) -> None:
    """Guards against edges lost, doubled or renumbered wrongly, at the joints of row ranges above all."""
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(seed)
    matrix = csr_of(random_edges(rng, num_nodes, num_edges), num_nodes)
    kept_N = rng.random(num_nodes) < 0.6
    weights = rng.integers(1, 9, matrix.num_edges) if weighted else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subgraph, "EDGES_AT_A_TIME", at_a_time)
        found = subgraph.induced(matrix.indptr, matrix.indices, weights, kept_N)
    values = np.arange(1, matrix.num_edges + 1) if weights is None else weights
    whole = csr_matrix((values, matrix.indices, matrix.indptr), shape=(num_nodes, num_nodes))
    expected = whole[np.flatnonzero(kept_N)][:, np.flatnonzero(kept_N)]
    assert np.array_equal(found.indptr, expected.indptr)
    assert np.array_equal(found.indices, expected.indices)
    assert found.indices.dtype == matrix.indices.dtype
    assert found.indptr.dtype == np.int64
    assert np.array_equal(found.nodes, np.flatnonzero(kept_N))
    if weights is None:
        assert found.weights is None
    else:
        assert np.array_equal(found.weights, expected.data)
