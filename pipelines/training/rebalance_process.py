"""A process that makes caches by the speeds of a run's ranks, beside the run.

It is started with the run, so that the partitioner is loaded when it is needed, gives way to the ranks by its priority,
and ends with the process that started it. Each line of its input is a JSON object: the cache, the folder of the new
one, and the seconds of each rank. It answers each with a line: what became of the parts, or {"error": SENTENCE}.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from graphprep.cache.read import open_cache
from graphprep.errors import GraphprepError, TrainingError
from graphprep.plan.measured_speeds import MeasuredSpeeds
from graphprep.system import progress
from graphprep.system.child_process import child_settings, end_with_parent, python_command
from pipelines.partition import run_partition
from pipelines.repartition.rebalance import Rebalance, plan_rebalance, work_of

NICENESS = 10
_POLL = 0.1


class RebalanceProcess:
    """The process, as the one that starts it sees it."""

    def __init__(self) -> None:
        """Start it."""
        self._child = subprocess.Popen(
            python_command("-m", "pipelines.training.rebalance_process"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **child_settings(),
        )

    def make(
        self, cache: Path, speeds: MeasuredSpeeds, out: Path, *, is_cancelled: Callable[[], bool]
    ) -> Rebalance | None:
        """Make a cache; what became of the parts, or None after it was cancelled.

        Args:
            cache: that the run trains on.
            speeds: of its ranks.
            out: of the new cache.
            is_cancelled: asked again and again.

        Raises:
            TrainingError: it cannot be made.
        """
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            wanted = {"cache": str(cache), "out": str(out), "seconds": speeds.seconds_P.tolist()}
            self._child.stdin.write(json.dumps(wanted) + "\n")
            self._child.stdin.flush()
        except BrokenPipeError as error:
            raise self._gone() from error
        while not select.select([self._child.stdout], [], [], _POLL)[0]:
            if is_cancelled():
                return None
        line = self._child.stdout.readline()
        if not line:
            raise self._gone()
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise TrainingError(f"no cache could be made: {found['error']}")
        return Rebalance(speeds=speeds, **found)

    def end(self) -> None:
        """End it, whatever it does."""
        self._child.kill()
        self._child.communicate()

    def _gone(self) -> TrainingError:
        return TrainingError(f"the process that makes caches has ended with the exit status {self._child.wait()}")


def _made(cache: str, out: str, seconds: list[float]) -> dict[str, Any]:
    try:
        before = open_cache(cache)
        speeds = MeasuredSpeeds.of(work_of(before), np.array([seconds]))
        outcome = run_partition(plan_rebalance(before, speeds, out=Path(out)), replace_other=True)
        made = Rebalance.of(speeds, before, outcome)
        return {name: getattr(made, name) for name in ("moved_nodes", "num_nodes", "expected_seconds")}
    except GraphprepError as error:
        return {"error": str(error)}


def main() -> None:
    """Answer until the input ends."""
    end_with_parent()
    os.nice(NICENESS)
    progress.configure(quiet=True)
    for line in sys.stdin:
        print(json.dumps(_made(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
