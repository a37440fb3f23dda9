"""Which seeds make which batch of an epoch, on which rank.

The order of the seeds is that of hashes of (seed, epoch, node), so that it is the same on all ranks and machines.
Batch b belongs to rank b modulo the number of ranks: the batches of an epoch do not depend on how many ranks there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.sampling.draw_key import ORDER_OF_SEEDS, key_of
from graphprep.sampling.samplers.neighbour_kernels import hashes_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedule:
    """The batches of each epoch. Letters: B seeds in all."""

    num_seeds: int
    batch_size: int
    seed: int
    shuffle: bool
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False
    """Leave the rest out: seeds that fill no batch, and batches that not every rank has one of. Otherwise ranks without
    a last batch repeat batches from the first on, so that all make as many steps."""

    @property
    def num_batches(self) -> int:
        """Of this rank in an epoch."""
        whole, rest = divmod(self.num_seeds, self.batch_size)
        batches = whole if self.drop_last else whole + (rest > 0)
        return batches // self.world_size if self.drop_last else -(-batches // self.world_size)

    def order(self, epoch: int) -> NDArray[np.int64]:
        """int64 [B]: the places of the seeds in the order in which they are used."""
        if not self.shuffle:
            return np.arange(self.num_seeds)
        key = key_of(self.seed, epoch, ORDER_OF_SEEDS)
        return np.argsort(hashes_of(self.num_seeds, key), kind="stable")

    def batches(self, epoch: int) -> list[NDArray[np.int64]]:
        """The places of the seeds of each of this rank's batches."""
        order_B: NDArray[Any] = self.order(epoch)
        all_batches = -(-self.num_seeds // self.batch_size)
        found = []
        for step in range(self.num_batches):
            batch = (step * self.world_size + self.rank) % all_batches
            found.append(order_B[batch * self.batch_size : (batch + 1) * self.batch_size])
        return found
