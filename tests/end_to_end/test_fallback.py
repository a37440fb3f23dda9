"""What a fallback made is known as that, is not "up to date", and gives way to what was asked for."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from cli import main
from graphprep.errors import DatasetError
from graphprep.store.convert import graph_to_store
from graphprep.system import memory
from graphprep.topology import Topology
from pipelines.step import run_step
from pipelines.store_step import OpenStep
from tests.graphs import labelled_graph
from tests.stores import make_cache, make_store

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path: Path) -> Path:
    target = tmp_path / "g.zarr"
    make_store(labelled_graph(np.random.default_rng(1), 100, 800, undirected=True), target=target)
    return target


def run(*words: str, status: int = 0) -> Any:
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == status, done.output
    return done


def partition(store: Path, out: Path, *more: str) -> tuple[dict[str, Any], str]:
    words = ("partition", str(store), "--parts", "2", "--effort", "fast", "--out", str(out), "--json", *more)
    done = run(*words)
    return json.loads(done.stdout), done.stderr


@pytest.fixture
def fallen_back(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that LDG made as METIS's process died."""
    with monkeypatch.context() as broken:
        broken.setattr(sys, "executable", "/bin/false")
        found, _ = partition(store, tmp_path / "cache")
    assert found["fallback"]["wanted"] == ["metis-balanced"]
    assert found["fallback"]["used"] == "ldg"
    return tmp_path / "cache"


def test_a_fallback_gives_way_to_what_was_asked_for(store: Path, fallen_back: Path) -> None:
    """Guards against METIS that fails once, whose stand-in is up to date for ever under METIS's key."""
    found, said = partition(store, fallen_back)
    assert "was made by a fallback, and what was asked for is tried again" in said
    assert found["fallback"] is None
    assert not found["reused"]
    assert not found["method"].startswith("ldg")
    found, said = partition(store, fallen_back)
    assert found["reused"]
    assert "is up to date" in said


def test_a_fallback_that_is_no_better_now_is_kept_and_said(
    store: Path, fallen_back: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against a fallback that is up to date without a word, and against losing it."""
    before = (fallen_back / "manifest.sha256").read_text()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    found, said = partition(store, fallen_back)
    assert found["reused"]
    assert found["fallback"]["used"] == "ldg"
    assert "once more" in said
    assert "is kept" in said
    assert "up to date" not in said
    assert (fallen_back / "manifest.sha256").read_text() == before
    assert not list(fallen_back.parent.glob(".partial-*"))
    assert (
        "kept: " in run("partition", str(store), "--parts", "2", "--effort", "fast", "--out", str(fallen_back)).stdout
    )


def test_a_fallback_is_shown(store: Path, fallen_back: Path, tmp_path: Path) -> None:
    """Guards against figures of a stand-in that pass for those of METIS."""
    whole = tmp_path / "whole"
    partition(store, whole)
    assert "made by a fallback: metis-balanced failed" in run("inspect", str(fallen_back)).stdout
    assert "by a fallback" not in run("inspect", str(whole)).stdout
    assert json.loads(run("inspect", str(fallen_back), "--json").stdout)["fallback"]["used"] == "ldg"
    compared = json.loads(run("compare", str(fallen_back), str(whole), "--json").stdout)["caches"]
    assert [row["fallback"] is None for row in compared] == [False, True]
    assert "(a fallback)" in run("compare", str(fallen_back), str(whole)).stdout
    run("inspect", str(fallen_back), "--html", str(tmp_path / "page.html"))
    assert "Made by a fallback" in (tmp_path / "page.html").read_text()


def test_too_little_memory_is_tried_again_when_there_is_enough(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against LDG for ever since memory was short once, and against LDG each time while it is."""
    out, available = tmp_path / "cache", memory.available
    monkeypatch.setattr(memory, "available", lambda: 30_000_000)
    with monkeypatch.context() as in_memory:
        in_memory.setattr("pipelines.partition.needs_out_of_core", lambda *_, **__: False)
        found, _ = partition(store, out)
    assert found["fallback"]["reason"] == "memory was too small for them"
    found, said = partition(store, out)
    assert found["reused"]
    assert "a fallback made it" in said
    assert "expect about" not in said
    monkeypatch.setattr(memory, "available", available)
    found, said = partition(store, out)
    assert found["fallback"] is None
    assert not found["reused"]


def test_a_cache_by_passes_says_that_memory_was_small(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against the multilevel method in the place of METIS, for want of memory, that nobody hears of again."""
    with monkeypatch.context() as small:
        small.setattr(memory, "available", lambda: 30_000_000)
        partition(store, tmp_path / "cache")
    found, said = partition(store, tmp_path / "cache")
    assert found["reused"]
    assert "made by passes over its edges, as memory was small; --replace makes it again" in said


def test_a_method_that_was_absent_is_named(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a candidate that died or was late, of which the next run says nothing."""
    from graphprep.errors import PartitionError
    from graphprep.partition.methods.metis import BalancedMetis

    def late(*_: object) -> None:
        raise PartitionError("METIS with several constraints took more than 1 s")

    with monkeypatch.context() as slow:
        slow.setattr(BalancedMetis, "partition", late)
        partition(store, tmp_path / "cache", "--effort", "best")
    found, said = partition(store, tmp_path / "cache", "--effort", "best")
    assert found["reused"]
    assert "it was made without metis-balanced (METIS with several constraints took more than 1 s)" in said


def test_replace_makes_everything_again(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against --replace that finds the same key and does nothing."""
    monkeypatch.setenv("GRAPHPREP_HOME", str(tmp_path / "home"))
    edges = tmp_path / "edges.csv"
    edges.write_text("".join(f"{node},{(node * 7 + 1) % 40}\n" for node in range(40)))
    make_cache_words = ("partition", str(store), "--parts", "2", "--method", "random", "--out", str(tmp_path / "c"))
    ways = {
        ("fetch", "digits"): tmp_path / "home/stores/digits.zarr",
        ("import", str(edges), "--name", "mine"): tmp_path / "home/stores/mine.zarr",
        ("generate", "grid", "--name", "grid", "--sides", "9x9"): tmp_path / "home/stores/grid.zarr",
        make_cache_words: tmp_path / "c",
        ("export", str(tmp_path / "c"), str(tmp_path / "e"), "--format", "npz"): tmp_path / "e",
    }
    for words, target in ways.items():
        run(*words)
        before = target.stat().st_ino, target.stat().st_ctime_ns
        assert "up to date" in run(*words).stderr
        assert (target.stat().st_ino, target.stat().st_ctime_ns) == before
        assert "up to date" not in run(*words, "--replace").stderr
        assert (target.stat().st_ino, target.stat().st_ctime_ns) != before, words


def test_an_export_is_of_what_is_there(store: Path, fallen_back: Path, tmp_path: Path) -> None:
    """Guards against an export of a fallback, or with files gone, that is up to date by the cache's key alone."""
    words = ("export", str(fallen_back), str(tmp_path / "e"), "--format", "npz")
    run(*words)
    partition(store, fallen_back)
    assert "exported from another cache" in run(*words, status=2).stderr
    run(*words, "--replace")
    victim = next(path for path in (tmp_path / "e").rglob("*") if path.is_file() and path.name != "graphprep.json")
    victim.unlink()
    assert "is missing or has another size" in run(*words, status=2).stderr
    run(*words, "--replace")
    assert victim.is_file()


def test_what_was_converted_anyway_is_said_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against --anyway whose warning nobody sees again: the next run finds the store up to date."""
    raw = labelled_graph(np.random.default_rng(1), 30, 90)
    raw.nodes["node"].x[3, 1] = np.nan  # type: ignore[index]
    options: dict[str, Any] = {"name": "odd", "key": "1" * 64, "source": {"reader": "test"}, "expected": None}
    with pytest.raises(DatasetError, match="--anyway"):
        graph_to_store(raw, tmp_path / "odd.zarr", **options)
    graph_to_store(raw, tmp_path / "odd.zarr", **options, anyway=True)
    capsys.readouterr()
    _, reused = run_step(OpenStep(name="odd", out=tmp_path / "odd.zarr"))
    assert reused
    said = capsys.readouterr().err
    assert "is up to date" in said
    assert "it was converted with --anyway in spite of this: nodes node: " in said


def test_a_killed_run_does_not_go_on_with_a_fallback(store: Path, fallen_back: Path) -> None:
    """Guards against the assignment of a fallback that is kept beside the cache and taken up by the next run."""
    shutil.rmtree(fallen_back)
    assert not list(fallen_back.parent.glob(".partial-*"))
    found, said = partition(store, fallen_back)
    assert found["fallback"] is None
    assert "going on with" not in said


def test_few_nodes_are_said_to_be_placed_otherwise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against LDG in the place of a method that was asked for, without a word."""
    store = make_store(labelled_graph(np.random.default_rng(1), 4, 9), target=tmp_path / "g.zarr")
    make_cache(store, Topology.flat(4), tmp_path / "cache", method="metis")
    assert "LDG places them whatever the --method" in capsys.readouterr().err
