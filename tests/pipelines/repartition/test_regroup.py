"""`graphprep cache merge` and `split`: the same graph in another number of parts, from the cache alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from cli import main
from graphprep.cache.as_source import CacheSource
from graphprep.cache.read import PartitionCache
from graphprep.cache.rebuild import rebuild_csr, rebuild_edge_arrays, rebuild_rows
from graphprep.cache.verify import verify_cache
from graphprep.topology import resolve
from tests.graphs import typed_graph, with_edge_arrays
from tests.stores import make_cache, make_store


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> PartitionCache:
    """A cache of eight parts for two machines, with several types and edge features."""
    rng = np.random.default_rng(2)
    folder = tmp_path_factory.mktemp("eight")
    raw = with_edge_arrays(rng, typed_graph(rng, authors=80, papers=120, num_edges=900))
    store = make_store(raw, target=folder / "graph.zarr")
    return make_cache(store, resolve("2x4"), folder / "eight", method="metis")


def run(*words: str) -> dict[str, object]:
    done = CliRunner().invoke(main, ["cache", *words, "--json", "-q"])
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def four(eight: PartitionCache, tmp_path_factory: pytest.TempPathFactory) -> PartitionCache:
    """The same graph in four parts."""
    out = tmp_path_factory.mktemp("four") / "four"
    assert run("merge", str(eight.folder), "--parts", "4", "--out", str(out))["num_parts"] == 4
    return PartitionCache(out)


def check_same_graph(one: PartitionCache, other: PartitionCache) -> None:
    """Every array is the same in the dataset's order, and each part of the fewer is two of the others."""
    verify_cache(other)
    for kind in one.edge_types:
        csr, again = rebuild_csr(one, kind), rebuild_csr(other, kind)
        np.testing.assert_array_equal(csr.indices, again.indices)
        np.testing.assert_array_equal(csr.indptr, again.indptr)
        arrays = rebuild_edge_arrays(other, kind)
        for name, array in rebuild_edge_arrays(one, kind).items():
            np.testing.assert_array_equal(array, arrays[name])
    for node_type in one.node_types:
        assert one.node_arrays(0, node_type) == other.node_arrays(0, node_type)
        for name in one.node_arrays(0, node_type):
            np.testing.assert_array_equal(rebuild_rows(one, node_type, name), rebuild_rows(other, node_type, name))
        few, many = sorted((one.assignment(node_type), other.assignment(node_type)), key=np.max)
        np.testing.assert_array_equal(few, many // 2)


def test_the_same_graph_in_fewer_parts(eight: PartitionCache, four: PartitionCache) -> None:
    """Guards against anything that is lost between two caches, and against a store that is needed again."""
    check_same_graph(eight, four)
    assert run("merge", str(eight.folder), "--parts", "4", "--out", str(four.folder))["reused"] is True


@pytest.mark.slow
def test_the_same_graph_in_more_parts(four: PartitionCache, tmp_path: Path) -> None:
    """Guards against the same where parts are divided."""
    words = ("split", str(four.folder), "--parts", "8", "--out", str(tmp_path / "more"))
    assert run(*words)["num_parts"] == 8
    check_same_graph(four, PartitionCache(tmp_path / "more"))
    assert run(*words)["reused"] is True


def test_what_cannot_be_is_one_sentence(eight: PartitionCache, tmp_path: Path) -> None:
    """Guards against a traceback, and against something half-made, where parts cannot be regrouped."""
    for words in (("merge", "--parts", "3"), ("merge", "--parts", "1"), ("split", "--parts", "8")):
        done = CliRunner().invoke(
            main, ["cache", words[0], str(eight.folder), *words[1:], "--out", str(tmp_path / "x")]
        )
        assert done.exit_code == 5, done.output
        assert len(done.stderr.strip().splitlines()) == 1
        assert not (tmp_path / "x").exists()


def test_a_damaged_cache_is_not_regrouped(eight: PartitionCache, tmp_path: Path) -> None:
    """Guards against a new cache, whole by its sums, of what was lost before."""
    damaged = Path(shutil.copytree(eight.folder, tmp_path / "damaged"))
    (damaged / "parts/1/nodes/paper/x/c/0/0").unlink()
    done = CliRunner().invoke(main, ["cache", "merge", str(damaged), "--parts", "4", "--out", str(tmp_path / "x")])
    assert done.exit_code == 6
    assert "is missing" in done.stderr


def test_rows_are_gathered_in_the_datasets_order(eight: PartitionCache) -> None:
    """Guards against ranges of rows that come from the wrong part."""
    whole = CacheSource(eight)
    expected = rebuild_rows(eight, "paper", "x")
    array = whole.node_array("paper", "x")
    assert array is not None
    np.testing.assert_array_equal(array[10:70], expected[10:70])
    for start, rows in whole.rows("paper", "x", 7):
        np.testing.assert_array_equal(rows, expected[start : start + 7])
    assert whole.node_array("author", "x") is None
