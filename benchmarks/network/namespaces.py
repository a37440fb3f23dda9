"""Network namespaces of this process: named by its number, gone with all that runs in them when it is done.

A harness that was killed leaves its namespaces behind. Their names say whose they are, so the next one removes what
belongs to no living process, and two that run side by side do not meet.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

PREFIX = "graphprep"
_GRACE = 5.0
"""Seconds for processes to end after SIGTERM."""


def ip(*words: str) -> str:
    """Run `ip`, which must succeed; its output."""
    return tool("ip", *words)


def tool(*words: str) -> str:
    """Run a command that must succeed; its output.

    Raises:
        RuntimeError: it failed; the message has what it said.
    """
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} failed: {done.stderr.strip()}")
    return done.stdout


def inside(namespace: str, *words: str, host: str = "") -> list[str]:
    """The command that runs `words` in a namespace, where `host` is given under that host name."""
    named = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', host] if host else []
    return ["ip", "netns", "exec", namespace, *named, *words]


@contextlib.contextmanager
def namespaces(names: Sequence[str]) -> Iterator[list[str]]:
    """Make one namespace for each of `names`, and give their full names in that order.

    While they are there, SIGTERM ends this process as Ctrl-C does, so that they are taken down.
    """
    sweep()
    made = [f"{PREFIX}-{os.getpid()}-{name}" for name in names]
    with _ending_on_sigterm():
        try:
            for namespace in made:
                ip("netns", "add", namespace)
                ip("-n", namespace, "link", "set", "dev", "lo", "up")
            yield made
        finally:
            remove(made)


def existing() -> list[str]:
    """All namespaces of such harnesses, of this process and of others."""
    found = ip("netns", "list").split()
    return [name for name in found if name.startswith(f"{PREFIX}-")]


def sweep() -> None:
    """Remove the namespaces of harnesses that are gone."""
    remove([name for name in existing() if not Path("/proc", name.split("-")[1]).exists()])


def remove(names: Sequence[str]) -> None:
    """End what runs in the namespaces, and remove those that are there."""
    there = [name for name in names if name in existing()]
    for number, wait in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, _GRACE)):
        end_processes(there, number, wait)
    for name in there:
        ip("netns", "del", name)


def processes(namespace: str) -> list[int]:
    """The numbers of those that run in it."""
    return [int(word) for word in ip("netns", "pids", namespace).split()]


def end_processes(names: Sequence[str], number: signal.Signals, seconds: float) -> None:
    """Send a signal to all processes in the namespaces, and wait until they are gone or the time is up."""
    for name in names:
        for process in processes(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)
    deadline = time.monotonic() + seconds
    while any(processes(name) for name in names) and time.monotonic() < deadline:
        time.sleep(0.05)


@contextlib.contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    def end(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one must not cut the taking down short
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
