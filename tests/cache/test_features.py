"""Features on their way into a cache: other types, scaled, or left out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray

from graphprep.cache import write
from graphprep.cache.features import FeatureOptions
from graphprep.cache.read import PartitionCache, map_array
from graphprep.cache.rebuild import rebuild_rows
from graphprep.cache.verify import verify_cache
from graphprep.core.bfloat16 import to_float32
from graphprep.core.types import HOMOGENEOUS_NODE
from graphprep.errors import CacheError, UsageError
from graphprep.interop.export.formats import FORMATS
from graphprep.partition.request import PartitionRequest
from graphprep.store.store import GraphStore
from graphprep.topology import Topology
from pipelines.export import export_cache
from pipelines.partition import PartitionPlan, run_partition
from pipelines.repartition.regroup import plan_regroup
from tests.graphs import labelled_graph
from tests.stores import make_store


def store_of(x: NDArray[np.generic]) -> GraphStore:
    raw = labelled_graph(np.random.default_rng(0), len(x), 200)
    node = replace(raw.nodes[HOMOGENEOUS_NODE], x=x)
    return make_store(replace(raw, nodes={HOMOGENEOUS_NODE: node}))


def features_of(store: GraphStore, target: Path, **options: str) -> tuple[PartitionCache, PartitionPlan]:
    plan = PartitionPlan(
        store=store,
        topology=Topology.flat(3),
        request=PartitionRequest(method="random", effort="none"),
        target=target,
        features=FeatureOptions(**options),
    )
    return run_partition(plan).cache, plan


X = np.random.default_rng(1).standard_normal((50, 6)).astype(np.float32) * 100 + 10_000
X[:, 2] = 7
X[4] = 0


@pytest.mark.parametrize("piece_bytes", [100, 10**7])
def test_columns_get_mean_0_and_deviation_1(tmp_path: Path, piece_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against moments of a piece instead of all nodes, a large mean that eats the digits, and division by 0."""
    monkeypatch.setattr(write, "MOST_PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(write, "LEAST_PIECE_BYTES", piece_bytes)
    x = X.copy()
    x[4] = x[5]
    cache, _ = features_of(store_of(x), tmp_path / "cache", scale_features="columns")
    found = rebuild_rows(cache, HOMOGENEOUS_NODE, "x").astype(np.float64)
    wide = x.astype(np.float64)
    deviation = wide.std(axis=0)
    expected = (wide - wide.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert (found[:, 2] == 0).all()


def test_rows_sum_to_1(tmp_path: Path) -> None:
    """Guards against empty rows that become NaN, and against whole numbers that are scaled to 0."""
    words = np.random.default_rng(2).integers(0, 2, (50, 8)).astype(np.uint8)
    words[3] = 0
    cache, _ = features_of(store_of(words), tmp_path / "cache", scale_features="rows")
    found = rebuild_rows(cache, HOMOGENEOUS_NODE, "x")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.sum(axis=1), (words.sum(axis=1) > 0).astype(float), rtol=1e-6)


@pytest.mark.parametrize(("name", "dtype"), [("stored", np.float32), ("float16", np.float16), ("float32", np.float32)])
def test_the_type_is_what_was_asked_for(tmp_path: Path, name: str, dtype: type) -> None:
    """Guards against a cache of twice the size that was asked for."""
    cache, _ = features_of(store_of(X), tmp_path / "cache", features=name)
    found = rebuild_rows(cache, HOMOGENEOUS_NODE, "x")
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, X.astype(dtype))


@pytest.mark.slow
def test_bfloat16_is_bits_with_a_name(tmp_path: Path) -> None:
    """Guards against bits without a name, a rounding of their own, and a verify, an export or a merge that stumbles."""
    torch = pytest.importorskip("torch")
    cache, _ = features_of(store_of(X), tmp_path / "cache", features="bfloat16", scale_features="columns")
    verify_cache(cache)
    path = "parts/1/nodes/node/x"
    metadata = json.loads((cache.folder / path / "zarr.json").read_text())
    assert (metadata["data_type"], metadata["attributes"]) == ("uint16", {"bits_of": "bfloat16"})
    bits = zarr.open_group(str(cache.folder), mode="r")[path][...]  # type: ignore[index]
    x_nF = cache.node_array(1, HOMOGENEOUS_NODE, "x")
    np.testing.assert_array_equal(bits, x_nF["bfloat16"])
    wide, _ = features_of(store_of(X), tmp_path / "wide", features="float32", scale_features="columns")
    expected = torch.from_numpy(np.array(wide.node_array(1, HOMOGENEOUS_NODE, "x"))).to(torch.bfloat16)
    assert torch.equal(torch.from_numpy(to_float32(x_nF)), expected.float())
    assert torch.equal(cache.to_pyg(1).x[: len(expected)], expected)
    assert cache.to_networkx(1).nodes[int(cache.node_array(1, "node", "global_ids")[0])]["x"].dtype == np.float32
    whole = to_float32(rebuild_rows(cache, HOMOGENEOUS_NODE, "x"))
    for name in FORMATS:
        export_cache(str(cache.folder), tmp_path / name, format_name=name)
    with np.load(tmp_path / "npz" / "part_1.npz") as arrays:
        np.testing.assert_array_equal(arrays["nodes/node/x"], to_float32(x_nF))
    plan = plan_regroup(
        cache, "split", parts=6, topology=None, request=PartitionRequest(effort="none"), out=tmp_path / "six"
    )
    six = run_partition(plan).cache
    verify_cache(six)
    np.testing.assert_array_equal(to_float32(rebuild_rows(six, HOMOGENEOUS_NODE, "x")), whole)


def test_an_unknown_name_of_bits_is_refused(tmp_path: Path) -> None:
    """Guards against features of a later release that are read as whole numbers."""
    cache, _ = features_of(store_of(X), tmp_path / "cache", features="bfloat16")
    file = cache.folder / "parts/0/nodes/node/x/zarr.json"
    file.write_text(file.read_text().replace('"bfloat16"', '"float8"'))
    with pytest.raises(CacheError, match="no array of a known type"):
        map_array(cache.folder, "parts/0/nodes/node/x")
    with pytest.raises(CacheError, match="has changed since it was written"):
        cache.node_array(0, HOMOGENEOUS_NODE, "x")


def test_features_can_be_left_out(tmp_path: Path) -> None:
    """Guards against features that are told of and are not there."""
    cache, _ = features_of(store_of(X), tmp_path / "cache", features="none")
    assert cache.attributes["num_features"] == {HOMOGENEOUS_NODE: 0}
    assert not cache.has_array("parts/0/nodes/node/x")
    assert "y" in cache.node_arrays(0, HOMOGENEOUS_NODE)


def test_other_features_are_another_cache(tmp_path: Path) -> None:
    """Guards against a cache that is reused although its features are others."""
    store = store_of(X)
    _, one = features_of(store, tmp_path / "one", scale_features="rows")
    _, two = features_of(store, tmp_path / "two")
    assert one.key != two.key


def test_wrong_options_are_named() -> None:
    """Guards against a word that is taken for `stored`."""
    with pytest.raises(UsageError, match="--features"):
        FeatureOptions(features="half")
    with pytest.raises(UsageError, match="--scale-features"):
        FeatureOptions(scale_features="l2")


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_features_beyond_the_range_of_float16_are_refused(tmp_path: Path, kind: str) -> None:
    """They became infinities in the cache with a warning of NumPy's at most, and the loss no number in epoch 1."""
    x = X.copy()
    x[7, 3] = -70_000
    store = store_of(x)
    if kind == "float16":
        with pytest.raises(UsageError, match="--features float16 cannot hold -70000, which lies beyond 65504"):
            features_of(store, tmp_path / "cache", features=kind)
    else:
        features_of(store, tmp_path / "cache", features=kind)
