"""What a rank holds, and shares that its memory allows."""

from __future__ import annotations

import numpy as np
import pytest

from graphprep.topology import Topology
from graphprep.traffic.memory import (
    LEAST_ROW_BYTES,
    SHARE_BEFORE_HALO,
    bytes_without_halo,
    capacities,
    memory_limit,
    memory_of,
    target_shares,
)


def topology(*memory_gb: float | None, speeds: tuple[float, ...] | None = None) -> Topology:
    speeds = speeds or (1.0,) * len(memory_gb)
    ranks = "".join(
        f"  - {{name: r{p}, machine: m, speed: {speed}" + (f", memory_gb: {memory}" if memory else "") + "}\n"
        for p, (memory, speed) in enumerate(zip(memory_gb, speeds, strict=True))
    )
    links = "".join(
        f"  - {{ends: [r{p}, s], type: pcie, gbytes_per_s: 12, latency_us: 3}}\n" for p in range(len(memory_gb))
    )
    return Topology.from_text(f"name: t\nranks:\n{ranks}switches: [s]\nlinks:\n{links}")


def test_memory_by_hand() -> None:
    """Guards against a halo that takes no memory."""
    found = memory_of(np.array([10, 0]), np.array([3, 1]), np.array([2, 0]), 2000)
    assert found.tolist() == [16 * 10 + 2000 * (4 * 3 + 2 * 2), 8000]


def test_narrow_rows_are_held_beside_wider_ones() -> None:
    """Guards against a memory limit that the features exceed, because the last layer sends few values."""
    counts = np.array([10, 0]), np.array([3, 1]), np.array([2, 0])
    assert memory_of(*counts, 28).tolist() == memory_of(*counts, LEAST_ROW_BYTES).tolist()
    assert bytes_without_halo(10, 4, 28) == memory_of(np.array([10]), np.array([4]), np.array([0]), 28)[0]


def test_ranks_without_a_stated_memory_have_no_limit() -> None:
    """Guards against a limit that nobody asked for."""
    plain = topology(None, None)
    assert capacities(plain) is None
    assert memory_limit(plain, np.array([10**15, 0])) is None
    assert target_shares(plain, 1e15).tolist() == [0.5, 0.5]


def test_a_small_rank_gets_what_it_can_hold_and_others_the_rest_by_speed() -> None:
    """Guards against shares that follow speed past what a card can hold."""
    shares_P = target_shares(topology(1.0, None, None, speeds=(2.0, 1.0, 1.0)), 4e9)
    assert shares_P.tolist() == pytest.approx(
        [SHARE_BEFORE_HALO / 4, (1 - SHARE_BEFORE_HALO / 4) / 2, (1 - SHARE_BEFORE_HALO / 4) / 2]
    )


def test_what_a_full_rank_leaves_may_fill_the_next() -> None:
    """Guards against capping once: the rest of one rank can be too much for another."""
    shares_P = target_shares(topology(1.0, 2.0, None), 5e9)
    assert shares_P.tolist() == pytest.approx([0.16, 0.32, 0.52])
    assert shares_P.sum() == pytest.approx(1.0)


def test_too_little_memory_in_all_is_shared_by_memory_and_named() -> None:
    """Guards against an endless search for shares that cannot be."""
    small = topology(1.0, 3.0)
    assert target_shares(small, 100e9).tolist() == pytest.approx([0.25, 0.75])
    limit = memory_limit(small, np.array([25_000_000_000, 75_000_000_000]))
    assert limit is not None
    assert (limit.what, limit.value, limit.met) == ("memory", 25.0, False)
    enough = memory_limit(small, np.array([500_000_000, 3_000_000_000]))
    assert enough is not None
    assert enough.met
