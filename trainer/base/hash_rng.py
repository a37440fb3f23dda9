"""Random numbers that belong to nodes: drawn by a hash wherever they are wanted, the same on every rank and machine.

A draw is a function of a key (made from the run's seed, the epoch and the purpose) and of a node's number in the whole
graph. So both ends of an edge, and both ends of a link, know it for no bytes.
"""

from __future__ import annotations

from torch import Tensor

_MIX_1, _MIX_2 = 0x369DEA0F31A53F85, 0x27BB2EE687B0B0FD
"""Odd 63-bit factors; products wrap around."""
_FINEST = 1 << 31
DROPOUT, ATTENTION_DROPOUT, SAMPLING, EMBEDDING = range(4)
"""Purposes."""


def mixed(number: int) -> int:
    """63 bits that look random, the same for the same number on every machine."""
    number = number * _MIX_1 & (1 << 64) - 1
    number = (number ^ number >> 29) * _MIX_2 & (1 << 64) - 1
    return (number ^ number >> 32) >> 1


def key_of(seed: int, epoch: int, layer: int, purpose: int) -> int:
    """The key of what is drawn for one purpose in one layer and epoch of a run."""
    key = mixed((seed * 1_000_003 + epoch) * 1_009 + layer)
    return mixed(key + purpose) if purpose else key


def drawn(numbers: Tensor, key: int, end: int) -> Tensor:
    """A draw from 0 .. end - 1 for each of `numbers` (int64, any shape), by a hash; `end` is a power of two to 2^31."""
    mix = (numbers + key) * _MIX_1
    mix = (mix ^ (mix >> 29)) * _MIX_2
    return (mix >> 32) & (end - 1)


def happens(numbers: Tensor, key: int, chance: float) -> Tensor:
    """Whether each of `numbers` (int64) is drawn, with probability `chance`: bool, of their shape."""
    return drawn(numbers, key, _FINEST) < round(chance * _FINEST)


def of_pairs(first: Tensor, second: Tensor) -> Tensor:
    """A number for each pair of whole numbers, int64; (a, b) and (b, a) have different ones."""
    return drawn(first, 0, _FINEST) * _FINEST + second * _MIX_2
