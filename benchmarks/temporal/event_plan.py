"""What `graphprep plan` says of a cache of events, beside a short run: seconds of an epoch, bytes of rows, and memory.

    OMP_NUM_THREADS=1 python -m benchmarks.temporal.event_plan CollegeMsg.txt --out docs/figures/event_plan.json

The file has a line `source destination time` an event. Each division of the ranks is planned, and then trained for some
rounds on this machine. Seconds are those of the fastest round, in which other programs took the least; bytes are those
of the first round with its validation. Memory is without that of Python and torch, which `--model edgebank` shows.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.temporal.events import make_cache, train
from pipelines.planning.events import plan_events

ROUNDS = 3
BATCH = 200


def compared(cache: Path, numbers: str, idle_bytes: int) -> dict[str, Any]:
    """Both sides of one division."""
    i, j, k = (int(number) for number in numbers.split(","))
    plan = plan_events(cache, {"parallel": numbers, "batch_size": BATCH}, parts=i * j * k)
    epochs = ROUNDS * j * k
    run = train(cache, numbers, "--model", "tgn", "--parallel", numbers, "--epochs", str(epochs))
    lines, result = run["epochs"], run["result"]
    return {
        "parallel": [i, j, k],
        "planned_round_seconds": plan["round_seconds"],
        "measured_round_seconds": min(line["seconds"] for line in lines),
        "planned_row_bytes": plan["row_bytes"],
        # Of the first round: negatives, and so the rows that are read, are others in each.
        "measured_row_bytes": lines[0]["row_bytes_sent"],
        "planned_memory_bytes": max(row["memory_bytes"] for row in plan["ranks"]),
        "measured_memory_bytes": max(result["memory_bytes_by_rank"]) - idle_bytes,
    }


def main() -> None:
    """Plan and train each division."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("edges", type=Path)
    parser.add_argument("--parallel", nargs="+", default=["1,1,1", "2,1,1", "1,2,1", "1,1,2"])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cache = make_cache(arguments.edges, Path(folder, "cache"))
        idle = train(cache, "1,1,1", "--model", "edgebank")["result"]
        rows = []
        for numbers in arguments.parallel:
            row = compared(cache, numbers, max(idle["memory_bytes_by_rank"]))
            rows.append(row)
            print(
                f"{numbers}: a round planned {row['planned_round_seconds']:.2f} s, measured "
                f"{row['measured_round_seconds']:.2f} s; rows {row['planned_row_bytes'] / 1e6:.2f} and "
                f"{row['measured_row_bytes'] / 1e6:.2f} MB; memory {row['planned_memory_bytes'] / 1e6:.0f} and "
                f"{row['measured_memory_bytes'] / 1e6:.0f} MB",
                flush=True,
            )
    if arguments.out:
        figure = {"batch_size": BATCH, "rounds": ROUNDS, "divisions": rows, "environment": idle["environment"]}
        arguments.out.write_text(json.dumps(figure, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
