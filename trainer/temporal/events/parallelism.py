"""Three ways to divide the training on a stream among ranks, after DistTGL (Zhou et al. 2023).

    shares i   ranks share the events of each batch: the result is that of one rank
    epochs j   ranks train on the same batches with the negatives of j epochs, each beginning one batch later, on one
               memory: it is read and written once a batch, in the order read 0, write 0, read 1, write 1
    copies k   groups of i j ranks, each with a memory of its own, begin at different places of the stream; a memory is
               zeroed where its group comes to the stream's end and begins again

Rank r has share r mod i, epoch (r / i) mod j and copy r / (i j). One round through the stream trains j k epochs: the
weights change by the mean of j k gradients, j k times more rarely.

`auto` prefers what changes the result least. Shares change nothing, so there are as many as the batch has work for. If
no --batch-size is given, it grows with the shares, as long as it does not lose many more mails than a batch of one
rank: of a node's events in one batch the last one counts. The rest are copies, as many as memory has place for and
epochs divide, since a copy has its own order of events; and then epochs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from trainer.base.errors import TrainingError
from trainer.temporal.events.stream import EventStream

BATCH_OF_ONE_RANK = 200
"""Events, where no --batch-size is given."""
LEAST_SHARE = 100
"""Events of a batch below which another rank is not worth its messages."""
_SAMPLED = 1 << 20
"""The last training events, by which lost mail is estimated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallelism:
    """The division of the ranks."""

    shares: int
    epochs: int
    copies: int
    batch_size: int
    """Events of a batch, all shares together."""
    reason: str = ""
    """A sentence for the log."""

    @property
    def numbers(self) -> list[int]:
        """i, j, k"""
        return [self.shares, self.epochs, self.copies]

    @property
    def epochs_a_round(self) -> int:
        """Epochs that are trained while each memory goes through the stream once."""
        return self.epochs * self.copies

    def share_of(self, rank: int) -> int:
        return rank % self.shares

    def epoch_of(self, rank: int) -> int:
        return rank // self.shares % self.epochs

    def copy_of(self, rank: int) -> int:
        return rank // (self.shares * self.epochs)

    def ranks_of_copy(self, copy: int) -> range:
        """The ranks that share one memory."""
        size = self.shares * self.epochs
        return range(copy * size, (copy + 1) * size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What `auto` chooses by."""

    ranks: int
    epochs: int
    """Of the run."""
    batch_size: int | None
    """None where the user gave none."""
    lost_mail: Callable[[int], float]
    """The share of mails that are overwritten in batches of a size."""
    tolerance: float
    """By how much this share may grow."""
    memory_bytes: int
    """Of one copy of the node memory."""
    available_bytes: int
    """Of all machines, for copies."""


def lost_mail(stream: EventStream, size: int) -> float:
    """The share of the mails of training events that a later event of the same batch overwrites."""
    _, end = stream.groups()["train"]
    first = max(0, end - _SAMPLED)
    event_b = torch.arange(first, end)
    batch_b = (event_b - first) // size * stream.num_nodes
    kept = torch.unique(torch.cat([batch_b + stream.source_M[first:end], batch_b + stream.destination_M[first:end]]))
    return 1 - len(kept) / (2 * len(event_b))


def choose_parallelism(requested: tuple[int, int, int] | None, resources: Resources) -> Parallelism:
    """The division of the ranks that was requested, or the one that suits the resources.

    Raises:
        TrainingError: the requested numbers do not give the number of ranks.
    """
    if requested is None:
        return _chosen(resources)
    i, j, k = requested
    if i * j * k != resources.ranks:
        raise TrainingError(
            f"--parallel {i},{j},{k} is for {i * j * k} ranks and this run has {resources.ranks}; give numbers whose "
            "product that is, or auto"
        )
    size = resources.batch_size or BATCH_OF_ONE_RANK * i
    if size < i:
        raise TrainingError(f"--batch-size {size} has no event for each of {i} ranks; give a larger one")
    return Parallelism(shares=i, epochs=j, copies=k, batch_size=size, reason=f"--parallel {i},{j},{k} as requested")


def _chosen(resources: Resources) -> Parallelism:
    ranks, batch_size = resources.ranks, resources.batch_size
    if ranks == 1:
        shares, size, reason = 1, batch_size or BATCH_OF_ONE_RANK, "there is one rank"
    elif batch_size is None:
        least = resources.lost_mail(BATCH_OF_ONE_RANK)
        lost = {i: resources.lost_mail(BATCH_OF_ONE_RANK * i) for i in _divisors(ranks)}
        shares = max(i for i, share in lost.items() if i == 1 or share - least <= resources.tolerance)
        size = BATCH_OF_ONE_RANK * shares
        reason = f"batches of {BATCH_OF_ONE_RANK} events lose {least:.0%} of the mails"
        if shares > 1:
            reason += f", of {size} {lost[shares]:.0%}"
        following = [i for i in lost if i > shares]
        if following:
            reason += f", of {BATCH_OF_ONE_RANK * following[0]} {lost[following[0]]:.0%}"
    else:
        shares, size = max(i for i in _divisors(ranks) if i == 1 or batch_size >= i * LEAST_SHARE), batch_size
        reason = (
            f"a share has {batch_size // shares} of the {batch_size} events of a batch, and fewer than {LEAST_SHARE} "
            "are not worth another rank"
        )
    rest = ranks // shares
    # Validation reads the stream with a memory beside the one in training.
    most = max(resources.available_bytes // (2 * max(resources.memory_bytes, 1)), 1)
    copies = max(k for k in _divisors(rest) if k == 1 or (k <= most and k <= resources.epochs))
    return Parallelism(
        shares=shares,
        epochs=rest // copies,
        copies=copies,
        batch_size=size,
        reason=(
            f"--parallel {shares},{rest // copies},{copies}: {reason}; memory has place for {most} copies of "
            f"{resources.memory_bytes / 1e6:.1f} MB, and there are {resources.epochs} epochs"
        ),
    )


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
