"""Streams of events from Python: the keywords are the fields of the steps, and the functions give open objects."""

from __future__ import annotations

from pathlib import Path
from typing import get_type_hints

import pytest

import graphprep as gp
from graphprep.api import options as keywords
from graphprep.datasets.importing.event_options import EventOptions
from graphprep.datasets.importing.options import ImportOptions
from graphprep.errors import CacheError, UsageError
from graphprep.system.options import options_in
from graphprep.temporal.request import EventCacheRequest
from pipelines.events.cache import METHODS
from tests.api.test_call import words_of

NOT_FOR_EVENTS = {
    *("undirected", "duplicates", "self_loops", "edge_times", "labels", "task", "node_times", "label", "feature"),
    *("split_column", "node_header", "node_delimiter", "train", "val", "test", "splits", "seed", "edges"),
}
"""options of an import that say something of a graph without times"""


def test_keywords_are_the_fields_of_the_steps() -> None:
    """Guards against an option of the command line that Python lacks, and against other choices."""
    imported = get_type_hints(keywords.EventFileOptions)
    names = {option.name for option in options_in(ImportOptions)}
    of_events = {option.name for option in options_in(EventOptions)} - {"events"}
    assert of_events <= imported.keys()
    assert imported.keys() - of_events - {"progress", "memory", "out", "replace"} == names - NOT_FOR_EVENTS
    unit = next(option for option in options_in(EventOptions) if option.name == "time_unit")
    assert words_of(imported["time_unit"]) == tuple(unit.choices)
    made = get_type_hints(keywords.EventCacheOptions)
    own = {option.name for option in options_in(EventCacheRequest)}
    assert made.keys() - {"progress", "memory"} == own | {"method", "imbalance", "seed"}
    assert words_of(made["method"]) == METHODS


def test_from_files_to_a_cache(tmp_path: Path) -> None:
    """Each function gives what is open, and finds it by its name."""
    lines = [f"{event % 7} {(3 * event) % 11} {1000 * event}" for event in range(200)]
    (tmp_path / "e.txt").write_text("\n".join(lines))
    store = gp.import_events(tmp_path / "e.txt", name="talk", time_unit="ms", progress=False)
    assert len(store) == 200
    assert gp.open_events("talk").key == store.key
    assert gp.open_events(store) is store
    assert [len(day) for day in store.snapshots("100s")] == [100, 100]
    cache = gp.partition_events("talk", parts=2, purpose="snapshots", window="20s", progress=False)
    assert cache.num_parts == 2
    assert gp.open_event_cache("talk/snapshots-2").key == cache.key
    assert gp.partition_events(store, parts=2, purpose="snapshots", window="20s").key == cache.key
    plan = gp.plan_events(cache, hidden=8)
    assert plan == gp.plan_events("talk/snapshots-2", hidden=8, parts=2)
    assert (plan["kind"], plan["num_parts"], plan["events"]) == ("snapshots", 2, 200)
    with pytest.raises(UsageError, match="batch_size is not for the plan of a cache of snapshots"):
        gp.plan_events(cache, batch_size=20)
    with pytest.raises(UsageError, match="neighbours"):
        gp.plan_events(cache, neighbours=0)
    with pytest.raises(UsageError, match=r"needs the length of a snapshot; give e\.g\. window 1d"):
        gp.partition_events(store, parts=2, purpose="snapshots")
    with pytest.raises(CacheError, match="was made with other options"):
        gp.partition_events(store, parts=2, purpose="snapshots", window="30s")
    with pytest.raises(CacheError, match="is an event cache"):
        gp.open_cache("talk/snapshots-2")
    with pytest.raises(TypeError, match="did you mean 'half_life'"):
        gp.partition_events(store, parts=2, half_lif="1d")  # type: ignore[call-arg]
