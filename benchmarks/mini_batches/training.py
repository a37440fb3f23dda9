"""Training on sampled neighbourhoods beside training on the whole graph: test accuracy, seconds, bytes, idle time.

Two layers and the trainer's defaults, the same epochs for all; a seed decides weights, masks, batches and draws. The
accuracy is the mean over seeds, with the standard deviation between them. `idle` is the share of the steps' seconds,
from the second epoch on, in which a rank waited for a batch or for rows, of the rank that waited most; ranks and
samplers share the machine's cores.

Prints a table, writes JSON with --out, data set by data set. The real graphs need --mirror (or the network).
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

TRAINING: dict[str, Any] = {"device": "cpu", "patience": 0}
EPOCHS = {"cora": 60, "coauthor-cs": 30, "amazon-photo": 100, "sbm": 20}
"""of each data set unless --epochs says another number"""


def idle_share(result: dict[str, Any]) -> float | None:
    """The greatest of any rank; None for the whole graph."""
    facts = result["mini_batches"]
    if facts is None:
        return None
    pairs = zip(facts["idle_seconds_by_rank"], facts["seconds_by_rank"], strict=True)
    return max(float(idle / seconds) for idle, seconds in pairs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror", help="where to take the real graphs from")
    parser.add_argument("--datasets", nargs="+", default=list(EPOCHS), help="names of the registry, or sbm")
    parser.add_argument("--models", nargs="+", default=["gcn"])
    parser.add_argument("--fanouts", nargs="+", default=["2,2"])
    parser.add_argument("--control-variates", action="store_true", help="each of them with control variates too")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--sampler-processes", type=int, default=1)
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, help=f"of all; otherwise {EPOCHS}, and 50 of others")
    parser.add_argument("--eval-every", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    table = []
    for dataset in arguments.datasets:
        cache = cache_of(dataset, arguments.parts, arguments.mirror)
        for model in arguments.models:
            epochs = arguments.epochs or EPOCHS.get(dataset, 50)
            common = {**TRAINING, "model": model, "epochs": epochs, "eval_every": arguments.eval_every}
            batches = {"batch_size": arguments.batch_size, "sampler_processes": arguments.sampler_processes}
            kinds: dict[str, dict[str, Any]] = {"whole graph": {}}
            for fanouts in arguments.fanouts:
                kinds[fanouts] = {**batches, "fanouts": fanouts}
                if arguments.control_variates:
                    kinds[f"{fanouts}, control variates"] = {**kinds[fanouts], "control_variates": True}
            runs = [{**common, **kind, "seed": seed} for kind in kinds.values() for seed in range(arguments.seeds)]
            results = train_all(cache, arguments.parts, runs)
            for number, name in enumerate(kinds):
                mine = results[number * arguments.seeds : (number + 1) * arguments.seeds]
                idle = [share for share in map(idle_share, mine) if share is not None]
                accuracies = [100 * result["test_accuracy"] for result in mine]
                row = {
                    "parts": arguments.parts,
                    "epochs": epochs,
                    "dataset": dataset,
                    "model": model,
                    "trained_on": name,
                    "batch_size": arguments.batch_size if number else None,
                    "accuracies": accuracies,
                    "accuracy": statistics.mean(accuracies),
                    "spread": statistics.stdev(accuracies) if len(accuracies) > 1 else None,
                    "seconds": statistics.median(result["seconds"] for result in mine),
                    "row_bytes_sent": statistics.mean(result["row_bytes_sent"] for result in mine),
                    "idle": statistics.median(idle) if idle else None,
                }
                table.append(row)
                shown = "" if row["idle"] is None else f", idle {row['idle']:.1%}"
                spread = "" if row["spread"] is None else f" ± {row['spread']:.2f}"
                print(
                    f"{dataset:12} {model:5} {name:21} {row['accuracy']:.2f}{spread} %, {row['seconds']:.1f} s, "
                    f"{row['row_bytes_sent'] / 1e6:.1f} MB of rows sent{shown}",
                    flush=True,
                )
            if arguments.out:
                arguments.out.write_text(json.dumps(table, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
