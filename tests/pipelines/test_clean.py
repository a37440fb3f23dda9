"""Cleaning: what is listed, what goes, and what stays because it is named by nobody, in use, or not ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from graphprep.datasets.generators.requests import SbmRequest
from graphprep.errors import UsageError
from graphprep.system import home
from graphprep.topology import Topology
from pipelines.clean import CleanedItem, clean
from pipelines.generate import generate_graph
from tests.end_to_end.test_cli import refused, run
from tests.stores import make_cache


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two stores, one of them with two caches, and downloads; tests copy it."""
    folder = tmp_path_factory.mktemp("prepared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPHPREP_HOME", str(folder))
        fill(folder)
        yield folder


@pytest.fixture
def full_home(prepared: Path, graphprep_home: Path) -> Path:
    """GRAPHPREP_HOME with all of that."""
    return Path(shutil.copytree(prepared, graphprep_home, dirs_exist_ok=True))


def fill(folder: Path) -> None:
    """Make what `prepared` says."""
    for name in ("a", "b"):
        request = SbmRequest(nodes=60, edges=200, classes=4, branching=2)
        store = generate_graph(request, name=name, out=None, replace=False, memory_limit=None).store
    for parts in (2, 3):
        make_cache(store, Topology.flat(parts), home.cache_path("b", f"flat-{parts}"))
    (folder / "raw/b").mkdir(parents=True)
    (folder / "raw/b/x.gz").write_bytes(b"12345")


def fates(found: list[CleanedItem]) -> dict[str, str]:
    """What became of each item, by kind and name."""
    return {f"{each.item.kind} {each.item.name}": each.fate for each in found}


LEFTOVERS = (
    "raw/b/.partial-y.gz",
    "raw/b/z.gz.bad",
    "raw/b/.download.lock",
    "raw/b/.partial-unpacked/m",
    "raw/.replaced-c/x",
    "stores/.partial-a.zarr/zarr.json",
    "stores/.partial-a.zarr-edges/1",
    "stores/.replaced-a.zarr/zarr.json",
    "stores/.a.zarr.lock",
    "caches/b/.partial-0123/assignment.npz",
    "caches/b/.replaced-flat-2/x",
    "caches/b/..partial-0123.lock",
    "notes/.partial-n.json",
    "notes/report-1.json",
)


def leave_behind(folder: Path) -> None:
    """What runs that were killed leave."""
    for name in LEFTOVERS:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"output": "/nowhere/at/all"}')


def snapshot(folder: Path) -> set[str]:
    """Every path below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_leftovers_go_and_nothing_else(full_home: Path) -> None:
    """Guards against leftovers that are not found, and against losing what somebody waits for."""
    (full_home / "notes").mkdir()
    (full_home / "notes/report-2.json").write_text(json.dumps({"output": str(home.store_path("a"))}))
    before = snapshot(full_home)
    leave_behind(full_home)
    with_leftovers = snapshot(full_home)
    dry = clean(dry=True)
    assert snapshot(full_home) == with_leftovers
    done = clean()
    assert snapshot(full_home) == before
    assert len([fate for fate in fates(done).values() if fate == "removed"]) == len(LEFTOVERS)
    assert fates(dry) == {name: fate.replace("removed", "to remove") for name, fate in fates(done).items()}
    assert set(fates(clean())) == {"raw b", "store a", "store b", "cache b/flat-2", "cache b/flat-3"}


def test_what_is_named_goes(full_home: Path) -> None:
    """Guards against an option that takes more or less than its name says."""
    assert fates(clean(caches=["b/flat-2"]))["cache b/flat-2"] == "removed"
    assert not home.cache_path("b", "flat-2").exists()
    assert home.cache_path("b", "flat-3").exists()
    clean(raw=["b"], stores=["a"], caches=["b"])
    assert fates(clean()) == {"store b": "kept"}
    assert home.store_path("b").is_dir()


def test_a_wrong_name_removes_nothing(full_home: Path) -> None:
    """Guards against a slip of the pen that costs what was named beside it."""
    before = snapshot(full_home)
    with pytest.raises(UsageError, match=r"--caches c names nothing in .*; there is b/flat-2, b/flat-3"):
        clean(raw=["b"], caches=["c"])
    with pytest.raises(UsageError, match="names nothing"):
        clean(stores=["../stores/a"])
    assert snapshot(full_home) == before


def test_leftovers_can_be_kept(full_home: Path) -> None:
    """Guards against losing what a killed run would go on with, only because a download was to go."""
    leave_behind(full_home)
    found = fates(clean(stores=["a"], leftovers=False))
    assert found["store a"] == "removed"
    assert found["leftover caches/b/.partial-0123"] == "kept"


@contextmanager
def another_process(script: str) -> Iterator[None]:
    """A process that runs `script`, says so, and waits until the block ends."""
    text = f"import sys\n{script}\nprint('ready', flush=True)\nsys.stdin.read()\n"
    with subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield
        finally:
            process.stdin.close()
            process.wait(timeout=60)


def holding(path: Path) -> str:
    """A script that holds a lock."""
    return (
        "from pathlib import Path\nfrom graphprep.system.files.atomic import locked\n"
        f"held = locked(Path({str(path)!r}), 'x')\nheld.__enter__()"
    )


def test_what_a_process_works_on_stays(full_home: Path) -> None:
    """Guards against pulling the ground from under a run: its work, what it reads, and its lock."""
    leave_behind(full_home)
    work = full_home / "caches/b/.partial-0123"
    with another_process(holding(work)):
        found = fates(clean(stores=["b"]))
        assert work.is_dir()
        assert (full_home / "caches/b/..partial-0123.lock").exists()
        assert found["leftover caches/b/.partial-0123"] == "in use"
        assert found["leftover caches/b/..partial-0123.lock"] == "in use"
        assert found["store b"] == "in use"
        assert found["leftover stores/.partial-a.zarr"] == "removed"
        assert fates(clean(stores=["b"], dry=True))["store b"] == "in use"
    assert fates(clean(stores=["b"]))["store b"] == "removed"
    assert not work.exists()


def test_a_cache_that_is_mapped_stays(full_home: Path) -> None:
    """Guards against removing the cache of a training run, which holds no lock."""
    array = next(path for path in home.cache_path("b", "flat-2").rglob("c/0") if path.is_file())
    with another_process(f"import numpy\nmapped = numpy.memmap({str(array)!r}, 'u1', 'r')"):
        done = run("clean", "--caches", "b", "--json")
        assert done.returncode == 2
        assert "b/flat-2 is in use by another process" in done.stderr
        found = {item["name"]: item["fate"] for item in json.loads(done.stdout)["items"]}
        assert (found["b/flat-2"], found["b/flat-3"]) == ("in use", "removed")
    assert np.fromfile(array, "u1").size > 0


def test_nothing_outside_and_nothing_foreign_goes(full_home: Path, tmp_path: Path) -> None:
    """Guards against following links, and against taking a person's own folder for a cache."""
    outside = tmp_path / "outside"
    (outside / "x").mkdir(parents=True)
    (outside / "x/precious").write_text("mine")
    for folder in ("raw/linked", "stores/.partial-linked", "caches/linked", "caches/b/.partial-l", "raw/b/.partial-l"):
        os.symlink(outside, full_home / folder)
    (full_home / "caches/b/notes").mkdir()
    (full_home / "stores/mine.zarr").mkdir()
    (full_home / "precious").write_text("mine")
    before = snapshot(outside)
    clean(raw=["b"], caches=["b"], stores=["b"])
    assert snapshot(outside) == before
    assert (full_home / "caches/b/notes").is_dir()
    assert (full_home / "stores/mine.zarr").is_dir()
    assert (full_home / "precious").exists()
    assert "names nothing" in refused(2, "clean", "--raw", "linked")


def test_a_home_that_is_not_there_or_a_link(tmp_path: Path, full_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a traceback in a fresh installation, and against passing over a home that is a link."""
    os.symlink(full_home, tmp_path / "link")
    monkeypatch.setenv("GRAPHPREP_HOME", str(tmp_path / "link"))
    assert fates(clean(caches=["b/flat-2"]))["cache b/flat-2"] == "removed"
    monkeypatch.setenv("GRAPHPREP_HOME", str(tmp_path / "nowhere"))
    assert clean() == []
    done = run("clean", "-q")
    assert done.returncode == 0, done.stderr


def test_the_table_shows_sizes(full_home: Path) -> None:
    """Guards against a listing that leaves out what takes the room."""
    done = run("clean", "--dry-run")
    assert done.returncode == 0
    [line] = [line for line in done.stdout.splitlines() if line.split()[:2] == ["b", "raw"]]
    assert line.split() == ["b", "raw", "5", "B", "kept"]
    assert "0 B were freed" in done.stderr
