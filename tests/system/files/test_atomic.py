"""Whole or not there."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from graphprep.system.files import atomic
from tests.end_to_end.test_cli import CLI


def test_a_file_that_fails_half_way_leaves_the_old_one(tmp_path: Path) -> None:
    """Guards against a report or an assignment that is overwritten by half of its successor."""
    target = tmp_path / "file"
    target.write_bytes(b"old")

    def write_half() -> None:
        with atomic.published_file(target) as file:
            file.write(b"half of the n")
            raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError):
        write_half()
    assert target.read_bytes() == b"old"
    with atomic.published_file(target) as file:
        file.write(b"new")
    assert target.read_bytes() == b"new"


def test_a_folder_takes_the_place_of_another(tmp_path: Path) -> None:
    """Guards against files of the old folder that survive in the new one, and against leftovers of a killed swap."""
    target, partial = tmp_path / "cache", tmp_path / ".partial-1"
    for folder, name in ((target, "old"), (partial, "new"), (tmp_path / ".replaced-cache", "older")):
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / name).write_text(name)
    atomic.publish_folder(partial, target)
    assert [path.name for path in (target / "deep").iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_what_appears_is_on_the_disk_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a file or folder that a loss of power leaves under its name with nothing in it."""
    calls: list[tuple[str, str]] = []

    def noted(name: str, place: Any) -> None:
        function = getattr(os, name)

        def call(*arguments: Any) -> None:
            calls.append((name, Path(place(arguments[0])).name))
            function(*arguments)

        monkeypatch.setattr(os, name, call)

    noted("fsync", lambda descriptor: os.readlink(f"/proc/self/fd/{descriptor}"))
    noted("rename", os.fspath)
    noted("replace", os.fspath)
    with atomic.published_file(tmp_path / "file") as file:
        file.write(b"new")
    assert calls == [("fsync", ".partial-file"), ("replace", ".partial-file"), ("fsync", tmp_path.name)]
    partial = tmp_path / "made"
    (partial / "deep").mkdir(parents=True)
    (partial / "deep/one").write_text("1")
    calls.clear()
    atomic.publish_folder(partial, tmp_path / "cache")
    assert set(calls[:3]) == {("fsync", "one"), ("fsync", "deep"), ("fsync", "made")}
    assert calls[3:] == [("rename", "made"), ("fsync", tmp_path.name)]


def test_what_a_kill_after_publishing_left_is_swept(tmp_path: Path) -> None:
    """Guards against old folders that nobody removes, since the next run finds its work done."""
    target = tmp_path / "cache"
    for folder in (target, tmp_path / ".replaced-cache", tmp_path / ".partial-1", tmp_path / ".partial-2"):
        folder.mkdir()
    atomic.sweep(target, tmp_path / ".partial-1")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".partial-2", "cache"]


def hold(path: Path, seconds: float) -> None:
    with atomic.locked(path, "the test"):
        time.sleep(seconds)


def test_a_killed_holder_frees_the_lock(tmp_path: Path) -> None:
    """Guards against a lock file that blocks every later run after a kill -9."""
    context = multiprocessing.get_context("spawn")
    holder = context.Process(target=hold, args=(tmp_path / "x", 60))
    holder.start()
    while not (tmp_path / ".x.lock").exists():
        time.sleep(0.02)
    time.sleep(0.2)
    holder.kill()
    holder.join()
    with atomic.locked(tmp_path / "x", "the test"):
        pass


def count_under_lock(path: Path, times: int) -> None:
    """Add to a number in a file, with a moment between reading and writing in which somebody else could."""
    for _ in range(times):
        with atomic.locked(path / "x", "the test"):
            number = int((path / "number").read_text())
            time.sleep(0.002)
            (path / "number").write_text(str(number + 1))


@pytest.mark.slow
def test_a_lock_that_is_removed_still_shuts_others_out(tmp_path: Path) -> None:
    """Guards against two holders, one of a file that is gone and one of its successor, and against files that stay."""
    (tmp_path / "number").write_text("0")
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=count_under_lock, args=(tmp_path, 40)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=120)
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert (tmp_path / "number").read_text() == "160"
    assert [path.name for path in tmp_path.iterdir()] == ["number"]


def test_a_lock_goes_with_an_error_too(tmp_path: Path) -> None:
    """Guards against a lock that a failed run keeps."""
    with pytest.raises(OSError, match="full"), atomic.locked(tmp_path / "x", "the test"):
        raise OSError("the disk is full")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_several_processes_may_start_at_once(graphprep_home: Path) -> None:
    """Guards against two runs that write the same store: one does the work, the others wait and find it."""
    running = [
        subprocess.Popen([*CLI, "fetch", "digits"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    outputs = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], outputs
    assert sorted(output.split(":")[0] for output, _ in outputs) == ["up to date", "up to date", "wrote"]
