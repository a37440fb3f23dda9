"""The trainer's errors: one sentence each, saying what is wrong, where, and what to do, with an exit status."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class TrainerError(Exception):
    """Base of all errors that the trainer raises on purpose."""

    exit_status = 1
    shared = False
    """True where every rank raises the same error, so that one of them prints it."""


class OptionError(TrainerError, ValueError):
    """Options that are wrong in themselves or do not suit the cache or the machine."""

    exit_status = 2


class CacheError(TrainerError, OSError):
    """A partition cache is absent, unfinished, damaged, or of another kind."""

    exit_status = 6


class TrainingError(TrainerError, RuntimeError):
    """Training cannot start or did not finish."""

    exit_status = 7


class StoppedError(TrainingError):
    """SIGTERM asked the run to stop; it did, after saving a checkpoint."""

    exit_status = 8


class LostPeerError(TrainingError):
    """Another rank is gone or silent. That rank prints the cause."""

    timed_out = False
    """True where it was silent for the whole timeout: then no other rank may be able to print anything."""


@contextmanager
def found_by_every_rank() -> Iterator[None]:
    """Mark the errors of a step that has the same result on every rank."""
    try:
        yield
    except TrainerError as error:
        error.shared = True
        raise
