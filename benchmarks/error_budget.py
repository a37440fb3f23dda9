"""What do few bytes cost? Accuracy and bytes of --error-budget and --byte-budget, paired by seed with the exact run.

All runs of all graphs, numbers of layers and seeds are made among the same 4 rank processes, exact ones and those with
budgets. A seed decides the first weights and all dropout masks, so the two runs of a seed differ by nothing but what
they sent. Bytes are those of rows and their gradients in layers 2 and up over the whole run, evaluations included, as a
share of what sending all of them in fp32 would have taken; `training alone` leaves the evaluations out, which every
run sends exactly.

The difference of the accuracies has its standard error. Prints a table, writes JSON with --out. Needs --mirror (or the
network). Budgets are tuned with other seeds than those that are reported: --first-seed.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.rank_group import train_all
from benchmarks.staleness import cache_of

TRAINING: dict[str, Any] = {"epochs": 200, "patience": 0, "eval_every": 40, "device": "cpu"}
OF_DATASET: dict[str, dict[str, Any]] = {
    "cora": {},
    "amazon-photo": {"input_dropout": 0.0, "lr": 0.003},
    "coauthor-cs": {"input_dropout": 0.0, "lr": 0.005},
}
"""Options of both runs of a graph"""


def sent_shares(results: list[dict[str, Any]], eval_every: int) -> tuple[float, float]:
    """Bytes in layers 2 and up as a share of exact ones: of the runs, and of their training passes alone."""
    sent = exact = evaluations = 0.0
    for result in results:
        passes = result["epochs"]
        validations = -(-passes // eval_every) + 1  # and the test
        for row in result["exchanges"]:
            if row["layer"] >= 2:
                sent, exact = sent + row["bytes_sent"], exact + row["bytes_exact_boundary"]
                if row["direction"] == "forward":
                    evaluations += row["bytes_exact_boundary"] * validations / (passes + validations)
    return sent / exact, (sent - evaluations) / (exact - evaluations)


def compared(mine: list[dict[str, Any]], exact: list[dict[str, Any]], eval_every: int) -> dict[str, Any]:
    """The figures of one budget beside the exact runs of the same seeds."""
    differences = [
        100 * (one["test_accuracy"] - other["test_accuracy"]) for one, other in zip(mine, exact, strict=True)
    ]
    of_run, of_training = sent_shares(mine, eval_every)
    spread = statistics.stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else None
    return {
        "accuracy_exact": statistics.mean(100 * one["test_accuracy"] for one in exact),
        "accuracy": statistics.mean(100 * one["test_accuracy"] for one in mine),
        "difference": statistics.mean(differences),
        "standard_error": spread,
        "share_sent_layers_2": of_run,
        "share_sent_layers_2_training": of_training,
        "measured_error": statistics.mean(one["error_budget"]["measured_error"] or 0.0 for one in mine),
        "greatest_error": max(one["error_budget"]["greatest_error"] or 0.0 for one in mine),
        "differences": differences,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror", help="where to take the graphs from")
    parser.add_argument("--datasets", nargs="+", default=list(OF_DATASET), help="names of the registry")
    parser.add_argument("--budgets", nargs="*", type=float, default=[], help="of the error")
    parser.add_argument("--byte-budgets", nargs="*", type=float, default=[], help="of the bytes of training passes")
    parser.add_argument("--layers", nargs="+", type=int, default=[2, 3])
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--options", type=json.loads, default={}, help="the trainer's for all runs, as a JSON object")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    budgets = [("error_budget", value) for value in (0.0, *arguments.budgets)]
    budgets += [("byte_budget", value) for value in arguments.byte_budgets]
    cases = list(product(arguments.datasets, arguments.layers, budgets))
    caches = {dataset: cache_of(dataset, arguments.parts, arguments.mirror) for dataset in arguments.datasets}
    common = {dataset: {**TRAINING, **OF_DATASET.get(dataset, {}), **arguments.options} for dataset in caches}
    runs = [
        {**common[dataset], "cache": str(caches[dataset]), "layers": layers, option: value, "seed": seed}
        for dataset, layers, (option, value) in cases
        for seed in seeds
    ]
    started = time.perf_counter()
    results = train_all(caches[arguments.datasets[0]], arguments.parts, runs)
    print(f"{len(runs)} runs in {time.perf_counter() - started:.0f} s")
    table, exact = [], list[dict[str, Any]]()
    for number, (dataset, layers, (option, value)) in enumerate(cases):
        of_case = results[number * len(seeds) : (number + 1) * len(seeds)]
        if not value:
            exact = of_case
            continue
        row = {"dataset": dataset, "layers": layers, option: value, "seeds": len(seeds)}
        row |= compared(of_case, exact, common[dataset]["eval_every"])
        table.append(row)
        print(
            f"{dataset:14} {layers} layers, {option} {value:<5g} {row['accuracy']:6.2f} % (exact "
            f"{row['accuracy_exact']:6.2f} %), difference {row['difference']:+.2f} +- "
            f"{row['standard_error'] or 0:.2f}, "
            f"{row['share_sent_layers_2']:.2%} of exact bytes in layers 2+ (training alone "
            f"{row['share_sent_layers_2_training']:.2%}), error {row['measured_error']:.3f}, at most "
            f"{row['greatest_error']:.3f}"
        )
    if arguments.out:
        arguments.out.write_text(json.dumps(table, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
