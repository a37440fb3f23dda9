"""Event caches: what `cache_of_arrays` writes is what the trainer reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

from graphprep.cache.manifest import Manifest
from graphprep.errors import DatasetError, PartitionError, UsageError
from graphprep.report.summary.event_summary import event_cache_summary
from graphprep.temporal import events as events_module
from graphprep.temporal.cache import EventCache
from graphprep.temporal.write_cache import cache_of_arrays
from tests.conftest import BoundsChecked
from trainer.base.errors import CacheError
from trainer.data.events import is_event_cache, open_event_cache


def make(folder: Path, *, num_events: int = 500, seed: int = 0, **options: object) -> dict[str, np.ndarray]:
    """A cache of random events in no order of time, with ties and events from nodes to themselves."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, np.ndarray] = {
        "source": rng.integers(0, 40, num_events),
        "destination": rng.integers(0, 40, num_events),
        "time": rng.integers(0, 300, num_events),
        "x": rng.normal(size=(num_events, 3)).astype(np.float32),
        "y": rng.integers(0, 2, num_events),
        "node_x": rng.normal(size=(40, 2)).astype(np.float32),
    }
    cache_of_arrays(folder, **arrays, **options)  # type: ignore[arg-type]
    return arrays


def test_trainer_reads_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events are sorted by time, ties in the order of the input, also where they are written in several pieces."""
    monkeypatch.setattr(events_module, "ROWS_AT_A_TIME", 64)
    given = make(tmp_path / "cache", num_parts=3, window_seconds=50.0)
    assert is_event_cache(str(tmp_path / "cache"))
    cache = open_event_cache(str(tmp_path / "cache"))
    tensors = cache.tensors()
    order = np.argsort(given["time"], kind="stable")
    for name in ("source", "destination", "time", "x", "y"):
        np.testing.assert_array_equal(getattr(tensors, name).numpy(), given[name][order])
    np.testing.assert_array_equal(tensors.node_x.numpy(), given["node_x"])  # type: ignore[union-attr]
    assert (cache.num_nodes, cache.num_events, cache.num_parts, cache.num_states) == (40, 500, 3, 2)
    assert cache.destinations == (given["destination"].min(), given["destination"].max() + 1)
    assert tensors.rank_of.tolist() == [node % 3 for node in range(40)]
    validation, test = cache.split
    times = tensors.time
    assert times[validation - 1] < times[validation]
    assert times[test - 1] < times[test]
    assert cache.num_snapshots == len(tensors.snapshot_group)  # type: ignore[arg-type]
    borders = tensors.snapshot_offsets.tolist()  # type: ignore[union-attr]
    windows = (times - times[0]) // 50
    assert windows.tolist() == [t for t in range(cache.num_snapshots) for _ in range(borders[t], borders[t + 1])]


def test_index_has_the_events_of_each_node_in_order(tmp_path: Path) -> None:
    """The kernels agree with a search of all events, for pieces of any length and memory for few entries."""
    given = make(tmp_path / "cache")
    tensors = open_event_cache(str(tmp_path / "cache")).tensors()
    order = np.argsort(given["time"], kind="stable")
    ends = np.stack([given["source"][order], given["destination"][order]], axis=1)
    for node in range(40):
        start, stop = tensors.index_offsets[node : node + 2].tolist()
        event, end = np.nonzero(ends == node)
        np.testing.assert_array_equal(tensors.index_event[start:stop].numpy(), event)
        np.testing.assert_array_equal(tensors.index_neighbour[start:stop].numpy(), ends[event, 1 - end])


def test_zarr_opens_it_and_the_manifest_lists_it(tmp_path: Path) -> None:
    """A cache is a Zarr group whose every file is in the manifest."""
    make(tmp_path / "cache", window_seconds=100.0)
    root = zarr.open_group(str(tmp_path / "cache"), mode="r")
    assert np.asarray(root["events/time"]).shape == (500,)
    assert root.attrs["graphprep_kind"] == "events"
    opened = EventCache(tmp_path / "cache")
    assert opened.check() == len(opened.manifest.files)
    assert event_cache_summary(opened)["snapshots"]["count"] == 3
    manifest = Manifest.read(tmp_path / "cache")
    manifest.check_sizes(tmp_path / "cache")
    assert manifest.unlisted(tmp_path / "cache") == []
    for path in manifest.files:
        manifest.check_file(tmp_path / "cache", path)


def test_same_arrays_give_the_same_key(tmp_path: Path) -> None:
    """The key depends on the content alone."""
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        make(tmp_path / name, seed=seed)
    keys = [Manifest.read(tmp_path / name).key for name in "abc"]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"time": np.array([0.0, np.nan, 1.0])}, DatasetError, "the time of event 1 is nan"),
        ({"source": np.array([0, -1, 1])}, DatasetError, "names node -1"),
        ({"num_nodes": 2}, DatasetError, "names node 2"),
        ({"x": np.zeros((2, 1))}, DatasetError, "has 2 rows for 3 times"),
        ({"num_parts": 0}, PartitionError, "0 ranks cannot be numbered"),
        ({"split": (0.9, 0.1)}, UsageError, "is not three positive shares"),
        ({"time": np.array([7, 7, 7])}, UsageError, "cannot be split by time"),
        ({"window_seconds": 1e-7}, UsageError, "is the most; give a longer --window"),
        ({"num_parts": 4, "window_seconds": 1e9}, PartitionError, "1 snapshots cannot be divided into 4 groups"),
    ],
)
def test_arrays_that_make_no_cache_are_refused(
    tmp_path: Path, options: dict[str, object], error: type[Exception], sentence: str
) -> None:
    """One sentence, and nothing is written."""
    given = {"source": np.array([0, 1, 2]), "destination": np.array([1, 2, 0]), "time": np.array([0, 1, 2])}
    with pytest.raises(error, match=sentence):
        cache_of_arrays(tmp_path / "cache", **(given | options))  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_damage_is_one_sentence(tmp_path: Path) -> None:
    """An array of another size, times that do not ascend, and a changed root are refused by name."""
    make(tmp_path / "cache")
    times = tmp_path / "cache/events/time/c/0"
    content = times.read_bytes()
    times.write_bytes(content[8:] + content[:8])
    with pytest.raises(CacheError, match="events/time does not ascend"):
        open_event_cache(str(tmp_path / "cache")).tensors()
    times.write_bytes(content[:-8])
    with pytest.raises(CacheError, match="has 3992 bytes and should have 4000"):
        open_event_cache(str(tmp_path / "cache")).tensors()
    root = tmp_path / "cache/zarr.json"
    root.write_text(root.read_text().replace('"num_nodes": 40', '"num_nodes": 39'))
    with pytest.raises(CacheError, match="differs from its checksum"):
        open_event_cache(str(tmp_path / "cache"))
    assert not is_event_cache(str(tmp_path))


def test_kernels_stay_within_bounds(bounds_checked: BoundsChecked) -> None:
    """The loops of the time index, with every access checked."""
    bounds_checked(
        """
import numpy as np
from graphprep.temporal.events import EventArrays
from graphprep.temporal.time_index import index_entries, index_offsets
events = EventArrays.of(np.array([0, 3, 3]), np.array([1, 3, 2]), np.array([1, 2, 3]), num_nodes=5)
offsets = index_offsets(events)
assert offsets.tolist() == [0, 1, 2, 3, 6, 6]
event, neighbour = index_entries(events, offsets, 2, 5)
assert (event.tolist(), neighbour.tolist()) == ([2, 1, 1, 2], [3, 3, 3, 2])
"""
    )
