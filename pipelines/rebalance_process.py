"""`python -m pipelines.rebalance_process CACHE RUN OUT`: make a cache by the speeds of a run's ranks, beside the run.

It gives way to the ranks, ends with the process that started it, and prints what became of the parts as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from graphprep.cache.read import open_cache
from graphprep.errors import GraphprepError
from graphprep.interop.training_run import history_lines
from graphprep.system import progress
from graphprep.system.child_process import end_with_parent
from pipelines.partition import run_partition
from pipelines.rebalance import Rebalance, plan_rebalance, speeds_of_run

NICENESS = 10


def main(arguments: Sequence[str]) -> int:
    """Make the cache; returns the exit status."""
    cache, run, out = map(Path, arguments)
    progress.configure(quiet=True)
    try:
        before = open_cache(cache)
        speeds = speeds_of_run(before, history_lines(run))
        outcome = run_partition(plan_rebalance(before, speeds, out=out), replace_other=True)
        print(json.dumps(Rebalance.of(speeds, before, outcome).to_json()))
    except GraphprepError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    end_with_parent()
    os.nice(NICENESS)
    sys.exit(main(sys.argv[1:]))
