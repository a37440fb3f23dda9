"""One pass over the graph: what everything that takes part in it has to know about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PassContext:
    """A forward pass, with the backward pass that may follow."""

    epoch: int
    """From 1. It decides the dropout masks, and is the time by which copies age."""
    training: bool
    """False for an evaluation: nothing is dropped, every row is sent, and kept copies are left as they are."""
    may_skip: bool = False
    """Whether a kept copy may stand for rows that are not sent. False in the first and the last epochs."""

    @classmethod
    def evaluation(cls, epoch: int) -> PassContext:
        return cls(epoch=epoch, training=False)
