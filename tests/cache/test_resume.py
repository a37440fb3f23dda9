"""What a killed run had finished is kept, if it is still as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphprep.cache import write as cache_writing
from graphprep.cache.array_writer import FolderWriter
from graphprep.cache.manifest import Manifest
from graphprep.cache.resume import ResumableSteps
from graphprep.cache.verify import verify_cache
from graphprep.cache.write_parts import PartWriter
from graphprep.partition.request import PartitionRequest
from graphprep.topology import Topology
from pipelines.partition import PartitionPlan, run_partition
from tests.graphs import labelled_graph
from tests.stores import make_store


def write(writer: FolderWriter) -> None:
    writer.array("a", np.arange(5))


def never(writer: FolderWriter) -> None:
    raise AssertionError("a finished step was done again")


def test_a_finished_step_is_kept(tmp_path: Path) -> None:
    """Guards against hours of writing that are done again after a kill."""
    first = ResumableSteps(tmp_path / "cache", tmp_path / "notes", content="one")
    first.run("one", write)
    again = ResumableSteps(tmp_path / "cache", tmp_path / "notes", content="one")
    again.run("one", never)
    assert again.files == first.files
    assert (first.kept, again.kept) == (0, 1)


def test_steps_of_other_content_are_thrown_away(tmp_path: Path) -> None:
    """Guards against parts of one assignment under the root of another, and against files that nobody lists."""
    ResumableSteps(tmp_path / "cache", tmp_path / "notes", content="one").run("one", write)
    other = ResumableSteps(tmp_path / "cache", tmp_path / "notes", content="two")
    assert list((tmp_path / "cache").iterdir()) == []
    other.run("one", write)
    assert other.kept == 0


def test_a_note_of_nothing_is_no_note(tmp_path: Path) -> None:
    """Guards against an empty note that passes for a finished step."""
    steps = ResumableSteps(tmp_path / "cache", tmp_path / "notes", content="one")
    (tmp_path / "notes" / "one.json").write_text("{}")
    steps.run("one", write)
    assert steps.kept == 0
    assert steps.files


@pytest.mark.parametrize("damage", ["shorter", "changed", "gone", "note"])
def test_a_step_that_is_not_as_it_was_is_done_again(tmp_path: Path, damage: str) -> None:
    """Guards against trust in a note whose files a power cut has taken."""
    steps = ResumableSteps(tmp_path / "cache", tmp_path / "notes", content="one")
    steps.run("one", write)
    payload = tmp_path / "cache" / "a" / "c" / "0"
    match damage:
        case "shorter":
            payload.write_bytes(payload.read_bytes()[:-1])
        case "changed":
            payload.write_bytes(bytes(len(payload.read_bytes())))
        case "gone":
            payload.unlink()
        case "note":
            (tmp_path / "notes" / "one.json").write_text("{")
    again = ResumableSteps(tmp_path / "cache", tmp_path / "notes", content="one")
    again.run("one", write)
    assert again.kept == 0
    assert again.files == steps.files


def test_a_run_goes_on_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against a resumed cache that differs from one that was written at once, or that starts over."""
    store = make_store(labelled_graph(np.random.default_rng(1), 90, 700, weighted=True))
    request = PartitionRequest(effort="none", method="metis")
    topology = Topology.flat(4)
    whole = run_partition(PartitionPlan(store=store, topology=topology, request=request, target=tmp_path / "whole"))
    plan = PartitionPlan(store=store, topology=topology, request=request, target=tmp_path / "cut")
    blocks = PartWriter._blocks

    def fails(self: PartWriter, kind: object, part: int) -> object:
        if part == 2:
            raise KeyboardInterrupt
        return blocks(self, kind, part)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(PartWriter, "_blocks", fails)
        patch.setattr("graphprep.system.executor.workers_for", lambda *_: 1)
        with pytest.raises(KeyboardInterrupt):
            run_partition(plan)
    assert not plan.target.exists()
    outcome = run_partition(plan)
    words = capsys.readouterr().err
    assert "going on with the assignment that an earlier run had finished" in words
    assert "6 pieces that an earlier run had finished were kept" in words
    verify_cache(outcome.cache)
    other = {"zarr.json"}  # seconds of the methods that were tried
    files = {path: entry for path, entry in Manifest.read(whole.cache.folder).files.items() if path not in other}
    assert {p: e for p, e in Manifest.read(plan.target).files.items() if p not in other} == files
    assert not list(tmp_path.glob(".partial*"))


def test_regions_are_not_made_for_parts_that_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a pass over all edges when only features are left to write."""
    store = make_store(labelled_graph(np.random.default_rng(1), 90, 700, weighted=True))
    request = PartitionRequest(effort="none", method="metis")
    topology = Topology.flat(4)
    whole = run_partition(PartitionPlan(store=store, topology=topology, request=request, target=tmp_path / "whole"))
    plan = PartitionPlan(store=store, topology=topology, request=request, target=tmp_path / "cut")

    def fails(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(cache_writing.CacheWriter, "node_array", fails)
        with pytest.raises(KeyboardInterrupt):
            run_partition(plan)
    with monkeypatch.context() as patch:
        patch.setattr(cache_writing, "bucket_by_part", fails)
        cache = run_partition(plan).cache
    verify_cache(cache)
    assert cache.attributes["self_loops"] == whole.cache.attributes["self_loops"]
    files = {name: entry for name, entry in Manifest.read(plan.target).files.items() if name != "zarr.json"}
    assert files == {n: e for n, e in Manifest.read(whole.cache.folder).files.items() if n != "zarr.json"}
