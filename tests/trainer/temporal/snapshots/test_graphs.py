"""Snapshots of a stream: what a step may know, and which pairs it predicts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor

from tests.trainer.rank_group import among_ranks, run_options
from tests.trainer.temporal.snapshots.dense_reference import Reference
from tests.trainer.temporal.snapshots.streams import MODELS, shared_snapshots, small_events
from trainer.base.traffic_log import Clock
from trainer.dist.communicator import Communicator
from trainer.dist.rank_info import RankInfo
from trainer.temporal.snapshots.graphs import SPLITS, Events, Snapshots
from trainer.temporal.snapshots.network import SnapshotNetwork
from trainer.temporal.snapshots.passes import SnapshotPass
from trainer.temporal.snapshots.workers import Workers

CPU = torch.device("cpu")


def snapshots_of(events: Events) -> Snapshots:
    return Snapshots(events=events, device=CPU, seed=0)


def rows_after(events: Events, changes: dict[str, str], number: int) -> Tensor:
    """The rows after one snapshot, by a whole pass."""
    snapshots, rows = snapshots_of(events), dict[int, Tensor]()
    network = SnapshotNetwork(run_options("", hidden=8, **changes), snapshots)
    with Communicator(RankInfo(), CPU, timeout=60.0, clock=Clock(CPU)) as communicator:
        SnapshotPass(
            network,
            snapshots,
            communicator,
            Workers(1, CPU),
            borders=[0, events.num_snapshots],
            history=0,
            is_training=False,
        ).run(lambda step, rows_nG: rows.update({step: rows_nG}))  # type: ignore[func-returns-value]
    return rows[number]


@pytest.mark.parametrize("model", MODELS)
def test_later_events_change_no_earlier_row(model: str) -> None:
    """A state that reads a later snapshot, or a numbering of nodes by all events."""
    events, number = small_events(), 4
    until = int(events.offsets[number + 1])
    source_M, destination_M = events.source_M.clone(), events.destination_M.clone()
    source_M[until:], destination_M[until:] = destination_M[until:].flip(0), source_M[until:].roll(3)
    other = replace(events, source_M=source_M, destination_M=destination_M)
    before, after = (rows_after(one, MODELS[model], number) for one in (events, other))
    assert torch.equal(before, after)
    last = events.num_snapshots - 1
    assert not torch.equal(rows_after(events, MODELS[model], last), rows_after(other, MODELS[model], last))


def test_every_event_of_a_predicted_window_is_in_the_pairs_of_its_split() -> None:
    """Pairs that are in no split, in two, or in that of another event, in a window that the split cuts."""
    events = small_events()
    snapshots = snapshots_of(events)
    number = int(torch.searchsorted(events.offsets, events.first_val, right=True)) - 1
    assert events.offsets[number] < events.first_val < events.offsets[number + 1]
    cuts = [0, events.first_val, events.first_test, len(events.source_M)]
    for window in range(events.num_snapshots):
        begin, end = events.offsets[window : window + 2].tolist()
        for side, split in enumerate(SPLITS):
            these = slice(max(begin, cuts[side]), max(begin, min(end, cuts[side + 1])))
            pairs = snapshots.pairs(window, split, epoch=0, num_negatives=3)
            ends = zip(
                snapshots.order_N[pairs.source_k].tolist(), snapshots.order_N[pairs.destination_k].tolist(), strict=True
            )
            expected = set(zip(events.source_M[these].tolist(), events.destination_M[these].tolist(), strict=True))
            assert sorted(ends) == sorted(expected)


def test_negatives_are_other_destinations_and_the_same_wherever_they_are_drawn() -> None:
    """A negative that is the pair itself or a node that is never a destination, or that depends on their number."""
    events = small_events()
    snapshots = snapshots_of(events)
    pairs = snapshots.pairs(1, "train", epoch=2, num_negatives=200)
    drawn = snapshots.order_N[pairs.negative_kK]
    assert not bool((pairs.negative_kK == pairs.destination_k.unsqueeze(1)).any())
    assert set(drawn.flatten().tolist()) == set(events.destination_M.tolist())
    fewer = snapshots_of(events).pairs(1, "train", epoch=2, num_negatives=5)
    assert torch.equal(fewer.negative_kK, pairs.negative_kK[:, :5])
    other = snapshots.pairs(1, "train", epoch=3, num_negatives=5)
    assert not torch.equal(other.negative_kK, fewer.negative_kK)


def test_matrices_are_those_of_events_in_both_directions() -> None:
    """Events of a node with itself, several between the same two, and nodes that have not occurred."""
    events = small_events()
    snapshots = snapshots_of(events)
    reference = Reference(SnapshotNetwork(run_options("", hidden=8), snapshots), events)
    for number in range(events.num_snapshots):
        graph, dense = snapshots.graph(number), reference.matrix(number)
        assert graph.num_nodes == reference.num_rows(number)
        assert torch.equal(graph.pattern @ torch.eye(graph.num_nodes), (dense > 0).float())
        assert torch.equal(graph.degree_n, dense.sum(1))


@pytest.mark.parametrize("num_members", [1, 2])
def test_states_are_the_last_known_ones_of_each_source(num_members: int) -> None:
    """Compared with a loop over the events; a window that the split cuts has states of both sides."""
    events = small_events()
    y_M = torch.randint(-1, 3, events.source_M.shape, generator=torch.Generator().manual_seed(3))
    events = replace(events, y_M=y_M)
    limits = {"train": (0, events.first_val), "val": (events.first_val, events.first_test)}
    [by_rank] = among_ranks(1, [partial(shared_snapshots, events=events, num_members=num_members)])
    for split, (lowest, highest) in limits.items():
        for number in range(1, events.num_snapshots):
            expected: dict[int, int] = {}
            for event in range(*events.offsets[number : number + 2].tolist()):
                if lowest <= event < highest and y_M[event] >= 0:
                    expected[int(events.source_M[event])] = int(y_M[event])
            own = by_rank.own_nodes.tolist()
            row_k, y_k = by_rank.states(number, split)
            found = {own[row]: y for row, y in zip(row_k.tolist(), y_k.tolist(), strict=True)}
            assert found == {node: y for node, y in expected.items() if node in own}
