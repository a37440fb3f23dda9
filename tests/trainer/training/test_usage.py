"""Seconds by kind, memory and bytes by link of every line: of all ranks, and nothing twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.trainer.rank_group import Run
from trainer.base.peak_memory import peak_memory
from trainer.base.traffic_log import Clock, TrafficLog
from trainer.dist.communicator import Communicator
from trainer.dist.rank_info import RankInfo
from trainer.training.usage import UsageMeter

NAME = "directed, weighted, uneven"


class TwoRanks:
    """What the meter reads of a communicator; the sum over the ranks is made by the test."""

    def __init__(self, rank: int) -> None:
        self.rank, self.world, self.device = rank, 2, torch.device("cpu")
        self.peers, self.clock = [1 - rank], Clock(torch.device("cpu"))


def test_each_rank_has_its_own_numbers() -> None:
    """Guards against numbers of one rank that are another's, and against those of the line before."""
    links = [["", "pcie"], ["network", ""]]
    ranks: list[Any] = [TwoRanks(0), TwoRanks(1)]
    logs = [TrafficLog(num_rows=3, num_sent=2, num_halo=2, rank=rank, world=2) for rank in (0, 1)]
    meters = [UsageMeter(one, log, links) for one, log in zip(ranks, logs, strict=True)]
    for times in (1, 2):
        for one, log, meter in zip(ranks, logs, meters, strict=True):
            one.clock._seconds["waiting"] += times * (0.25 + one.rank)
            one.clock._seconds["all-reduce"] += times * 1.0
            one.clock._seconds["agreeing"] += times * 0.5
            one.clock.add_for_peer(1 - one.rank, times * 0.25)
            meter._started -= times * 100.0
            log.record(2, "forward", rows={1 - one.rank: 2}, width=4, sent={1 - one.rank: times * (32 + one.rank)})
        sums = [sum(amounts) for amounts in zip(*(meter.amounts() for meter in meters), strict=True)]
        for meter in meters:
            usage, traffic = meter.since_last(sums)
            assert [row.rank for row in usage] == [0, 1]
            assert [row.exchange_seconds for row in usage] == pytest.approx([times * 0.25, times * 1.25])
            assert [row.waiting_seconds for row in usage] == pytest.approx([times * 1.5] * 2)
            assert all(row.seconds > times * 100 for row in usage)
            for row in usage:
                assert row.compute_seconds is not None
                assert row.exchange_seconds is not None
                assert row.waiting_seconds is not None
                kinds = row.compute_seconds + row.exchange_seconds + row.waiting_seconds
                assert kinds == pytest.approx(row.seconds)
            by_type = [row.exchange_seconds_by_link_type for row in usage]
            assert by_type == [
                {"network": 0.0, "pcie": pytest.approx(times * 0.25)},
                {"network": pytest.approx(times * 0.25), "pcie": 0.0},
            ]
            assert [(row.layer, row.direction, row.link_type, row.bytes_sent) for row in traffic] == [
                (2, "forward", "network", times * 33),
                (2, "forward", "pcie", times * 32),
            ]


def test_a_gpu_is_not_measured_by_kind() -> None:
    """Guards against seconds of calls that are taken for seconds of work."""
    cpu = torch.device("cpu")
    with Communicator(RankInfo(), cpu, timeout=1.0, clock=Clock(torch.device("meta"))) as communicator:
        log = TrafficLog(num_rows=1, num_sent=0, num_halo=0, rank=0, world=1)
        meter = UsageMeter(communicator, log, [[""]])
        [usage], traffic = meter.since_last(meter.amounts())
    assert (usage.compute_seconds, usage.exchange_seconds, usage.waiting_seconds) == (None, None, None)
    assert usage.seconds > 0
    assert usage.memory_bytes > 1e7
    assert traffic == []


def test_peak_memory_is_that_of_this_process() -> None:
    """Guards against kilobytes that are called bytes."""
    before = peak_memory(torch.device("cpu"))
    ones = torch.ones(40_000_000)
    assert peak_memory(torch.device("cpu")) >= before
    assert peak_memory(torch.device("cpu")) > ones.nbytes


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 3])
def test_lines_of_a_run_have_all_ranks_and_all_rows(runs: dict[Any, Run], caches: dict[Any, Path], world: int) -> None:
    """Guards against exchanges that no peer's link is counted for, and bytes that are in no line."""
    run = runs[NAME, "gcn", world]
    for line in run.epochs:
        assert [row["rank"] for row in line["ranks"]] == list(range(world))
        for row in line["ranks"]:
            assert sum(row[f"{kind}_seconds"] for kind in ("compute", "exchange", "waiting")) == pytest.approx(
                row["seconds"]
            )
            assert row["compute_seconds"] > 0
            assert row["waiting_seconds"] > 0
            by_type = sum(row["exchange_seconds_by_link_type"].values())
            assert 0 < by_type <= row["exchange_seconds"]
        assert line["memory_bytes_max"] == max(row["memory_bytes"] for row in line["ranks"])
        assert sum(row["bytes_sent"] for row in line["links"]) == line["row_bytes_sent"]
    assert run.result["memory_bytes_by_rank"][0] > run.result["memory_estimate_by_rank"][0] > 0
    assert run.result["environment"]["hosts"]
