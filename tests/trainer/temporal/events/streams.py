"""Small streams of events, and options of runs on them."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from trainer.config.options import Options
from trainer.dist.communicator import Communicator
from trainer.temporal.events.fit import EventFit
from trainer.temporal.events.parallelism import Parallelism
from trainer.temporal.events.stream import EventStream, time_index
from trainer.temporal.events.tasks import LinkTask


def stream_of(
    source_M: Tensor, destination_M: Tensor, time_M: Tensor, *, num_nodes: int, x_MF: Tensor | None = None
) -> EventStream:
    """A stream of these events, split 70/15/15 where the time changes."""
    first = [int(torch.searchsorted(time_M, time_M[int(len(time_M) * share)])) for share in (0.7, 0.85)]
    offset_N1, event_2M, neighbour_2M = time_index(source_M, destination_M, num_nodes)
    return EventStream(
        source_M=source_M,
        destination_M=destination_M,
        time_M=time_M,
        num_nodes=num_nodes,
        split=(first[0], first[1]),
        offset_N1=offset_N1,
        event_2M=event_2M,
        neighbour_2M=neighbour_2M,
        x_MF=x_MF,
    )


def random_stream(*, num_nodes: int = 12, num_events: int = 200, num_features: int = 2, seed: int = 0) -> EventStream:
    """Events between random nodes, some of a node with itself, with many equal times."""
    random = torch.Generator().manual_seed(seed)
    ends = torch.randint(num_nodes, (2, num_events), generator=random)
    return stream_of(
        ends[0],
        ends[1],
        torch.randint(num_events // 2, (num_events,), generator=random).sort().values,
        num_nodes=num_nodes,
        x_MF=torch.randn(num_events, num_features, generator=random) if num_features else None,
    )


def alternating_stream(num_events: int = 600) -> EventStream:
    """Eight sources in turn, each with its two destinations in turn: who is next follows from who was last."""
    event_M = torch.arange(num_events)
    source_M, turn_M = event_M % 8, event_M // 8 % 2
    return stream_of(source_M, 8 + 2 * source_M + turn_M, event_M * 10, num_nodes=24)


def options_of(**changes: Any) -> Options:
    """Options of a small TGN."""
    plain: dict[str, Any] = {"model": "tgn", "hidden": 8, "heads": 2, "lr": 0.01, "weight_decay": 0.0, "epochs": 2}
    return Options(cache="", **{**plain, "neighbours": 4, "timeout": 60.0, **changes})


def fit_of(
    communicator: Communicator, stream: EventStream, numbers: tuple[int, int, int], *, batch_size: int, **changes: Any
) -> EventFit:
    """A fit whose ranks are divided by `numbers`."""
    i, j, k = numbers
    parallelism = Parallelism(shares=i, epochs=j, copies=k, batch_size=batch_size)
    communicator.connect()
    options = options_of(**changes)
    return EventFit(stream, options, parallelism, communicator, LinkTask(stream, options))


def trained(
    communicator: Communicator, *, numbers: tuple[int, int, int], batch_size: int, rounds: int = 2, **changes: Any
) -> dict[str, Any]:
    """Losses, weights and metrics of a few rounds on a random stream; a task of `among_ranks`."""
    fit = fit_of(communicator, random_stream(), numbers, batch_size=batch_size, **changes)
    losses = [fit.round(number, number == rounds - 1) for number in range(rounds)]
    val, test = fit.evaluate("val", "test", negatives=5)
    return {"losses": losses, "weights": fit.weights(), "val": val, "test": test}


def task_of(**arguments: Any) -> partial[dict[str, Any]]:
    """`trained` with these arguments, as a task."""
    return partial(trained, **arguments)
