"""A CSR as a SciPy array."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphprep.core.types import HOMOGENEOUS_EDGE
from graphprep.interop.scipy_matrix import to_scipy
from graphprep.topology import Topology
from tests.graphs import csr_of, labelled_graph, random_edges
from tests.stores import make_cache, make_store


@pytest.mark.parametrize("weighted", [False, True])
def test_every_edge_is_an_entry(weighted: bool) -> None:
    """Guards against a transposed matrix, and against parallel edges that are lost."""
    chunk = random_edges(np.random.default_rng(1), 20, 300, weighted=weighted)
    found = to_scipy(csr_of(chunk, 20))
    expected = np.zeros((20, 20))
    np.add.at(expected, (chunk.dst, chunk.src), 1.0 if chunk.weight is None else chunk.weight)
    assert found.nnz == 300
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-5)


def test_parts_are_rows_of_the_whole(tmp_path: Path) -> None:
    """Guards against a cache whose matrix is not the store's, whole or part by part."""
    store = make_store(labelled_graph(np.random.default_rng(2), 50, 400, weighted=True))
    cache = make_cache(store, Topology.flat(3), tmp_path / "cache")
    whole = store.to_scipy()
    assert (cache.to_scipy(HOMOGENEOUS_EDGE.key) != whole).nnz == 0
    x = store.node_table("node").x
    assert x is not None
    for part in range(3):
        matrix, arrays = cache.to_scipy(part=part), cache.loaded(part).nodes["node"]
        own = arrays["n_id"][arrays["own_mask"]]
        np.testing.assert_allclose(matrix @ arrays["x"], (whole @ x)[own], rtol=1e-4, atol=1e-5)
