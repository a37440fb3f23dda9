"""How epochs are shown while a run goes on: lines of a log, unless a terminal shows them in place (`live_view`)."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import Protocol

from trainer.reporting.epoch_line import EpochLine
from trainer.reporting.formats import format_bytes, format_metric

log = logging.getLogger("trainer")

LEAST_SECONDS, LEAST_SHARE = 1.0, 0.01
"""Between two lines: seconds, and a share of those since the first, so that a long run does not fill a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """How long the run may go on."""

    epochs: int
    """At most."""
    epochs_before: int = 0
    """After which it has resumed."""
    may_stop_early: bool = False


class EpochView(Protocol):
    """What shows epochs to people."""

    def expect(self, expectation: Expectation) -> None:
        """Take how long the run may go on."""

    def epoch(self, line: EpochLine, metric: str) -> None:
        """Show one validated epoch; `metric` names its `val`."""

    def finish(self) -> None:
        """Show what is not shown yet, and nothing after it."""


class LogLines:
    """A line for an epoch, at most one a second; seconds and bytes are those since the line before."""

    def __init__(self) -> None:
        self._first = self._last = 0.0
        self._waiting: EpochLine | None = None
        self._metric = ""

    def expect(self, expectation: Expectation) -> None:
        """Nothing: each line speaks of what was."""

    def epoch(self, line: EpochLine, metric: str) -> None:
        """Print a line if it is time for one; the next line has the seconds and bytes of those that are left out."""
        now = time.monotonic()
        is_first, self._metric = not self._metric, metric
        if is_first:
            log.info("epoch      loss  %12s   seconds   rows sent  weights sent    skipped", f"val {metric}")
            self._first = now
        self._waiting = line if self._waiting is None else _added(self._waiting, line)
        if is_first or now - self._last >= max(LEAST_SECONDS, LEAST_SHARE * (now - self._first)):
            self.finish()
            self._last = now

    def finish(self) -> None:
        """Print the last epoch, if it has no line yet."""
        line, self._waiting = self._waiting, None
        if line is not None:
            log.info(
                "%5d  %8.4f  %12s  %8.3f  %10s  %12s %10s",
                line.epoch,
                line.loss,
                format_metric(line.val, self._metric),
                line.seconds,
                format_bytes(line.row_bytes_sent),
                format_bytes(line.weight_bytes_sent),
                format_bytes(line.bytes_skipped),
            )


def _added(before: EpochLine, line: EpochLine) -> EpochLine:
    """The later line, with what both took and sent."""
    return replace(
        line,
        seconds=before.seconds + line.seconds,
        row_bytes_sent=before.row_bytes_sent + line.row_bytes_sent,
        weight_bytes_sent=before.weight_bytes_sent + line.weight_bytes_sent,
        bytes_skipped=before.bytes_skipped + line.bytes_skipped,
    )
