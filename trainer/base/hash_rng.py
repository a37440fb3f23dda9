"""Random numbers by node: a hash computes them wherever they are needed, the same on every rank and machine.

A number is a function of a key (made from the run's seed, the epoch and the purpose) and of a node's number in the
whole graph. So both ends of an edge, and both ends of a link, know it without sending a byte.
"""

from __future__ import annotations

from torch import Tensor

_MIX_1, _MIX_2 = 0x369DEA0F31A53F85, 0x27BB2EE687B0B0FD
"""Odd 63-bit factors; products wrap around."""
_RANGE = 1 << 31
DROPOUT, ATTENTION_DROPOUT, SAMPLING, EMBEDDING, PAIRS = range(5)
"""Purposes."""


def _mixed(number: int) -> int:
    """63 bits that look random, the same for the same number on every machine."""
    number = number * _MIX_1 & (1 << 64) - 1
    number = (number ^ number >> 29) * _MIX_2 & (1 << 64) - 1
    return (number ^ number >> 32) >> 1


def key_of(seed: int, epoch: int, layer: int, purpose: int) -> int:
    """The key of the random numbers for one purpose in one layer and epoch of a run."""
    key = _mixed((seed * 1_000_003 + epoch) * 1_009 + layer)
    return _mixed(key + purpose) if purpose else key


def randint(numbers: Tensor, key: int, end: int) -> Tensor:
    """A whole number from 0 .. end - 1 for each of `numbers` (int64, any shape); `end` is a power of two to 2^31."""
    mix = (numbers + key) * _MIX_1
    mix = (mix ^ (mix >> 29)) * _MIX_2
    return (mix >> 32) & (end - 1)


def bernoulli(numbers: Tensor, key: int, chance: float) -> Tensor:
    """True with probability `chance` for each of `numbers` (int64): bool, of their shape."""
    return randint(numbers, key, _RANGE) < round(chance * _RANGE)


def pair_ids(first: Tensor, second: Tensor) -> Tensor:
    """A number for each pair of whole numbers, int64; (a, b) and (b, a) have different ones."""
    return randint(first, 0, _RANGE) * _RANGE + second * _MIX_2


def hash_62(first: Tensor, second: Tensor, key: int) -> Tensor:
    """A whole number below 2^62 for each pair of numbers (int64, of one shape), of 31 bits of either's hash."""
    return randint(first, key, _RANGE) * _RANGE + randint(second, _mixed(key), _RANGE)


def bernoulli_of_pairs(first: Tensor, first_ends: Tensor, second_ends: Tensor, key: int, chance: float) -> Tensor:
    """`bernoulli` of pair_ids(first[:, None], pair_ids(a, b)), in a third of the time: bool [first, pairs].

    Multiplication distributes over the sum of what the two ends of a pair add, also where it wraps around. So what
    depends on one end alone is computed once a node, by `ends_of_pairs`, and there remains one mix a number.

    Args:
        first: whole numbers, a few.
        first_ends: int64, of the first end a of each pair.
        second_ends: int64, of its second end b.
        key: as of `bernoulli`.
        chance: that a value is true.
    """
    offsets = (randint(first, 0, _RANGE) * _RANGE + key) * _MIX_1
    mix = offsets.unsqueeze(1) + (first_ends + second_ends)
    mix ^= mix >> 29
    mix *= _MIX_2
    mix &= _RANGE - 1 << 32
    return mix <= (round(chance * _RANGE) << 32) - 1


def ends_of_pairs(numbers: Tensor) -> tuple[Tensor, Tensor]:
    """What each of `numbers` adds to a pair in `bernoulli_of_pairs`, as its first end and as its second: int64."""
    return randint(numbers, 0, _RANGE) * _RANGE * _MIX_2 * _MIX_1, numbers * _MIX_2 * _MIX_2 * _MIX_1
