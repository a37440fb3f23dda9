"""A store or cache that is replaced while it is read is read again, and not called damaged."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from graphprep.errors import CacheError
from graphprep.partition.request import PartitionRequest
from graphprep.system.files import retry_replaced
from graphprep.system.files.atomic import publish_folder
from graphprep.system.files.retry_replaced import read_again_if_replaced
from graphprep.topology import Topology
from pipelines.look import verify
from pipelines.partition import PartitionPlan, run_partition
from tests.graphs import labelled_graph
from tests.stores import make_cache, make_store


def folder_with(path: Path, word: str) -> Path:
    path.mkdir()
    (path / "zarr.json").write_text("{}")
    (path / "word").write_text(word)
    return path


def test_what_is_replaced_on_the_way_is_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against files of the old and the new cache that are taken for one damaged cache."""
    place = folder_with(tmp_path / "cache", "old")
    seen = []

    def read() -> str:
        seen.append((place / "word").read_text())
        if len(seen) == 1:
            publish_folder(folder_with(tmp_path / "partial", "new"), place)
            raise CacheError("a file has changed")
        return seen[-1]

    assert read_again_if_replaced(lambda: place, read) == "new"
    assert seen == ["old", "new"]
    assert "was replaced while it was read" in capsys.readouterr().err


def test_between_the_two_renames_the_new_one_is_waited_for(tmp_path: Path) -> None:
    """Guards against `there is no cache` in the moment when the old one has gone and the new one has not come."""
    place, aside = tmp_path / "cache", tmp_path / ".replaced-cache"
    folder_with(place, "old")
    new = folder_with(tmp_path / "partial", "new")
    os.rename(place, aside)
    timer = threading.Timer(0.2, os.rename, (new, place))
    timer.start()
    assert read_again_if_replaced(lambda: place, lambda: (place / "word").read_text()) == "new"
    timer.join()


def test_damage_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against damage that is read again and again, and a folder that is not there that is waited for."""
    monkeypatch.setattr(retry_replaced, "LONGEST_WAIT_S", 0.0)
    tries = []

    def read() -> None:
        tries.append(1)
        raise CacheError("damaged")

    for place in (folder_with(tmp_path / "cache", "old"), tmp_path / "absent", None):
        tries.clear()
        with pytest.raises(CacheError, match="damaged"):
            read_again_if_replaced(lambda place=place: place, read)  # type: ignore[misc]
        assert len(tries) == 1


def test_one_that_never_stays_is_given_up(tmp_path: Path) -> None:
    """Guards against an endless loop beside a run that replaces a cache over and over."""
    place, tries = folder_with(tmp_path / "cache", "old"), []

    def read() -> None:
        tries.append(1)
        publish_folder(folder_with(tmp_path / "partial", "new"), place)
        raise CacheError("a file has changed")

    with pytest.raises(CacheError, match="has changed"):
        read_again_if_replaced(lambda: place, read)
    assert len(tries) == retry_replaced.TRIES


@pytest.mark.slow
def test_verify_beside_a_run_that_replaces_the_cache(tmp_path: Path) -> None:
    """Guards against `damaged` in 1 of 15 tries: verify runs while the cache is replaced again and again."""
    store = make_store(labelled_graph(np.random.default_rng(1), 60, 300), target=tmp_path / "g.zarr")
    place = make_cache(store, Topology.flat(2), tmp_path / "cache").folder
    others = []
    for seed in (1, 2):
        request = PartitionRequest(method="random", seed=seed)
        plan = PartitionPlan(store=store, topology=Topology.flat(2), request=request, target=tmp_path / f"seed{seed}")
        others.append(run_partition(plan).cache.folder)
    stop = threading.Event()

    def replace() -> None:
        for number in range(200):
            if stop.is_set():
                return
            shutil.copytree(others[number % 2], tmp_path / "partial")
            publish_folder(tmp_path / "partial", place)
            stop.wait(0.05)

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(10):
            assert verify(str(place))["whole"] is True
    finally:
        stop.set()
        thread.join()
