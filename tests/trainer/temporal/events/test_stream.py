"""The time index against a walk over the events."""

from __future__ import annotations

import torch

from tests.trainer.temporal.events.streams import random_stream, stream_of


def test_recent_neighbours_are_those_of_a_walk() -> None:
    """Guards against neighbours of the same time or of the future, and against a wrong order of the most recent."""
    stream = random_stream(num_nodes=6, num_events=80)
    query_q = torch.arange(stream.num_nodes).repeat(stream.num_events)
    event_q = torch.arange(stream.num_events).repeat_interleave(stream.num_nodes)
    found = stream.recent_neighbours(query_q, stream.first_of_time(event_q), 3)
    for place, (node, event) in enumerate(zip(query_q.tolist(), event_q.tolist(), strict=True)):
        expected = []
        for other in range(stream.num_events):
            if stream.time_M[other] >= stream.time_M[event]:
                break
            ends = (int(stream.source_M[other]), int(stream.destination_M[other]))
            expected += [(other, ends[1 - side]) for side in (0, 1) if ends[side] == node]
        exists = found.exists_qK[place]
        pairs = zip(found.event_qK[place][exists].tolist(), found.node_qK[place][exists].tolist(), strict=True)
        assert sorted(pairs, reverse=True) == sorted(expected[-3:], reverse=True)
        assert found.event_qK[place][exists].tolist() == sorted(found.event_qK[place][exists].tolist(), reverse=True)


def test_node_without_events_has_no_neighbours() -> None:
    """Guards against reading the list of the next node."""
    ends = torch.tensor([0, 0]), torch.tensor([2, 2])
    stream = stream_of(*ends, torch.tensor([1, 2]), num_nodes=4)
    found = stream.recent_neighbours(torch.tensor([1, 3]), torch.tensor([2, 2]), 2)
    assert not found.exists_qK.any()


def test_owners_follow_the_partition_of_the_stream() -> None:
    """Guards against a partition that is ignored, or used for another number of ranks."""
    stream = random_stream()
    rank_of_N = (torch.arange(stream.num_nodes) * 7 % 3).to(torch.int16)
    object.__setattr__(stream, "rank_of_N", rank_of_N)
    assert torch.equal(stream.owner_N(3), rank_of_N.long())
    assert stream.owner_N(2).tolist() == [node % 2 for node in range(stream.num_nodes)]
