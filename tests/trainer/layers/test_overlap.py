"""The order in which a layer starts to send, multiplies and waits.

On a GPU NCCL sends on a stream of its own, and waiting makes the stream of the products wait, not the host. So what is
started before a product and waited for after it runs at the same time; in any other order nothing does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.distributed as dist

from trainer.base.pass_context import PassContext
from trainer.base.sent_bytes import SentBytes
from trainer.base.traffic_log import Clock, TrafficLog
from trainer.config.options import Options
from trainer.data.csr import Csr, indptr_of
from trainer.data.part import Part
from trainer.dist.communicator import Communicator
from trainer.dist.rank_info import RankInfo
from trainer.exchange.exchange import Exchange
from trainer.layers.aggregate import Aggregation

CPU = torch.device("cpu")
WORLD, ROWS = 3, 6


class Recorder(Clock):
    """Notes when an activity begins."""

    def __init__(self) -> None:
        super().__init__(CPU)
        self.events: list[str] = []

    @contextmanager
    def __call__(self, activity: str) -> Iterator[None]:
        self.events.append(activity)
        yield


def edges(num_columns: int) -> Csr:
    """One edge a row."""
    return Csr(
        indptr=indptr_of(torch.ones(ROWS, dtype=torch.int64), torch.int32),
        indices=torch.arange(ROWS, dtype=torch.int32) % num_columns,
        weights=None,
        num_columns=num_columns,
    )


def part() -> Part:
    """Rank 0's of three: each of the others sends it two rows and gets two."""
    nothing = torch.zeros(ROWS, dtype=torch.bool)
    return Part(
        number=0,
        ids_n=torch.arange(ROWS),
        halo_ids={1: torch.tensor([10, 11]), 2: torch.tensor([20, 21])},
        x_nF=torch.ones(ROWS, 4),
        aggregated_nF=None,
        y=torch.zeros(ROWS, dtype=torch.int64),
        train_n=nothing,
        val_n=nothing,
        test_n=nothing,
        degree_n=torch.ones(ROWS),
        local=edges(ROWS),
        remote={1: edges(2), 2: edges(2)},
        send_rows={1: torch.tensor([0, 1], dtype=torch.int32), 2: torch.tensor([1, 5], dtype=torch.int32)},
    )


def events_of(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> dict[str, list[str]]:
    """What a layer of sums does in each of its passes on rank 0, whose peers send nothing."""
    clock = Recorder()

    class Work:
        def wait(self) -> None:
            """At once."""

    class Operation:
        def __init__(self, *_: object) -> None:
            """It is not looked at."""

    def post(operations: list[Operation]) -> list[Work]:
        clock.events.append(f"start {len(operations)}")
        return [Work() for _ in operations]

    monkeypatch.setattr(dist, "P2POp", Operation)
    monkeypatch.setattr(dist, "batch_isend_irecv", post)
    communicator = Communicator(RankInfo(), CPU, timeout=1.0, clock=clock)
    communicator.world, communicator.sent = WORLD, SentBytes(rank=0, world=WORLD)
    one, log = part(), TrafficLog(num_rows=ROWS, num_sent=4, num_halo=4, rank=0, world=WORLD)
    exchange = Exchange(Options(cache="-", **changes), one, communicator, log)
    aggregation = Aggregation(one, exchange, communicator, sums="sum")
    rows = torch.ones(ROWS, 4, requires_grad=True)
    found = {}
    clock.events = found["forward"] = []
    sums = aggregation(rows, 1, PassContext(epoch=1, training=True))
    clock.events = found["backward"] = []
    sums.sum().backward()  # type: ignore[no-untyped-call]
    return found


def test_the_local_product_runs_while_rows_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exchange that is waited for before there is anything to compute, as a blocking one is."""
    assert events_of(monkeypatch) == {
        "forward": ["start 4", "local product", "waiting", "halo product"],
        "backward": ["halo product", "start 4", "local product", "waiting"],
    }


def test_rows_of_the_next_peer_travel_during_the_product_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds that are started one after the other, each when the one before is summed."""
    assert events_of(monkeypatch, exchange="sequential") == {
        "forward": ["start 2", "local product", "waiting", "start 2", "halo product", "waiting", "halo product"],
        "backward": [
            *("halo product", "start 2", "local product"),
            *("halo product", "waiting", "start 2"),
            "waiting",
        ],
    }
