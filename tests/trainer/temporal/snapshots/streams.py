"""Small streams of events in windows, and what a rank computes of them without any training."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from tests.trainer.rank_group import run_options
from trainer.dist.communicator import Communicator
from trainer.temporal.snapshots import passes
from trainer.temporal.snapshots.graphs import Events, Pairs, Snapshots
from trainer.temporal.snapshots.members import Members
from trainer.temporal.snapshots.network import SnapshotNetwork
from trainer.temporal.snapshots.workers import Workers

MODELS: dict[str, dict[str, Any]] = {
    "tgcn": {"model": "tgcn"},
    "gclstm": {"model": "gclstm"},
    "evolvegcn-o": {"model": "evolvegcn", "variant": "o"},
    "evolvegcn-h": {"model": "evolvegcn", "variant": "h"},
}


def small_events(
    *, num_nodes: int = 23, num_events: int = 160, num_snapshots: int = 9, with_features: bool = False, seed: int = 0
) -> Events:
    """Random events; nodes occur one after the other, some never, one window is empty and one event is of one node."""
    generator = torch.Generator().manual_seed(seed)
    highest_M = torch.linspace(4, num_nodes - 2, num_events).long()
    source_M, destination_M = ((torch.rand(num_events, generator=generator) * highest_M).long() for _ in range(2))
    destination_M[7] = source_M[7]
    inner = torch.randint(num_events, (num_snapshots - 2,), generator=generator).sort().values
    offsets = torch.cat([torch.tensor([0]), inner[:3], inner[2:], torch.tensor([num_events])])
    return Events(
        source_M=source_M,
        destination_M=destination_M,
        offsets=offsets,
        num_nodes=num_nodes,
        first_val=int(num_events * 0.7),
        first_test=int(num_events * 0.85),
        x_NF=torch.randn(num_nodes, 5, generator=generator) if with_features else None,
    )


def shared_snapshots(communicator: Communicator, events: Events, num_members: int) -> Snapshots:
    """Snapshots whose groups so many ranks share; nodes are drawn, and the last member has the fewest."""
    members = None
    if num_members > 1:
        drawn_N = torch.rand(events.num_nodes, generator=torch.Generator().manual_seed(1)).square()
        owner_N = (drawn_N * num_members).long()
        members = Members(communicator=communicator, number=num_members, owner_N=owner_N)
    return Snapshots(events=events, device=communicator.device, seed=0, members=members)


def pairs_of(snapshots: Snapshots, number: int) -> Pairs:
    """The pairs that a step of the training predicts."""
    return snapshots.pairs(number + 1, "train", epoch=1, num_negatives=2)


def one_step(
    communicator: Communicator,
    *,
    events: Events,
    borders: list[int],
    history: int = 0,
    num_workers: int = 1,
    num_members: int = 1,
    least_rows: int = 5,
    **changes: Any,
) -> tuple[float, dict[str, Tensor]]:
    """The loss and the gradients of one training pass, summed over the ranks."""
    communicator.connect()
    passes._LEAST_ROWS = least_rows  # of a piece, so that a small graph has several
    options = run_options("", hidden=8, **changes)
    snapshots = shared_snapshots(communicator, events, num_members)
    network, losses = SnapshotNetwork(options, snapshots), torch.zeros(events.num_snapshots)

    def finish(number: int, rows_nG: Tensor) -> Tensor:
        loss = network.loss_sum(rows_nG, pairs_of(snapshots, number)) / 100
        losses[number] = loss.detach()
        return loss

    workers = Workers(num_workers, communicator.device)
    passes.SnapshotPass(
        network, snapshots, communicator, workers, borders=borders, history=history, is_training=True
    ).run(finish)
    gradients = {
        name: communicator.all_reduce(torch.zeros_like(one) if one.grad is None else one.grad.clone())
        for name, one in network.named_parameters()
    }
    return float(communicator.all_reduce(losses).sum()), gradients


def step_task(events: Events, borders: list[int], **changes: Any) -> Any:
    """`one_step` for a group of ranks."""
    return partial(one_step, events=events, borders=borders, **changes)
