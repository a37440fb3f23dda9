"""Random destinations that an event is compared with, by hash: the same on any number of ranks.

A negative of an event has its source and time, and another destination: one of all nodes that are a destination
anywhere in the stream, each with the same chance, except the event's own.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.base.hash_rng import PAIRS, hash_62, key_of
from trainer.temporal.events.stream import EventStream

_TRAINING, _EVALUATION = 8, 9
"""In the place of layers in keys, after those of trainer/data/negatives.py."""


def training_key(seed: int, epoch: int) -> int:
    """The key of the negatives of one epoch, from 1."""
    return key_of(seed, epoch, _TRAINING, PAIRS)


def evaluation_key(seed: int) -> int:
    """The key of the negatives that validation and test use, the same in all epochs."""
    return key_of(seed, 0, _EVALUATION, PAIRS)


def negative_destinations(stream: EventStream, event_b: Tensor, number: int, key: int) -> Tensor:
    """`number` destinations for each event: int64 [b, number]. The first columns do not depend on `number`."""
    candidates_D = stream.candidates_D
    own_b = torch.searchsorted(candidates_D, stream.destination_M[event_b])
    events_bn = event_b.unsqueeze(1).expand(-1, number)
    place_bn = hash_62(events_bn, torch.arange(number).expand_as(events_bn), key) % (len(candidates_D) - 1)
    return candidates_D[place_bn + (place_bn >= own_b.unsqueeze(1))]
