"""One pass over the graph, as layers and exchanges see it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PassContext:
    """A forward pass, with the backward pass that may follow."""

    epoch: int
    """From 1. It decides the dropout masks and the age of copies."""
    training: bool
    """False for an evaluation: no dropout, every row is sent, and kept copies do not change."""
    may_skip: bool = False
    """Whether receivers may use kept copies of rows that are not sent. False in the first and the last epochs."""

    @classmethod
    def evaluation(cls, epoch: int) -> PassContext:
        return cls(epoch=epoch, training=False)
