"""Snapshots: their borders, costs, and groups whose largest cost is the smallest possible one."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphprep.errors import PartitionError, UsageError
from graphprep.temporal.cache import EventCache
from graphprep.temporal.events import EventArrays
from graphprep.temporal.snapshot_costs import active_nodes, fit_costs, snapshot_costs
from graphprep.temporal.snapshot_groups import balanced_groups
from graphprep.temporal.snapshot_memory import memory_by_rank
from graphprep.temporal.windows import in_units, snapshot_offsets, window_seconds
from graphprep.temporal.write_cache import cache_of_arrays
from trainer.base.traffic_log import Clock
from trainer.config.options import Options
from trainer.data.events import open_event_cache
from trainer.dist.communicator import Communicator
from trainer.dist.rank_info import RankInfo
from trainer.temporal.snapshots.graphs import Snapshots
from trainer.temporal.snapshots.members import Members
from trainer.temporal.snapshots.memory_estimate import rank_bytes
from trainer.temporal.snapshots.network import SnapshotNetwork
from trainer.temporal.snapshots.run import events_of


@given(cost=st.lists(st.integers(0, 9) | st.floats(0, 9), min_size=1, max_size=9), num_groups=st.integers(1, 5))
def test_groups_are_the_best_there_are(cost: list[float], num_groups: int) -> None:
    """Compared with all ways to divide the snapshots; every group has one, and they are in order."""
    cost_T = np.array(cost, np.float64)
    if len(cost) < num_groups:
        with pytest.raises(PartitionError, match="cannot be divided"):
            balanced_groups(cost_T, num_groups)
        return
    group_T = balanced_groups(cost_T, num_groups)
    assert sorted(set(group_T.tolist())) == list(range(num_groups))
    assert (np.diff(group_T) >= 0).all()
    borders = itertools.combinations(range(1, len(cost)), num_groups - 1)
    best = min(max(map(float, np.add.reduceat(cost_T, [0, *inner]))) for inner in borders)
    largest = max(cost_T[group_T == group].sum() for group in range(num_groups))
    assert largest <= best * (1 + 1e-9) + 1e-12


def test_daily_snapshots_of_college_messages_are_balanced(test_data: Path) -> None:
    """At most 1.05 of the mean on 2 and 4 ranks, where equal counts of snapshots give far more."""
    table = np.loadtxt(test_data / "edges" / "CollegeMsg.txt", dtype=np.int64)
    events = EventArrays.of(table[:, 0], table[:, 1], table[:, 2])
    offsets_T = snapshot_offsets(events.arrays["events/time"], in_units(window_seconds("1d"), "s"))
    cost_T = snapshot_costs(np.diff(offsets_T), active_nodes(events, offsets_T), (0.0, 1.0, 1.0))
    for num_groups, equal_counts in ((2, 1.6), (4, 2.4)):
        of_groups = np.bincount(balanced_groups(cost_T, num_groups), weights=cost_T)
        assert of_groups.max() / of_groups.mean() <= 1.05
        of_counts = np.array([part.sum() for part in np.array_split(cost_T, num_groups)])
        assert of_counts.max() / of_counts.mean() > equal_counts


def test_costs_are_fitted_and_never_negative() -> None:
    """The coefficients that made the seconds are found; one that would be negative is 0."""
    rng = np.random.default_rng(0)
    events_T, nodes_T = rng.integers(0, 10_000, 50), rng.integers(0, 500, 50)
    found = fit_costs(events_T, nodes_T, 2e-3 + 3e-7 * events_T + 5e-6 * nodes_T)
    np.testing.assert_allclose(found, (2e-3, 3e-7, 5e-6), rtol=1e-6)
    assert fit_costs(events_T, nodes_T, 1.0 - 1e-4 * nodes_T + 1e-5 * events_T)[2] == 0.0
    with pytest.raises(UsageError, match="do not fit 50 snapshots"):
        fit_costs(events_T, nodes_T, np.ones(3))
    with pytest.raises(UsageError, match="not finite"):
        fit_costs(events_T, nodes_T, np.full(50, np.nan))


@given(times=st.lists(st.integers(-50, 50), min_size=1, max_size=30), window=st.integers(1, 40) | st.floats(0.5, 30))
def test_windows_have_the_events_of_their_time(times: list[int], window: float) -> None:
    """Each event is in the window of its time; windows follow each other from the first event on."""
    time_M = np.sort(np.array(times))
    offsets = snapshot_offsets(time_M, float(window))
    assert (offsets[0], offsets[-1]) == (0, len(times))
    for number, (start, stop) in enumerate(itertools.pairwise(offsets.tolist())):
        for time in time_M[start:stop]:
            assert number * window <= (time - time_M[0]) + 1e-6
            assert (time - time_M[0]) < (number + 1) * window + 1e-6


def test_active_nodes_are_counted_once() -> None:
    """A node with several events of a snapshot counts once, and again in the next one."""
    events = EventArrays.of(np.array([0, 0, 1, 0]), np.array([1, 2, 1, 0]), np.array([0, 1, 2, 3]))
    assert active_nodes(events, np.array([0, 2, 2, 4])).tolist() == [3, 0, 2]


@pytest.mark.parametrize("text", ["1", "d", "0d", "-1d", "1 fortnight", "1e3s", ""])
def test_windows_need_a_number_and_a_unit(text: str) -> None:
    """One sentence with the units."""
    with pytest.raises(UsageError, match="one of the units ns, us, ms"):
        window_seconds(text)


def test_units_are_converted() -> None:
    """A day in milliseconds is a whole number of them."""
    assert window_seconds("1.5h") == 5400
    assert in_units(window_seconds("1d"), "ms") == 86_400_000
    assert in_units(window_seconds("1d"), "w") == pytest.approx(1 / 7)


def shared_cache(folder: Path, num_parts: int, ranks_per_group: int) -> EventCache:
    """A cache of events that move from group to group of nodes, on which ranks share groups of snapshots."""
    rng = np.random.default_rng(0)
    time = np.sort(rng.integers(0, 900, 4000))
    source = rng.integers(0, 120, 4000) + time // 3
    destination = rng.integers(0, 120, 4000) + time // 3
    options = {"num_parts": num_parts, "ranks_per_group": ranks_per_group, "window_seconds": 60.0}
    return EventCache(cache_of_arrays(folder, source, destination, time, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(("num_parts", "ranks_per_group"), [(2, 1), (4, 2), (3, 3)])
def test_memory_estimate_is_that_of_the_trainer(tmp_path: Path, num_parts: int, ranks_per_group: int) -> None:
    """Guards against figures of inspect that have nothing to do with what the trainer refuses."""
    cache = shared_cache(tmp_path / "cache", num_parts, ranks_per_group)
    estimates = memory_by_rank(cache)
    assert estimates is not None
    opened = open_event_cache(str(cache.folder))
    tensors = opened.tensors()
    assert tensors.snapshot_group is not None
    cpu = torch.device("cpu")
    communicator = Communicator(RankInfo(), cpu, timeout=1.0, clock=Clock(cpu))
    members = None
    if tensors.member_of is not None:
        members = Members(communicator=communicator, number=ranks_per_group, owner_N=tensors.member_of.long())
    snapshots = Snapshots(events=events_of(opened, tensors), device=cpu, seed=0, members=members)
    borders = np.searchsorted(tensors.snapshot_group.numpy(), range(num_parts // ranks_per_group + 1))
    borders = np.minimum(borders, snapshots.num_steps("train")).tolist()
    for model, of_ranks in estimates.items():
        options = Options(cache="", model=model)
        expected = rank_bytes(SnapshotNetwork(options, snapshots), snapshots, options, borders)
        assert of_ranks == expected, model
        assert len(of_ranks) == num_parts


def test_halo_rows_are_the_neighbours_of_other_ranks(tmp_path: Path) -> None:
    """Compared with sets of pairs; rows count from the first event of a node on."""
    cache = shared_cache(tmp_path / "cache", 3, 3)
    source, destination = cache.arrays["events/source"], cache.arrays["events/destination"]
    offsets, member = cache.snapshot_offsets, cache.member_of
    assert offsets is not None
    assert member is not None
    halo, seen, rows = 0, set[int](), np.zeros(3, np.int64)
    for begin, end in itertools.pairwise(offsets.tolist()):
        ends = list(zip(source[begin:end].tolist(), destination[begin:end].tolist(), strict=True))
        both = {*ends, *((other, one) for one, other in ends)}
        halo += len({(other, int(member[one])) for one, other in both if member[one] != member[other]})
        seen |= {node for pair in ends for node in pair}
        rows += np.bincount(member[sorted(seen)], minlength=3)
    figures = cache.quality["members"]
    assert (figures["halo_rows"], figures["rows"]) == (halo, rows.tolist())
    assert cache.check() == len(cache.manifest.files)
    assert cache.attributes["graphprep_format"] == 2
