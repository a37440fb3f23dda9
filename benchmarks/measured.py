"""Run a command and watch what it takes: seconds, and the greatest anonymous and shared memory of its process tree."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

SECONDS_BETWEEN_LOOKS = 0.02


class Measured(NamedTuple):
    """What a command took."""

    seconds: float
    peak_bytes: int
    """RssAnon + RssShmem of all its processes together"""
    output: str
    first_peak_bytes: int
    """the same of the command's own process, without those that it starts"""


def measured(command: Sequence[str], environment: dict[str, str] | None = None) -> Measured:
    """Run `command` to its end.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    started = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
    ) as child:
        peak = first_peak = 0
        while child.poll() is None:
            first, *others = map(held_by, tree(child.pid))
            peak, first_peak = max(peak, first + sum(others)), max(first_peak, first)
            time.sleep(SECONDS_BETWEEN_LOOKS)
        seconds = time.perf_counter() - started
        output = child.stdout.read() if child.stdout else ""
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    return Measured(seconds, peak, output, first_peak)


def tree(process: int) -> list[int]:
    """A process and all below it."""
    found = [process]
    for parent in found:
        try:
            for thread in Path(f"/proc/{parent}/task").iterdir():
                found += [int(word) for word in (thread / "children").read_text().split()]
        except OSError:
            continue
    return found


def held_by(process: int) -> int:
    """RssAnon + RssShmem of one process, in bytes."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))


def python(script: str) -> list[str]:
    """The command that runs `script` with this interpreter."""
    return [sys.executable, "-c", script]
