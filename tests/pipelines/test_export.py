"""`graphprep export`: whole or not there, nothing of somebody else's touched, and one sentence for every mistake."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from graphprep.cache.read import PartitionCache
from graphprep.errors import CacheError, GraphprepError, UsageError
from graphprep.interop.export.npz import NpzFormat
from graphprep.topology import Topology
from pipelines.export import export_cache
from tests.graphs import labelled_graph
from tests.stores import make_cache, make_store


@pytest.fixture
def cache(tmp_path: Path) -> PartitionCache:
    store = make_store(labelled_graph(np.random.default_rng(1), 40, 200))
    return make_cache(store, Topology.flat(2), tmp_path / "cache")


def test_an_export_is_made_once(cache: PartitionCache, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against work that is done again, and against a disk that fills without a word."""
    out = tmp_path / "out"
    first = export_cache(str(cache.folder), out, format_name="npz")
    assert not first.reused
    assert "of disk at" in capsys.readouterr().err
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    again = export_cache(str(cache.folder), out, format_name="npz")
    assert again.reused
    assert (again.files, again.bytes) == (first.files, first.bytes)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_another_export_is_replaced_only_if_asked(cache: PartitionCache, tmp_path: Path) -> None:
    """Guards against an export in one format that is overwritten by another."""
    out = tmp_path / "out"
    export_cache(str(cache.folder), out, format_name="npz")
    with pytest.raises(UsageError, match=r"holds graph as npz.*--replace"):
        export_cache(str(cache.folder), out, format_name="dgl")
    assert (out / "graph.npz").exists()
    export_cache(str(cache.folder), out, format_name="dgl", replace=True)
    assert not (out / "graph.npz").exists()
    assert (out / "part_config.json").exists()


@pytest.mark.parametrize("replace", [False, True])
def test_a_folder_of_somebody_elses_is_left_alone(cache: PartitionCache, tmp_path: Path, replace: bool) -> None:
    """Guards against --replace that deletes somebody's files."""
    out = tmp_path / "precious"
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="no export; it is left as it is"):
        export_cache(str(cache.folder), out, format_name="npz", replace=replace)
    assert [path.name for path in out.iterdir()] == ["thesis.tex"]


def test_an_empty_folder_will_do(cache: PartitionCache, tmp_path: Path) -> None:
    """Guards against a refusal of the folder that a person has just made."""
    (tmp_path / "out").mkdir()
    assert not export_cache(str(cache.folder), tmp_path / "out", format_name="npz").reused


def no_cache(cache: PartitionCache, out: Path) -> None:
    export_cache("nowhere/flat-2", out, format_name="npz")


def not_a_cache(cache: PartitionCache, out: Path) -> None:
    export_cache(str(out.parent), out, format_name="npz")


def cut_short(cache: PartitionCache, out: Path) -> None:
    payload = cache.folder / "parts/1/nodes/node/x/c/0/0"
    payload.write_bytes(payload.read_bytes()[:-4])
    export_cache(str(cache.folder), out, format_name="npz")


def unfinished(cache: PartitionCache, out: Path) -> None:
    (cache.folder / "manifest.json").unlink()
    export_cache(str(cache.folder), out, format_name="npz")


def unknown_format(cache: PartitionCache, out: Path) -> None:
    export_cache(str(cache.folder), out, format_name="csv")


def a_url(cache: PartitionCache, out: Path) -> None:
    export_cache(str(cache.folder), Path("s3://bucket/out"), format_name="npz")


def inside_the_cache(cache: PartitionCache, out: Path) -> None:
    export_cache(str(cache.folder), cache.folder / "out", format_name="npz")


def onto_a_file(cache: PartitionCache, out: Path) -> None:
    out.write_text("mine")
    export_cache(str(cache.folder), out, format_name="npz")


@pytest.mark.parametrize(
    ("mistake", "error", "expected"),
    [
        (no_cache, CacheError, "graphprep partition"),
        (not_a_cache, CacheError, "is not a partition cache"),
        (cut_short, CacheError, "parts/1/nodes/node/x/c/0/0 has"),
        (unfinished, CacheError, "manifest.json is missing"),
        (unknown_format, UsageError, "--format 'csv' is unknown"),
        (a_url, UsageError, "is a URL"),
        (inside_the_cache, UsageError, "OUT .* lies inside"),
        (onto_a_file, UsageError, "OUT .* is a file"),
    ],
)
def test_mistakes(
    cache: PartitionCache,
    tmp_path: Path,
    mistake: Callable[[PartitionCache, Path], None],
    error: type[GraphprepError],
    expected: str,
) -> None:
    """Guards against tracebacks, and against an export that begins before its cache is known to be whole."""
    out = tmp_path / "out"
    with pytest.raises(error, match=expected) as caught:
        mistake(cache, out)
    assert "\n" not in str(caught.value)
    assert not out.is_dir()
    assert not list(tmp_path.glob(".partial-*"))


def test_a_run_cut_short_leaves_nothing_that_looks_whole(
    cache: PartitionCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against half an export under its own name, and against what is left of it in the next one."""
    out = tmp_path / "out"

    def cut(_: NpzFormat, cache: PartitionCache, folder: Path, advance: Callable[[], None]) -> None:
        (folder / "stray.npz").write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(NpzFormat, "write", cut)
        with pytest.raises(KeyboardInterrupt):
            export_cache(str(cache.folder), out, format_name="npz")
    assert not out.exists()
    export_cache(str(cache.folder), out, format_name="npz")
    assert sorted(path.name for path in out.iterdir()) == ["graph.npz", "graphprep.json", "part_0.npz", "part_1.npz"]
    assert json.loads((out / "graphprep.json").read_text())["cache_key"] == cache.key
    assert not list(tmp_path.glob(".partial-*"))
