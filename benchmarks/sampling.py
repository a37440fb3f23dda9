"""What boundary sampling saves and costs: bytes, seconds and test accuracy with P = 0.1 beside the exact run, 4 ranks.

2-layer GCN with the trainer's defaults, without input dropout, so that the first layer's sums are made once and every
byte after the start is of the second layer. Bytes are of the training passes alone: evaluations send all rows. A seed
decides weights, masks and draws, so the runs of a seed are compared with each other. Seconds are of whole runs on CPUs
that share the machine, where a byte costs next to nothing.

Prints a table, writes JSON with --out. The real graphs need --mirror (or the network).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks.rank_group import train_all
from benchmarks.staleness import cache_of

TRAINING: dict[str, Any] = {"input_dropout": 0.0, "device": "cpu", "patience": 0}


def backward_share(results: list[dict[str, Any]]) -> float:
    """Gradients sent as a share of what the exact exchange takes; training passes alone send them."""
    rows = [row for result in results for row in result["exchanges"] if row["direction"] == "backward"]
    return float(sum(row["bytes_sent"] for row in rows) / sum(row["bytes_exact_boundary"] for row in rows))


def main() -> int:
    """Returns 1 if P of the gradients' bytes is not what was sent, within a tenth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror", help="where to take the real graphs from")
    parser.add_argument("--datasets", nargs="+", default=["coauthor-cs", "sbm"], help="names of the registry, or sbm")
    parser.add_argument("--chances", type=float, nargs="+", default=[0.1])
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    table, is_right = [], True
    for dataset in arguments.datasets:
        cache = cache_of(dataset, arguments.parts, arguments.mirror)
        chances = [1.0, *arguments.chances]
        common = {**TRAINING, "epochs": arguments.epochs, "eval_every": arguments.epochs}
        runs = [{**common, "boundary_sampling": p, "seed": seed} for p in chances for seed in range(arguments.seeds)]
        results = train_all(cache, arguments.parts, runs)
        for number, chance in enumerate(chances):
            mine = results[number * arguments.seeds : (number + 1) * arguments.seeds]
            row = {
                "dataset": dataset,
                "chance": chance,
                "accuracies": [100 * result["test_accuracy"] for result in mine],
                "accuracy": 100 * statistics.mean(result["test_accuracy"] for result in mine),
                "row_bytes_sent": statistics.mean(result["row_bytes_sent"] for result in mine),
                "share_of_gradients": backward_share(mine),
                "seconds": statistics.median(result["seconds"] for result in mine),
            }
            table.append(row)
            is_right &= abs(row["share_of_gradients"] - chance) <= chance / 10
            print(
                f"{dataset:14} P = {chance:4}: {row['accuracy']:.2f} %, "
                f"{row['row_bytes_sent'] / 1e6:.2f} MB of rows sent, "
                f"{row['share_of_gradients']:.1%} of the gradients, {row['seconds']:.1f} s",
                flush=True,
            )
    if arguments.out:
        arguments.out.write_text(json.dumps(table, indent=1))
    return int(not is_right)


if __name__ == "__main__":
    sys.exit(main())
