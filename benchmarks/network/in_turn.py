"""`torchrun -m benchmarks.network.in_turn RUNS RESULTS`: one rank of several trainings, one after the other.

Starting Python and torch takes a dozen processes longer than what is measured, so a laboratory starts them once.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path

from benchmarks.rank_group import train_in_turn
from trainer.base.errors import TrainerError
from trainer.dist.rank_info import RankInfo


def main() -> int:
    """Returns the status that the trainer would end with."""
    runs, results = map(Path, sys.argv[1:])
    logging.getLogger("trainer").setLevel(logging.WARNING)
    try:
        train_in_turn(RankInfo.from_environment(os.environ), json.loads(runs.read_text()), results)
    except TrainerError as error:
        print(f"rank {os.environ['RANK']}: {error}", file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
