"""Batches of an epoch: every seed once, the same batches for any number of ranks."""

from __future__ import annotations

import numpy as np
import pytest

from graphprep.sampling.schedule import Schedule


def schedule(**options: object) -> Schedule:
    """25 seeds in batches of 4, shuffled."""
    return Schedule(**{"num_seeds": 25, "batch_size": 4, "seed": 3, "shuffle": True, **options})  # type: ignore[arg-type]


def test_every_seed_is_in_one_batch() -> None:
    """Guards against seeds left out, and against the same order in every epoch."""
    one, two = schedule().batches(0), schedule().batches(1)
    for batches in (one, two):
        assert sorted(np.concatenate(batches).tolist()) == list(range(25))
        assert [len(each) for each in batches] == [4, 4, 4, 4, 4, 4, 1]
    assert np.concatenate(one).tolist() != np.concatenate(two).tolist()
    assert np.concatenate(schedule(shuffle=False).batches(5)).tolist() == list(range(25))
    assert [len(each) for each in schedule(drop_last=True).batches(0)] == [4] * 6


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_ranks_share_the_batches_of_one(world_size: int) -> None:
    """Guards against batches that depend on the number of ranks, and ranks with more steps than others."""
    alone = [each.tolist() for each in schedule().batches(2)]
    ranks = [schedule(rank=rank, world_size=world_size) for rank in range(world_size)]
    steps = [[each.tolist() for each in mine.batches(2)] for mine in ranks]
    assert {len(mine) for mine in steps} == {ranks[0].num_batches}
    together = [batch for step in zip(*steps, strict=True) for batch in step]
    assert together[:7] == alone
    assert together[7:] == alone[: len(together) - 7]
    whole = [schedule(rank=rank, world_size=world_size, drop_last=True).batches(2) for rank in range(world_size)]
    assert {len(mine) for mine in whole} == {6 // world_size}
    assert all(len(batch) == 4 for mine in whole for batch in mine)
