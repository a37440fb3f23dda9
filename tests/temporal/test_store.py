"""Views of an event store copy nothing, and splits by time leak nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphprep.cache.manifest import FileEntry, Manifest, file_sha256
from graphprep.errors import DatasetError, UsageError
from graphprep.temporal.format import TIME
from graphprep.temporal.sort_events import EventSpool
from graphprep.temporal.splits import split_by_time
from graphprep.temporal.store import EventStore
from graphprep.temporal.write_cache import cache_of_arrays
from pipelines.events.store import generate_events
from trainer.data.events import open_event_cache


@pytest.fixture
def store() -> EventStore:
    """A generated store, with features, of which some events came out of order."""
    from graphprep.datasets.generators.events import EventsRequest

    request = EventsRequest(nodes=90, events=4000, groups=6, features=2, days=10.0)
    return generate_events(request, name="stream").store


def test_views_share_the_memory_map(store: EventStore) -> None:
    """Windows and snapshots are ranges of the same memory."""
    whole = store.arrays[TIME]
    day = store.window(86_400, 2 * 86_400)
    assert 0 < len(day) < 4000
    assert np.shares_memory(day.time, whole)
    assert ((day.time >= 86_400) & (day.time < 2 * 86_400)).all()
    snapshots = store.snapshots("1d")
    assert sum(map(len, snapshots)) == 4000
    assert all(np.shares_memory(one.time, whole) for one in snapshots if len(one))
    assert [len(one) for one in store.snapshots(86_400)] == [len(one) for one in snapshots]
    assert not whole.flags.writeable
    assert len(day.window(end=0)) == 0
    with pytest.raises(UsageError, match="ends before it begins"):
        store.window(5, 4)


def test_generated_events_are_sorted_and_whole(store: EventStore) -> None:
    """The generator's delays put events out of order; the store has them in order, each with its features."""
    assert store.check() > 0
    assert not store.attributes["was_sorted"]
    assert (np.diff(store.events.time) >= 0).all()
    assert store.events.x.shape == (4000, 2)  # type: ignore[union-attr]


def test_merged_runs_give_the_same_store(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where memory is for few events at a time."""
    from graphprep.datasets.generators.events import EventsRequest

    monkeypatch.setattr(EventSpool, "run_rows", 700)
    request = EventsRequest(nodes=90, events=4000, groups=6, features=2, days=10.0)
    monkeypatch.setattr("graphprep.datasets.generators.event_stream.EVENTS_AT_A_TIME", 900)
    pieces = generate_events(request, name="pieces").store
    monkeypatch.setattr(EventSpool, "run_rows", 5000)
    whole = generate_events(request, name="whole").store
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(pieces.arrays[name], array)
    assert pieces.check() == store.check()


def test_pyg_has_the_same_events(store: EventStore) -> None:
    """As TemporalData."""
    data = store.window(end=86_400).to_pyg()
    view = store.window(end=86_400)
    assert data.src.tolist() == view.source.tolist()
    assert data.t.tolist() == view.time.tolist()
    np.testing.assert_array_equal(data.msg.numpy(), view.x)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    times=st.lists(st.integers(0, 30), min_size=4, max_size=60),
    shares=st.sampled_from([(0.7, 0.15, 0.15), (0.5, 0.25, 0.25), (0.1, 0.1, 0.8)]),
    data=st.data(),
)
def test_no_leak_is_possible(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], shares: tuple[float, float, float], data: st.DataObject
) -> None:
    """All times to train are below those to validate, these below those to test, whatever ties there are; and the
    neighbours of a node before an event, as a model draws them from the index, are of strictly earlier events."""
    time_M = np.sort(np.array(times))
    try:
        validation, test = split_by_time(time_M, shares)
    except UsageError:
        last = [time_M[max(1, round(share * len(times))) - 1] for share in (shares[0], shares[0] + shares[1])]
        assert not 0 < (time_M <= last[0]).sum() < (time_M <= last[1]).sum() < len(times)
        return
    train, val, later = time_M[:validation], time_M[validation:test], time_M[test:]
    assert train.max() < val.min()
    assert val.max() < later.min()
    rng = np.random.default_rng(len(times))
    folder = tmp_path_factory.mktemp("cache") / "cache"
    cache_of_arrays(
        folder, rng.integers(0, 5, len(times)), rng.integers(0, 5, len(times)), np.array(times), split=shares
    )
    tensors = open_event_cache(str(folder)).tensors()
    event = data.draw(st.integers(0, len(times) - 1))
    node, time = int(tensors.source[event]), tensors.time[event]
    first = int(torch.searchsorted(tensors.time, time))
    start, stop = tensors.index_offsets[node : node + 2].tolist()
    entries = tensors.index_event[start:stop]
    earlier = entries[entries < first]
    assert (tensors.time[earlier] < time).all()
    assert (tensors.time[entries[entries >= first]] >= time).all()


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("num_nodes", "many", "has no num_nodes, or a wrong one"),
        ("num_events", 0, "wrong unit of time or number of nodes or events"),
        ("time_unit", "fortnight", "wrong unit of time"),
        ("graphprep_format", 99, "has the format 99 and this release reads 1"),
        ("graphprep_kind", "store", "its zarr.json says 'store'"),
    ],
)
def test_a_root_that_makes_no_sense_is_refused(store: EventStore, name: str, value: object, sentence: str) -> None:
    """Even where the manifest was made to fit it."""
    path = store.folder / "zarr.json"
    document = json.loads(path.read_text())
    document["attributes"][name] = value
    path.write_text(json.dumps(document))
    with pytest.raises(DatasetError, match=sentence if name.startswith("graphprep") else "has changed since"):
        EventStore(store.folder)
    entry = FileEntry(size=path.stat().st_size, sha256=file_sha256(path))
    Manifest(key=store.key, files={**store.manifest.files, "zarr.json": entry}).write(store.folder)
    with pytest.raises(DatasetError, match=sentence):
        EventStore(store.folder)


def test_damage_is_found(store: EventStore) -> None:
    """A changed byte, a file that is not listed, and a missing file are each one sentence."""
    folder = store.folder
    payload = folder / "events/source/c/0"
    content = payload.read_bytes()
    payload.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(DatasetError, match="events/source/c/0 has changed since it was written; import it again"):
        EventStore(folder).check()
    payload.write_bytes(content)
    (folder / "stray").write_text("")
    with pytest.raises(DatasetError, match="has stray, which is not in the manifest"):
        EventStore(folder).check()
    (folder / "stray").unlink()
    (folder / "manifest.sha256").unlink()
    with pytest.raises(DatasetError, match=r"is not a finished event store: manifest\.sha256 is missing"):
        EventStore(folder).check()
    (folder / "zarr.json").write_text("{}")
    with pytest.raises(DatasetError, match=r"zarr\.json is missing or cannot be read"):
        EventStore(folder)
