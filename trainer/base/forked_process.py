"""A child process that goes on with what its parent has imported, where a new interpreter would import it again.

Only for Linux, where a parent's end ends the child too, and only before this process uses a GPU, whose driver does not
survive a fork.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from trainer.base.child_process import end_with, forget_pipe

_POLL = 0.02
"""Seconds between looks at a child that is waited for."""


class ForkedProcess:
    """A fork of this process that runs one function; it is asked and ended as a `subprocess.Popen` is."""

    def __init__(self, run: Callable[[], int], environment: Mapping[str, str], closed: Sequence[int] = ()) -> None:
        """Start it.

        Args:
            run: gives its exit status; it is 1, with a traceback, after an exception.
            environment: variables that it gets in addition to this process's.
            closed: descriptors of this process that it closes.
        """
        self.returncode: int | None = None
        """Its exit status once it has ended and was asked for; -9 says that signal 9 ended it."""
        parent = os.getpid()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        # A signal that comes before the child has given up this process's handlers waits.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                _start_anew(parent, environment, closed)
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
                status = run()
            except BaseException:  # noqa: BLE001 (nothing may go on in the parent's code)
                sys.excepthook(*sys.exc_info())
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def poll(self) -> int | None:
        """The exit status, None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Raises:
            subprocess.TimeoutExpired: it has not ended after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if deadline is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            time.sleep(_POLL)
        return status

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once, if it still runs."""
        self.send_signal(signal.SIGKILL)


def _start_anew(parent: int, environment: Mapping[str, str], closed: Sequence[int]) -> None:
    """Give up what belongs to the parent, as a new interpreter would not have it; output is unbuffered, as by `-u`."""
    end_with(parent)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    for descriptor in closed:
        os.close(descriptor)
    forget_pipe()
    os.environ.update(environment, PYTHONSAFEPATH="1")
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            io.FileIO(descriptor, "w", closefd=False), encoding=old.encoding, errors=old.errors, write_through=True
        )
        for descriptor, old in ((1, sys.stdout), (2, sys.stderr))
    )
