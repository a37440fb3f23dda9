"""The same cache opens with other readers of Zarr, and gives the same arrays; each is skipped where it is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

from graphprep.cache.read import PartitionCache
from graphprep.core.types import HOMOGENEOUS_EDGE
from graphprep.topology import Topology
from tests.graphs import labelled_graph, typed_graph
from tests.stores import make_cache, make_store


@pytest.fixture(params=["weighted", "unweighted", "typed"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> PartitionCache:
    rng = np.random.default_rng(1)
    if request.param == "typed":
        return make_cache(make_store(typed_graph(rng)), Topology.flat(3), tmp_path / "cache")
    store = make_store(labelled_graph(rng, 80, 600, weighted=request.param == "weighted", dtype="float16"))
    return make_cache(store, Topology.flat(3), tmp_path / "cache")


def array_paths(cache: PartitionCache) -> list[str]:
    found = sorted(path.parent for path in cache.folder.rglob("zarr.json") if '"array"' in path.read_text())
    paths = [path.relative_to(cache.folder).as_posix() for path in found]
    assert len(paths) > 60
    return paths


def test_tensorstore(cache: PartitionCache) -> None:
    """Guards against metadata that only zarr-python is lenient about."""
    tensorstore = pytest.importorskip("tensorstore")
    for path in array_paths(cache):
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(cache.folder / path)}}
        found = tensorstore.open(spec, open=True, read=True).result().read().result()
        expected = cache.array(path)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_zarr(cache: PartitionCache) -> None:
    """Guards against arrays of a kind of graph that nobody opened with Zarr."""
    root = zarr.open_group(str(cache.folder), mode="r", zarr_format=3)
    for path in array_paths(cache):
        np.testing.assert_array_equal(root[path][...], cache.array(path))  # type: ignore[index]


def test_anndata(cache: PartitionCache) -> None:
    """Guards against a block that AnnData multiplies to something else than ours."""
    anndata_io = pytest.importorskip("anndata.io")
    root = zarr.open_group(str(cache.folder), mode="r")
    for part in range(3):
        for kind in cache.edge_types:
            for owner in range(3):
                block = cache.block(part, kind, owner)
                path = f"parts/{part}/edges/{kind.key}/" + ("local" if owner == part else f"from_{owner}")
                found = anndata_io.sparse_dataset(root[path])[:]  # type: ignore[arg-type]
                assert found.shape == (block.num_rows, block.num_sources)
                np.testing.assert_array_equal(found.indptr, block.indptr)
                np.testing.assert_array_equal(found.indices, block.indices)
                np.testing.assert_array_equal(found.data, 1 if block.data is None else block.data)
    assert len(cache.edge_types) == 3 or cache.edge_types == [HOMOGENEOUS_EDGE]
