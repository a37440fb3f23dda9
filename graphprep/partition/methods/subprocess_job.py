"""Run a native partitioner in a child process and check its result.

Native libraries end their process on input that they reject, hold the interpreter for the whole call, print to standard
output, and may be killed by the kernel when memory runs out. So the graph is written to files that the child maps, the
child's output goes to a log, and a child that fails or times out raises a PartitionError; the caller goes on with
another method.

Letters: N nodes, P parts.
"""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from graphprep.errors import PartitionError
from graphprep.partition.methods.base import PartitionProblem
from graphprep.partition.methods.worker import NO_MEMORY
from graphprep.system import progress
from graphprep.system.child_process import child_settings, python_command

FIRST_POLL_S, LAST_POLL_S = 0.002, 0.05
METIS_NO_MEMORY = "Memory allocation failed"
"""METIS prints this, and pymetis reports only an unknown exception."""
CHUNK = 1 << 22
"""Entries that are converted and written at a time."""
MOST_MISSING = 64.0
"""An empty part is an error if its target is above this many nodes and its share is at least half the mean.
Smaller ones are filled later: a slow rank with too few nodes breaks no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run of a native library in a child process."""

    title: str
    """Its name in messages."""
    module: str
    """What the child runs: `python -m MODULE FOLDER`."""
    folder: Path
    """Holds the input; the child writes assignment.npy and facts.json there."""
    time_limit_s: float | None
    cancelled: Event | None = None

    def add_array(self, name: str, values: NDArray[Any], dtype: DTypeLike) -> None:
        """Write `values` to NAME.npy as `dtype`, without a converted copy in memory."""
        target = np.lib.format.open_memmap(self.folder / f"{name}.npy", mode="w+", dtype=dtype, shape=values.shape)
        for start in range(0, len(values), CHUNK):
            target[start : start + CHUNK] = values[start : start + CHUNK]
        target.flush()

    def run(self, request: Mapping[str, Any], problem: PartitionProblem) -> NDArray[np.int32]:
        """Run the child to its end; int32 [N].

        Args:
            request: options for the child, as JSON.
            problem: what the result is checked against.

        Raises:
            PartitionError: the child failed or timed out, or its result is not a valid partition.
        """
        (self.folder / "request.json").write_text(json.dumps(request))
        run_child(self)
        try:
            assignment_N = np.load(self.folder / "assignment.npy", allow_pickle=False)
            facts = json.loads((self.folder / "facts.json").read_text())
        except (OSError, ValueError) as error:
            raise PartitionError(f"{self.title} ended without a result") from error
        return checked(assignment_N, facts, problem, title=self.title)


@contextmanager
def job(problem: PartitionProblem, *, title: str, module: str, time_limit_s: float | None) -> Iterator[Job]:
    """A job with a temporary folder. The problem's time limit overrides the method's."""
    limit = problem.time_limit_s if problem.time_limit_s is not None else time_limit_s
    with tempfile.TemporaryDirectory(prefix=".partial-native-", dir=problem.scratch) as folder:
        yield Job(title=title, module=module, folder=Path(folder), time_limit_s=limit, cancelled=problem.cancelled)


def run_child(work: Job) -> None:
    """Start the child and wait; kill it when it times out or the wait is interrupted.

    Raises:
        PartitionError: it timed out, was ended by a signal, or failed; with the last line that it printed.
    """
    command = python_command("-m", work.module, str(work.folder))
    timed_out = cancelled = False
    with (
        (work.folder / "log").open("wb") as log,
        progress.task(work.title) as task,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **child_settings()) as child,
    ):
        started, pause = time.monotonic(), FIRST_POLL_S
        try:
            while child.poll() is None:
                if work.time_limit_s is not None and time.monotonic() - started > work.time_limit_s:
                    timed_out = True
                    child.kill()
                    break
                cancelled = work.cancelled is not None and work.cancelled.is_set()
                if cancelled:
                    child.kill()
                    break
                time.sleep(pause)
                pause = min(LAST_POLL_S, pause * 1.5)
                task.advance(0)
        except BaseException:
            child.kill()
            child.wait()
            raise
    if cancelled:
        raise PartitionError(f"{work.title} was ended with the run")
    if timed_out:
        raise PartitionError(f"{work.title} was not done within {work.time_limit_s:.0f} s and was ended")
    if child.returncode:
        raise PartitionError(f"{work.title} {_cause_of(child.returncode, work.folder / 'log')}")


def _cause_of(status: int, log: Path) -> str:
    if status < 0:
        name = signal.Signals(-status).name
        return f"was ended by {name}" + (
            ", as the kernel does when memory runs out" if -status == signal.SIGKILL else ""
        )
    words = log.read_text(errors="replace").strip().splitlines()
    if any(METIS_NO_MEMORY in line for line in words):
        return f"failed: {NO_MEMORY}"
    return f"failed: {words[-1] if words else f'exit status {status}'}"


def checked(
    assignment_N: NDArray[Any], facts: Mapping[str, Any], problem: PartitionProblem, *, title: str
) -> NDArray[np.int32]:
    """The result of a native library as int32 [N], after validation.

    Raises:
        PartitionError: a wrong length, a part number out of range, a negative cut, or an empty part that should
            have many nodes.
    """
    num_nodes, num_parts = problem.graph.num_rows, problem.num_parts
    if assignment_N.shape != (num_nodes,):
        raise PartitionError(f"{title} returned {assignment_N.size:,} part numbers for {num_nodes:,} nodes")
    if num_nodes and not 0 <= int(assignment_N.min()) <= int(assignment_N.max()) < num_parts:
        raise PartitionError(f"{title} returned part numbers outside 0 .. {num_parts - 1}")
    if facts.get("cut", 0) < 0:
        raise PartitionError(f"{title} returned a negative cut, {facts['cut']}")
    empty_P = np.bincount(assignment_N, minlength=num_parts) == 0
    due_P = problem.shares_P * num_nodes
    missing_P = empty_P & (due_P > MOST_MISSING) & (problem.shares_P >= 0.5 / num_parts)
    if missing_P.any():
        part = int(np.argmax(np.where(missing_P, due_P, 0)))
        raise PartitionError(f"{title} left part {part} empty, which should have about {due_P[part]:,.0f} nodes")
    return assignment_N.astype(np.int32)
