"""The stream partitioner: every node has a rank, loads are even over time, and fewer events cross than by chance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphprep.cache.array_writer import FolderWriter
from graphprep.datasets.generators.event_stream import GeneratedEvents
from graphprep.datasets.generators.events import EventsRequest
from graphprep.errors import PartitionError
from graphprep.temporal.events import EventArrays
from graphprep.temporal.stream_partition import NodeRanks, assessed, assign_nodes, imbalance, loads, random_ranks
from graphprep.temporal.time_index import write_time_index
from tests.conftest import BoundsChecked


def stream(**options: int) -> EventArrays:
    """A generated stream in memory."""
    request = EventsRequest(**{"nodes": 600, "events": 40_000, "groups": 16, **options})
    [rows] = GeneratedEvents(request).rows()
    return EventArrays.of(rows.source, rows.destination, rows.time, num_nodes=request.nodes)


def assigned(folder: Path, events: EventArrays, num_parts: int, **options: float) -> NodeRanks:
    """Ranks by the partitioner."""
    index = write_time_index(FolderWriter(folder), events, entry_bytes=100_000)
    return assign_nodes(events, index, num_parts, **options)  # type: ignore[arg-type]


def test_fewer_events_cross_than_by_chance_and_loads_are_even(tmp_path: Path) -> None:
    """Guards against a partitioner that ignores partners, or the time at which a rank is loaded."""
    events = stream()
    found, drawn = assigned(tmp_path, events, 4).quality(), random_ranks(events, 4, seed=0).quality()
    assert found["crossing_share"] < 0.3 * drawn["crossing_share"]
    groups = ((np.arange(600) % 16) // 4).astype(np.int16)  # groups that are active one after the other together
    by_group = assessed(events, groups, 4, "groups").quality()
    assert found["imbalance_over_time"] < 0.85 * by_group["imbalance_over_time"]
    assert sum(found["nodes"]) == 600
    assert max(found["nodes"]) <= 1.2 * 150 + 1


def test_passes_improve_what_the_stream_gave(tmp_path: Path) -> None:
    """Moves are counted rightly: crossing events and overload are not more than without passes."""
    events = stream(groups=7)
    index = write_time_index(FolderWriter(tmp_path), events, entry_bytes=50_000)
    before, after = (assign_nodes(events, index, 5, passes=passes) for passes in (0, 12))

    def overload(ranks: NodeRanks) -> float:
        capacity_B = 1.05 * ranks.load_BP.sum(axis=1, keepdims=True) / 5
        return float(np.maximum(ranks.load_BP - capacity_B, 0).sum())

    assert after.crossing_events + overload(after) < before.crossing_events + overload(before)


def test_loads_count_both_ends(tmp_path: Path) -> None:
    """The table of loads and the number of crossing events are those of a count in NumPy."""
    events, num_parts = stream(events=5000), 3
    ranks = random_ranks(events, num_parts, seed=3)
    load_BP, crossing = loads(events, ranks.rank_of_N, num_parts)
    one, other = (ranks.rank_of_N[events.arrays[name]] for name in ("events/source", "events/destination"))
    assert crossing == int((one != other).sum())
    expected = np.zeros_like(load_BP)
    buckets = np.arange(5000) * len(load_BP) // 5000
    np.add.at(expected, (buckets, one), 1)
    np.add.at(expected, (buckets, other), 1)
    np.testing.assert_array_equal(load_BP, expected)
    assert imbalance(np.array([[2, 2], [3, 1], [0, 0]])) == [1.0, 1.5]


@pytest.mark.parametrize(("num_nodes", "num_parts"), [(5, 2), (3, 3), (40, 1), (50, 7)])
def test_nodes_without_events_are_placed_evenly(tmp_path: Path, num_nodes: int, num_parts: int) -> None:
    """Every node has a rank, also of a stream of one event between a node and itself."""
    events = EventArrays.of(np.array([1]), np.array([1]), np.array([7]), num_nodes=num_nodes)
    ranks = assigned(tmp_path, events, num_parts).rank_of_N
    counts = np.bincount(ranks, minlength=num_parts)
    assert counts.sum() == num_nodes
    assert counts.max() - counts.min() <= 1


def test_same_input_gives_the_same_ranks(tmp_path: Path) -> None:
    """Also where the index is read in other ranges of nodes."""
    events = stream(events=8000)
    one = assigned(tmp_path / "a", events, 4).rank_of_N
    index = write_time_index(FolderWriter(tmp_path / "b"), events, entry_bytes=10_000_000)
    np.testing.assert_array_equal(one, assign_nodes(events, index, 4).rank_of_N)


def test_memory_that_does_not_suffice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do instead."""
    monkeypatch.setattr("graphprep.system.memory.budget", lambda _: 1000)
    with pytest.raises(PartitionError, match="fewer --parts, more --memory, or --method random"):
        assigned(tmp_path, stream(events=100), 4)


@pytest.mark.slow
def test_kernels_stay_within_bounds(bounds_checked: BoundsChecked) -> None:
    """The loops of the partitioner and of the count of active nodes, with every access checked."""
    bounds_checked(
        """
import tempfile
from pathlib import Path
import numpy as np
from graphprep.cache.array_writer import FolderWriter
from graphprep.datasets.generators.event_stream import GeneratedEvents
from graphprep.datasets.generators.events import EventsRequest
from graphprep.temporal.events import EventArrays
from graphprep.temporal.snapshot_costs import active_nodes
from graphprep.temporal.stream_partition import assign_nodes
from graphprep.temporal.time_index import write_time_index
[rows] = GeneratedEvents(EventsRequest(nodes=40, events=500, groups=4)).rows()
events = EventArrays.of(rows.source, rows.destination, rows.time, num_nodes=41)
index = write_time_index(FolderWriter(Path(tempfile.mkdtemp())), events, entry_bytes=4000)
ranks = assign_nodes(events, index, 3)
assert ranks.load_BP.sum() == 1000
assert active_nodes(events, np.array([0, 0, 100, 500])).tolist()[0] == 0
"""
    )
