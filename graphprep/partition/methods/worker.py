"""The common part of the child processes that call native partitioners: start, input and output files."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphprep.system.child_process import end_with_parent

NO_MEMORY = "it ran out of memory"


class Task(NamedTuple):
    """The input of a child: a folder that its caller has filled."""

    folder: Path
    request: dict[str, Any]

    def array(self, name: str) -> NDArray[Any]:
        """NAME.npy, mapped read-only."""
        mapped: NDArray[Any] = np.load(self.folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        return mapped

    def array_if_any(self, name: str) -> NDArray[Any] | None:
        """NAME.npy, mapped read-only, or None if there is no such file."""
        return self.array(name) if (self.folder / f"{name}.npy").exists() else None


class Parts(NamedTuple):
    """The result of a child."""

    assignment: ArrayLike
    cut: int


def main(partition: Callable[[Task], Parts]) -> None:
    """Run `partition` on the folder that the command line names and write assignment.npy and facts.json there."""
    end_with_parent()
    _raise_oom_score()
    folder = Path(sys.argv[1])
    try:
        parts = partition(Task(folder, json.loads((folder / "request.json").read_text())))
        np.save(folder / "assignment.npy", np.asarray(parts.assignment, dtype=np.int64))
    except MemoryError:
        sys.exit(NO_MEMORY)
    (folder / "facts.json").write_text(json.dumps({"cut": int(parts.cut)}))


def _raise_oom_score() -> None:
    """Ask Linux to end this process, and not its caller, when memory runs out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
