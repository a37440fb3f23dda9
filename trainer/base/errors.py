"""The trainer's errors: one sentence each, saying what is wrong, where, and what to do, with an exit status."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class TrainerError(Exception):
    """Base of all errors that the trainer raises on purpose."""

    exit_status = 1
    shared = False
    """True where every rank finds the same, so that one of them is enough to say it."""


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
    """SIGTERM asked the run to stop, and it did so in good order."""

    exit_status = 8


class LostPeerError(TrainingError):
    """Another rank is gone or silent. The cause is that rank's, and so is the word on it."""

    timed_out = False
    """True where it was silent for the whole timeout: then there may be nobody else to say anything."""


@contextmanager
def found_by_every_rank() -> Iterator[None]:
    """Mark the errors of a step that comes out the same on every rank."""
    try:
        yield
    except TrainerError as error:
        error.shared = True
        raise
