"""A few lines on a terminal that are rewritten in place while a run goes on, by plain ANSI sequences.

The cursor rests at the beginning of an empty line, and the figures are in the lines below it:

    <cursor>
    epoch       57 of at most 200, loss 0.4210, val accuracy 78.20 %, the best 79.00 % in epoch 41
    an epoch    12.3 ms: computing 8.1 ms, exchange 3.0 ms (nvlink 1.0 ms, network 2.0 ms), waiting 1.2 ms
    sent        1.2 MB an epoch: rows 1.1 MB (nvlink 0.4 MB, network 0.7 MB), weights 0.1 MB, other 12.0 kB
    memory      412.0 MB on rank 3, the most; 0: 398.0 MB, 1: 401.0 MB, 2: 400.2 MB, 3: 412.0 MB
    time left   at most 1 min 12 s

What another process prints (a rank that fails, for instance) takes the empty line and moves the cursor below itself. It
is not overwritten, since the next figures begin where the cursor is then. Lines of this process's log go the same way.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

from trainer.base.printable import printable
from trainer.config.options import Options
from trainer.reporting.epoch_line import EpochLine
from trainer.reporting.epoch_view import Expectation
from trainer.reporting.formats import ERRORS, format_bytes, format_metric, format_seconds

log = logging.getLogger("trainer")

ERASE_BELOW = "\x1b[J"
"""From the cursor to the end of the screen."""
_UP = "\x1b[{}A\r"
_SECONDS_BETWEEN = 0.1
"""Two drawings are at least as far apart."""
TIME_LEFT = "time left"
DEFAULT_WIDTH = 80
"""Of a terminal that does not say how wide it is."""
_WIDTH = 11
"""Of the names on the left."""


def shows_live(options: Options, file: TextIO) -> bool:
    """Whether the epochs of a run are shown in place on `file`."""
    is_plain = options.json or options.quiet or options.debug
    return file.isatty() and not is_plain and os.environ.get("TERM", "dumb") != "dumb"


class LiveView:
    """Shows the newest validated epoch in place. It is also the stream of the log, whose lines go above it."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._expectation = Expectation(epochs=0)
        self._lines: list[str] = []
        self._drawn_at = float("-inf")
        self._epochs, self._seconds, self._last_epoch = 0, 0.0, 0
        self._best: tuple[float, int] | None = None

    def expect(self, expectation: Expectation) -> None:
        """Take how long the run may go on."""
        self._expectation, self._last_epoch = expectation, expectation.epochs_before

    def epoch(self, line: EpochLine, metric: str) -> None:
        """Show one validated epoch; `metric` names its `val`."""
        epochs = max(1, line.epoch - self._last_epoch)
        self._last_epoch = line.epoch
        self._epochs, self._seconds = self._epochs + epochs, self._seconds + line.seconds
        if line.val is not None:
            sign = -1 if metric in ERRORS else 1
            if self._best is None or sign * line.val > sign * self._best[0]:
                self._best = line.val, line.epoch
        self._lines = self._figures(line, metric, epochs)
        if time.monotonic() - self._drawn_at >= _SECONDS_BETWEEN or line.epoch == self._expectation.epochs:
            self._draw()

    def write(self, text: str) -> None:
        """Print text of the log in the place of the figures, which `flush` shows again below it."""
        self._file.write(f"\r{ERASE_BELOW}{text}")

    def flush(self) -> None:
        """Show the figures after text of the log."""
        self._draw()

    def finish(self) -> None:
        """Leave the figures on the screen, but for the time that is left, with the cursor below them."""
        if self._lines:
            lines = [line for line in self._cut() if not line.startswith(TIME_LEFT)]
            self._file.write(f"\r{ERASE_BELOW}" + "".join(f"{line}\n" for line in lines))
            self._lines = []
        self._file.flush()

    def _draw(self) -> None:
        if self._lines:
            lines = ["", *self._cut()]
            self._file.write(f"\r{ERASE_BELOW}" + "\n".join(lines) + _UP.format(len(lines) - 1))
        self._file.flush()
        self._drawn_at = time.monotonic()

    def _cut(self) -> list[str]:
        """The lines within the terminal's width: one that is wider would take two."""
        width = _columns(self._file) - 1
        return [printable(line)[:width] for line in self._lines]

    def _figures(self, line: EpochLine, metric: str, epochs: int) -> list[str]:
        expected = self._expectation
        most = "at most " if expected.may_stop_early else ""
        best = ""
        if self._best is not None:
            best = f", the best {format_metric(self._best[0], metric)} in epoch {self._best[1]}"
        rows, weights, other, skipped, sent = (
            format_bytes(getattr(line, name) / epochs)
            for name in ("row_bytes_sent", "weight_bytes_sent", "other_bytes_sent", "bytes_skipped", "bytes_sent")
        )
        left = self._seconds / self._epochs * (expected.epochs - line.epoch)
        figures = {
            "epoch": f"{line.epoch} of {most}{expected.epochs}, loss {line.loss:.4f}, "
            f"val {metric.replace('_', ' ')} {format_metric(line.val, metric)}{best}",
            "an epoch": f"{format_seconds(line.seconds / epochs)}{_by_kind(line, epochs)}",
            "sent": f"{sent} an epoch: rows {rows}{_by_type(line.bytes_by_link_type, epochs, format_bytes)}, "
            f"weights {weights}, other {other}; rows skipped {skipped}",
            "memory": _memory(line),
            TIME_LEFT: f"{most}{format_seconds(left)}",
        }
        return [f"{key:{_WIDTH}} {text}" for key, text in figures.items() if text]


@contextmanager
def log_above(view: LiveView) -> Iterator[None]:
    """Let the handlers of the log write through a view."""
    handlers = [handler for handler in log.handlers if isinstance(handler, logging.StreamHandler)]
    streams = [handler.stream for handler in handlers]
    for handler in handlers:
        handler.setStream(view)
    try:
        yield
    finally:
        for handler, stream in zip(handlers, streams, strict=True):
            handler.setStream(stream)


def _by_kind(line: EpochLine, epochs: int) -> str:
    """The means over the ranks, where they are measured."""
    computing, exchange, waiting = line.seconds_by_kind.values()
    if computing is None or exchange is None or waiting is None:
        return ""
    by_type = _by_type(line.exchange_seconds_by_link_type, epochs, format_seconds)
    return (
        f": computing {format_seconds(computing / epochs)}, exchange {format_seconds(exchange / epochs)}{by_type}, "
        f"waiting {format_seconds(waiting / epochs)}"
    )


def _by_type(numbers: Mapping[str, float], epochs: int, form: Callable[[float], str]) -> str:
    return f" ({', '.join(f'{kind} {form(number / epochs)}' for kind, number in numbers.items())})" if numbers else ""


def _memory(line: EpochLine) -> str:
    fullest = line.fullest_rank
    if fullest is None:
        return ""
    most = f"{format_bytes(fullest.memory_bytes)} on rank {fullest.rank}"
    if len(line.ranks) == 1:
        return most
    return f"{most}, the most; " + ", ".join(f"{one.rank}: {format_bytes(one.memory_bytes)}" for one in line.ranks)


def _columns(file: TextIO) -> int:
    """Of the terminal that `file` is; COLUMNS wins."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(file.fileno()).columns or DEFAULT_WIDTH
    except (ValueError, OSError):
        return DEFAULT_WIDTH
