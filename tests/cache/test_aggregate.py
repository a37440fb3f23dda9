"""Sums over neighbours that are made beforehand: those of the definition, and those that the trainer makes at start."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from cli import main
from graphprep.cache import aggregate
from graphprep.cache.features import FeatureOptions
from graphprep.cache.format import X_AGGREGATED
from graphprep.cache.read import PartitionCache
from graphprep.cache.rebuild import rebuild_rows
from graphprep.cache.verify import verify_cache
from graphprep.core.bfloat16 import to_float32
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, NodeTable, RawGraph
from graphprep.errors import UsageError
from graphprep.partition.request import PartitionRequest
from graphprep.store.store import GraphStore
from graphprep.topology import Topology
from pipelines.partition import PartitionPlan, plan_partition, run_partition
from tests.conftest import BoundsChecked
from tests.graphs import labelled_graph, typed_graph
from tests.stores import make_store

KINDS = ("directed", "weighted", "undirected", "whole numbers", "no edges")
SPLITS = ("train", "val", "test")


def graph_of(kind: str) -> RawGraph:
    """A graph with self-loops, parallel edges, and nodes that have no edges at all."""
    rng = np.random.default_rng(KINDS.index(kind))
    raw = labelled_graph(
        rng,
        70,
        0 if kind == "no edges" else 260,
        weighted=kind == "weighted",
        undirected=kind == "undirected",
    )
    x = rng.integers(0, 9, (90, 5)) if kind == "whole numbers" else rng.standard_normal((90, 5)).astype(np.float32)
    masks = {f"{name}_mask": np.ones((90, 1), bool) if name == "test" else np.zeros((90, 1), bool) for name in SPLITS}
    table = NodeTable(num_nodes=90, x=x, y=rng.integers(0, 3, 90), **masks)  # type: ignore[arg-type]
    return replace(raw, nodes={HOMOGENEOUS_NODE: table})


def cache_of(store: GraphStore, target: Path, how: str, *, parts: int = 3, features: str = "stored") -> PartitionCache:
    plan = PartitionPlan(
        store=store,
        topology=Topology.flat(parts),
        request=PartitionRequest(method="random", effort="none"),
        target=target,
        features=FeatureOptions(aggregate_features=how, features=features),
    )
    cache = run_partition(plan).cache
    verify_cache(cache)
    return cache


def by_definition(store: GraphStore, how: str, x_NF: NDArray[np.generic]) -> NDArray[np.float64]:
    """A' X with a dense A'."""
    matrix = store.csr(HOMOGENEOUS_EDGE)
    dense = np.zeros((matrix.num_rows, matrix.num_rows))
    row_E = np.repeat(np.arange(matrix.num_rows), np.diff(matrix.indptr))
    np.add.at(dense, (row_E, matrix.indices), 1.0 if matrix.data is None else matrix.data)
    if how == "gcn":
        has_loop = np.zeros(matrix.num_rows, bool)
        has_loop[row_E[row_E == matrix.indices]] = True
        dense += np.diag(1.0 - has_loop)
        factor = 1 / np.sqrt(dense.sum(axis=1))
        dense *= factor[:, None] * factor
    else:
        total = dense.sum(axis=1, keepdims=True)
        dense /= np.where(total, total, 1)
    return np.asarray(dense @ x_NF)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["gcn", "mean"])
def test_sums_are_those_of_the_definition(tmp_path: Path, how: str, kind: str) -> None:
    """Guards against a missing self-loop, a degree of the part alone, and a column that is looked up elsewhere."""
    store = make_store(graph_of(kind))
    x_NF = np.asarray(store.node_array(HOMOGENEOUS_NODE, "x")[:])  # type: ignore[index]
    expected = by_definition(store, how, x_NF)
    for parts in (1, 2, 4):
        cache = cache_of(store, tmp_path / f"cache-{parts}", how, parts=parts)
        found = rebuild_rows(cache, HOMOGENEOUS_NODE, X_AGGREGATED)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(rebuild_rows(cache, HOMOGENEOUS_NODE, "x"), x_NF)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["weighted", "directed"])
@pytest.mark.parametrize("how", ["gcn", "mean"])
def test_sums_are_those_that_the_trainer_makes(tmp_path: Path, how: str, kind: str) -> None:
    """Guards against two rules of one name, one on each side of the format."""
    torch = pytest.importorskip("torch")
    from trainer.data.cache import open_cache
    from trainer.data.part import load_part

    store = make_store(graph_of(kind))
    for num_parts in (1, 2, 4):
        folder = cache_of(store, tmp_path / f"cache-{num_parts}", how, parts=num_parts).folder
        cache = open_cache(str(folder))
        parts = [load_part(cache, number, split=0) for number in range(num_parts)]
        for part, expected in zip(parts, folded_at_start(parts, how), strict=True):
            torch.testing.assert_close(part.aggregated_nF, expected, rtol=1e-5, atol=1e-6)


def folded_at_start(parts: list[Any], how: str) -> list[Any]:
    """A X of each part, as its rank makes it from its own rows and those that it gets."""
    import torch

    from trainer.data.part import halo_ids
    from trainer.sparse import normalise

    ids_N = torch.cat([part.ids_n for part in parts])
    x_NF = torch.empty_like(torch.cat([part.x_nF for part in parts]))
    x_NF[ids_N] = torch.cat([part.x_nF for part in parts])
    factor_N = torch.zeros(len(ids_N))

    def halo_column(part: Any, column_n: Any) -> Any:
        factor_N[part.ids_n] = column_n
        return factor_N[halo_ids(part)]

    def dense(matrix: Any) -> Any:
        size = (matrix.num_rows, matrix.num_columns)
        weights = torch.ones(matrix.num_edges) if matrix.weights is None else matrix.weights
        return torch.sparse_csr_tensor(matrix.indptr, matrix.indices, weights, size=size).to_dense()

    def sums(part: Any) -> Any:
        local, remote = normalise.weighted(how, part, partial(halo_column, part))
        of_peers = (dense(block) @ x_NF[part.halo_ids[peer]] for peer, block in remote.items())
        return sum(of_peers, start=dense(local) @ x_NF[part.ids_n])

    for part in parts:  # the first time each owner tells its factors
        sums(part)
    return [sums(part) for part in parts]


@pytest.mark.parametrize("features", ["float16", "bfloat16"])
def test_sums_take_the_type_that_is_asked_for(tmp_path: Path, features: str) -> None:
    """Guards against sums of features that are not those of the cache, and against bits that are summed as numbers."""
    store = make_store(graph_of("weighted"))
    cache = cache_of(store, tmp_path / "cache", "gcn", features=features)
    x_NF = to_float32(rebuild_rows(cache, HOMOGENEOUS_NODE, "x"))
    found = rebuild_rows(cache, HOMOGENEOUS_NODE, X_AGGREGATED)
    assert found.dtype == cache.node_array(0, HOMOGENEOUS_NODE, "x").dtype
    expected = by_definition(store, "gcn", x_NF)
    np.testing.assert_allclose(to_float32(found).astype(np.float64), expected, rtol=2**-8, atol=1e-6)


def test_no_row_depends_on_the_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against edges of a row that are cut off where a piece ends."""
    store = make_store(graph_of("weighted"))
    whole = cache_of(store, tmp_path / "whole", "gcn")
    monkeypatch.setattr(aggregate, "MOST_PIECE_BYTES", 100)
    monkeypatch.setattr(aggregate, "LEAST_PIECE_BYTES", 100)
    pieces = cache_of(store, tmp_path / "pieces", "gcn")
    for part in range(3):
        one, other = (cache.node_array(part, HOMOGENEOUS_NODE, X_AGGREGATED) for cache in (whole, pieces))
        np.testing.assert_array_equal(one, other)


def test_sums_may_lie_alone(tmp_path: Path) -> None:
    """Guards against features that are kept although they were to be left out, or are lost before the sum."""
    store = make_store(graph_of("directed"))
    both, alone = (cache_of(store, tmp_path / kept, "gcn", features=kept) for kept in ("stored", "none"))
    assert not alone.has_array("parts/0/nodes/node/x")
    assert alone.attributes["num_features"] == {HOMOGENEOUS_NODE: 5}
    assert alone.attributes["aggregated"] == {HOMOGENEOUS_NODE: "gcn"}
    np.testing.assert_array_equal(*(rebuild_rows(cache, HOMOGENEOUS_NODE, X_AGGREGATED) for cache in (both, alone)))
    assert X_AGGREGATED not in both.node_arrays(0, HOMOGENEOUS_NODE)
    assert not list(tmp_path.glob(".partial*"))


@pytest.mark.parametrize("features", ["stored", "none"])
def test_sums_move_with_their_nodes(tmp_path: Path, features: str) -> None:
    """Guards against a merged cache that has lost them or says that it has none."""
    cache = cache_of(make_store(graph_of("weighted")), tmp_path / "four", "gcn", parts=4, features=features)
    words = ["cache", "merge", str(cache.folder), "--parts", "2", "--out", str(tmp_path / "two"), "-q"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    merged = PartitionCache(tmp_path / "two")
    verify_cache(merged)
    assert merged.attributes["aggregated"] == {HOMOGENEOUS_NODE: "gcn"}
    assert merged.attributes["num_features"] == {HOMOGENEOUS_NODE: 5}
    assert merged.has_array("parts/0/nodes/node/x") == (features == "stored")
    np.testing.assert_array_equal(*(rebuild_rows(c, HOMOGENEOUS_NODE, X_AGGREGATED) for c in (cache, merged)))


@pytest.mark.slow
def test_a_killed_run_goes_on_with_the_other_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against sums that are made again, and against features that a second run no longer has."""
    store = make_store(graph_of("weighted"))
    whole = cache_of(store, tmp_path / "whole", "gcn", features="none")
    write = aggregate._Neighbours.write

    def fails(self: aggregate._Neighbours, part: int, writer: object) -> None:
        if part == 2:
            raise KeyboardInterrupt
        write(self, part, writer)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(aggregate._Neighbours, "write", fails)
        patch.setattr(aggregate, "cores", lambda: 1)
        with pytest.raises(KeyboardInterrupt):
            cache_of(store, tmp_path / "cut", "gcn", features="none")
    again = cache_of(store, tmp_path / "cut", "gcn", features="none")
    np.testing.assert_array_equal(*(rebuild_rows(c, HOMOGENEOUS_NODE, X_AGGREGATED) for c in (whole, again)))


def test_what_cannot_be_summed_is_refused_at_once() -> None:
    """Guards against an hour of partitioning before a traceback."""
    rng = np.random.default_rng(0)
    typed = make_store(typed_graph(rng), "typed")
    bare = make_store(replace(graph_of("directed"), nodes={HOMOGENEOUS_NODE: NodeTable(num_nodes=90)}), "bare")
    degree = NodeTable(num_nodes=90, more={"degree": np.zeros(90)})
    named = make_store(replace(graph_of("directed"), nodes={HOMOGENEOUS_NODE: degree}), "named")
    for store, how, words in ((typed, "gcn", "2 and 3"), (bare, "mean", "has none"), (named, "none", "another name")):
        with pytest.raises(UsageError, match=words):
            plan_partition(
                store.location,
                parts=2,
                topology=None,
                request=PartitionRequest(),
                out=None,
                features=FeatureOptions(aggregate_features=how),
            )
    for options, words in (
        ({"aggregate_features": "sum"}, "unknown"),
        ({"aggregate_features": "mean"}, "own features"),
    ):
        with pytest.raises(UsageError, match=words):
            FeatureOptions(features="none", **options)


@pytest.mark.slow
def test_kernels_stay_within_bounds(bounds_checked: BoundsChecked) -> None:
    """Guards against reads and writes beyond a row, a block or the last edge."""
    bounds_checked(
        "import numpy as np\n"
        "from graphprep.cache.aggregate import _add\n"
        "from graphprep.core.csr_kernels import lacks_loop\n"
        "from tests.graphs import csr_of, random_edges\n"
        "rng = np.random.default_rng(0)\n"
        "for n, e in ((1, 0), (9, 0), (1, 5), (200, 3000)):\n"
        "    matrix = csr_of(random_edges(rng, n, e), n)\n"
        "    lacks_loop(matrix.indptr, matrix.indices)\n"
        "    for start in range(0, n, 7):\n"
        "        stop = min(n, start + 7)\n"
        "        sums = np.zeros((stop - start, 3))\n"
        "        for first in range(int(matrix.indptr[start]), int(matrix.indptr[stop]), 4):\n"
        "            k = min(4, int(matrix.indptr[stop]) - first)\n"
        "            _add(matrix.indptr, start, first, np.ones(k), np.arange(k), np.ones((k, 3), np.float32), sums)\n"
        "        assert (sums == np.diff(matrix.indptr)[start:stop, None]).all()\n"
    )
