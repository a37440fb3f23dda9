"""Negatives of events."""

from __future__ import annotations

import torch

from tests.trainer.temporal.events.streams import random_stream
from trainer.temporal.events.negatives import evaluation_key, negative_destinations, training_key


def test_negatives_are_other_destinations_of_the_stream() -> None:
    """Guards against the event's own destination, and against nodes that are never a destination."""
    stream = random_stream(num_nodes=30, num_events=40)
    event_b = torch.arange(stream.num_events)
    negative_bn = negative_destinations(stream, event_b, 200, evaluation_key(0))
    assert not (negative_bn == stream.destination_M.unsqueeze(1)).any()
    for event in range(stream.num_events):
        others = set(stream.destination_M.tolist()) - {int(stream.destination_M[event])}
        drawn, counts = negative_bn[event].unique(return_counts=True)
        assert set(drawn.tolist()) <= others
        assert int(counts.max()) < 8 * 200 / len(others)


def test_negatives_depend_on_the_event_alone() -> None:
    """Guards against draws that change with the batch, the number of negatives, or the rank."""
    stream = random_stream()
    key = training_key(3, 1)
    whole = negative_destinations(stream, torch.arange(40), 6, key)
    assert torch.equal(whole[10:20, :2], negative_destinations(stream, torch.arange(10, 20), 2, key))
    assert not torch.equal(whole, negative_destinations(stream, torch.arange(40), 6, training_key(3, 2)))
