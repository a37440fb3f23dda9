"""Progress of long work: a bar on a terminal, plain lines in a log, silence under -q.

Everything goes to standard error, so that standard output stays a result.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from graphprep.system.printable import printable

SECONDS_BETWEEN_LINES = 5.0

_quiet = False


def configure(*, quiet: bool) -> None:
    """Silence (or allow) progress for the whole process; the command line's -q sets this once."""
    global _quiet
    _quiet = quiet


@contextmanager
def silenced() -> Iterator[None]:
    """No progress until the block ends; warnings are printed all the same."""
    before = _quiet
    configure(quiet=True)
    try:
        yield
    finally:
        configure(quiet=before)


def is_quiet() -> bool:
    """Whether progress is silenced."""
    return _quiet


def say(message: str) -> None:
    """Print one line for people."""
    if not _quiet and sys.stderr is not None:
        print(printable(message), file=sys.stderr, flush=True)


def warn(message: str) -> None:
    """Print one line that people must see, -q or not."""
    if sys.stderr is not None:
        print(printable(f"warning: {message}"), file=sys.stderr, flush=True)


class Task(Protocol):
    """One piece of long work."""

    def advance(self, amount: float = 1) -> None: ...


class _Silent:
    def advance(self, amount: float = 1) -> None:
        pass


class _Lines:
    """Plain lines, at most one every few seconds, for work that is not watched on a terminal."""

    def __init__(self, name: str, total: float | None, unit: str) -> None:
        self.name, self.total, self.unit = name, total, unit
        self.done = 0.0
        self.started = self.last_line = time.monotonic()

    def advance(self, amount: float = 1) -> None:
        self.done += amount
        if time.monotonic() - self.last_line >= SECONDS_BETWEEN_LINES:
            self.last_line = time.monotonic()
            say(f"{self.name}: {self._state()}")

    def _state(self) -> str:
        if self.done or self.total:
            return _amount(self.done, self.total, self.unit)
        return f"still running, {time.monotonic() - self.started:.0f} s"


@contextmanager
def task(name: str, *, total: float | None = None, unit: str = "") -> Iterator[Task]:
    """Show `name` as running until the block ends.

    Args:
        name: what is being done, for people.
        total: how much there is to do in `unit`s, None if unknown.
        unit: "B" for bytes, else any word ("rows", "parts").
    """
    from graphprep.system import compiling

    compiling.watch()
    if _quiet or sys.stderr is None:
        yield _Silent()
    elif sys.stderr.isatty():
        with _display.row(name, total, unit) as bar:
            yield bar
    else:
        lines = _Lines(name, total, unit)
        yield lines
        amount = f", {_amount(lines.done, None, unit)}" if lines.done else ""
        say(f"{name}: done in {time.monotonic() - lines.started:.1f} s{amount}")


class _Display:
    """The bars on the terminal, one row a task. Tasks in threads share it, since a terminal can have only one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._shown: Any = None

    @contextmanager
    def row(self, name: str, total: float | None, unit: str) -> Iterator[Task]:
        with self._lock:
            if self._shown is None:
                self._shown = _new_display()
                self._shown.start()
            self._running += 1
            shown = self._shown
            number = shown.add_task(printable(name), total=total, unit=unit)

        class Bar:
            def advance(self, amount: float = 1) -> None:
                shown.advance(number, amount)

        try:
            yield Bar()
            if total is None:
                shown.update(number, total=1, completed=1, unit="")
        finally:
            with self._lock:
                self._running -= 1
                if not self._running:
                    shown.stop()
                    self._shown = None


_display = _Display()


def _new_display() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TransferSpeedColumn
    from rich.progress import Task as Row
    from rich.text import Text

    class Amount(ProgressColumn):
        """How much is done, with its unit."""

        def render(self, task: Row) -> Text:
            unit = task.fields["unit"]
            known = task.total is not None or task.completed > 0
            return Text(_amount(task.completed, task.total, unit) if unit and known else f"{task.percentage:>3.0f}%")

    class Speed(TransferSpeedColumn):
        """Bytes a second, of what is counted in bytes."""

        def render(self, task: Row) -> Text:
            return super().render(task) if task.fields["unit"] == "B" else Text("")

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), Amount(), Speed(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True))


def _amount(done: float, total: float | None, unit: str) -> str:
    if unit == "B":
        text = format_bytes(done) + (f" of {format_bytes(total)}" if total else "")
    else:
        text = f"{done:,.0f}" + (f" of {total:,.0f}" if total else "") + (f" {unit}" if unit else "")
    return text + (f" ({100 * done / total:.0f} %)" if total else "")


def format_bytes(amount: float) -> str:
    """`amount` bytes with a decimal prefix: 1_234_567 is '1.2 MB'."""
    for prefix in ("B", "kB", "MB", "GB"):
        if abs(amount) < 1000:
            return f"{amount:.0f} {prefix}" if prefix == "B" else f"{amount:.1f} {prefix}"
        amount /= 1000
    return f"{amount:.1f} TB"
