"""The seconds in which a rank waits for a batch or for rows of one, in place of training."""

from __future__ import annotations

import time
from types import TracebackType

from trainer.base.traffic_log import Clock


class IdleTime:
    """A context whose time is idle."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.seconds, self._started = clock, 0.0, 0.0

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def add(self, seconds: float) -> None:
        """Add seconds that the clock has under another activity."""
        self.seconds += seconds

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ended = time.perf_counter()
        self.seconds += ended - self._started
        self.clock.add("idle", self._started, ended)
