"""Plans, and what is read from their stamps."""

from __future__ import annotations

import pytest

from graphprep.topology.probe.fit import Line
from graphprep.topology.probe.plan import Flow, flows_together, from_text, kept, to_text

LINES = {
    (0, 1): Line(latency_s=0.0, bytes_per_s=4e9),
    (0, 2): Line(latency_s=0.0, bytes_per_s=1e9),
    (2, 3): Line(latency_s=0.0, bytes_per_s=1e9),
}


def test_plans_travel() -> None:
    """Guards against ranks that do something else than rank 0 wants."""
    plan = [[Flow(0, 1, 4096, 3), Flow(2, 3, 8192, 5)], [Flow(0, 2, 1, 1)]]
    assert from_text(to_text(plan)) == plan
    assert from_text(to_text(None)) is None


def test_pairs_of_one_rank_take_the_same_time() -> None:
    """Guards against a fast pair that waits for the slow one of the same rank, and looks slow."""
    flows = flows_together([(0, 1), (0, 2)], LINES, 0.1, 2**30)
    assert flows[0].num_bytes == pytest.approx(4 * flows[1].num_bytes, rel=1e-3)
    assert flows[0].repeats == flows[1].repeats
    seconds = flows[0].repeats * LINES[0, 1].seconds(flows[0].num_bytes)
    assert seconds == pytest.approx(0.1, rel=0.2)


def test_no_message_is_larger_than_allowed_nor_a_trial_shorter_than_needed() -> None:
    """Guards against gigabytes in one message on a fast link, and a single message on a slow one."""
    (fast,) = flows_together([(0, 1)], LINES, 1.0, 2**20)
    assert fast.num_bytes == 2**20
    (slow,) = flows_together([(2, 3)], {(2, 3): Line(latency_s=0.5, bytes_per_s=1e3)}, 0.01, 2**20)
    assert (slow.num_bytes, slow.repeats) == (4096, 4)


def test_only_the_time_in_which_all_send_counts() -> None:
    """Guards against a slow pair whose rest, alone on the link, makes the link look free."""
    flows = [Flow(0, 1, 4_000_000, 4), Flow(2, 3, 1_000_000, 4)]
    # Pair 0-1 is done after 4 ms at full speed. Pair 2-3 gets half of its own until then, and all afterwards.
    stamps = {(0, 1): [0.0, 0.001, 0.002, 0.003, 0.004], (2, 3): [0.0, 0.002, 0.004, 0.005, 0.006]}
    assert kept(flows, stamps, LINES) == (pytest.approx(1.0), pytest.approx(0.5))


def test_flows_that_never_overlapped() -> None:
    """Guards against a division by zero where one pair was through before the other began."""
    stamps = {(0, 1): [0.0, 0.001, 0.002], (2, 3): [0.010, 0.011, 0.012]}
    flows = [Flow(0, 1, 4_000_000, 2), Flow(2, 3, 1_000_000, 2)]
    assert kept(flows, stamps, LINES) == (pytest.approx(1.0), pytest.approx(1.0))
