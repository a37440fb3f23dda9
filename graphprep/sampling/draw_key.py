"""Keys of random draws: a hash of the seed, the epoch and the purpose, so that every process has the same."""

from __future__ import annotations

import numpy as np

from graphprep.core.csr_kernels import mixed

ORDER_OF_SEEDS, RANDOM_PAIRS, VERTICES = -1, -2, -3
"""purposes; those from 0 on are draws of neighbours: hop * 2^32 + the edge type's place in key order"""


def key_of(seed: int, epoch: int, purpose: int, *more: int) -> np.uint64:
    """The key of the draws for one purpose in one epoch; `more` are numbers that tell draws of a purpose apart."""
    key = np.uint64(seed % (1 << 64))
    for number in (epoch, purpose, *more):
        key = np.uint64(mixed(key, np.uint64(number % (1 << 64))))
    return key
