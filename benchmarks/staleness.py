"""How little can be sent? Test accuracy and bytes of staleness policies, paired by seed with the exact run; 4 ranks.

A setting is STALENESS/STALENESS-GRAD/WIRE, for instance fixed:4/fixed:4/int8, and may go on with /precision. Each seed
decides the first weights and all dropout masks, so the exact run of a seed differs from the others of that seed by
nothing but what they sent. Bytes are compared within a run, with what its own passes, exact evaluations included, would
have taken in fp32: an exact boundary exchange in every layer, and whole-block broadcasts. `layers 2+` leaves out the
first layer, whose constant rows no setting sends again.

Prints a table, writes JSON with --out. The real graphs need --mirror (or the network).
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from scipy.stats import t as student

from benchmarks.command import graphprep
from benchmarks.rank_group import train_all

EXACT = "none/none/fp32"
SETTINGS = (
    "fixed:4/fixed:4/int8",
    "adaptive:3/adaptive:3/int8",
    "variation:0.8/variation:0.8/int8",
)
SBM = ["--nodes", "100000", "--edges", "1000000", "--features", "64", "--classes", "16"]
TRAINING: dict[str, Any] = {"eval_every": 10, "epochs": 200, "patience": 50, "device": "cpu"}


def cache_of(dataset: str, parts: int, mirror: str | None, *options: str) -> Path:
    """Fetch or generate the dataset and partition it with `options`, or find that both is done."""
    if dataset == "sbm":
        graphprep("generate", "sbm", "--name", "sbm-100k", *SBM, "-q")
        dataset = "sbm-100k"
    else:
        graphprep("fetch", dataset, "-q", *(["--mirror", mirror] if mirror else []))
    return Path(json.loads(graphprep("partition", dataset, "--parts", str(parts), "-q", "--json", *options))["cache"])


def options_of(setting: str, seed: int, common: dict[str, Any]) -> dict[str, Any]:
    """The trainer's options of one run."""
    staleness, gradients, wire, *rest = setting.split("/")
    options = {**TRAINING, **common, "seed": seed}
    if rest:
        options["precision"] = rest[0]
    return {**options, "staleness": staleness, "staleness_grad": gradients, "wire": wire}


def share(results: list[dict[str, Any]], of: str, *, first_layer: int) -> float:
    """Bytes sent as a share of what `of` would have taken, over all runs and the layers from the first that counts."""
    rows = [row for result in results for row in result["exchanges"] if row["layer"] >= first_layer]
    return float(sum(row["bytes_sent"] for row in rows) / sum(row[of] for row in rows))


def interval(differences: list[float]) -> tuple[float, float]:
    """The mean and half the width of its 95 % interval."""
    n = len(differences)
    critical = float(student.ppf(0.975, n - 1))
    return statistics.mean(differences), critical * statistics.stdev(differences) / math.sqrt(n)


def judged(dataset: str, setting: str, results: list[dict[str, Any]], exact: list[dict[str, Any]]) -> dict[str, Any]:
    """One row of the table."""
    accuracies = [100 * result["test_accuracy"] for result in results]
    differences = [mine - 100 * result["test_accuracy"] for mine, result in zip(accuracies, exact, strict=True)]
    mean, half = interval(differences)
    return {
        "dataset": dataset,
        "setting": setting,
        "seeds": len(results),
        "accuracy": statistics.mean(accuracies),
        "difference": mean,
        "difference_low": mean - half,
        "difference_high": mean + half,
        "avoided_of_exact": 1 - share(results, "bytes_exact_boundary", first_layer=0),
        "avoided_of_exact_layers_2": 1 - share(results, "bytes_exact_boundary", first_layer=2),
        "avoided_of_broadcast": 1 - share(results, "bytes_whole_block_broadcast", first_layer=0),
        "avoided_of_broadcast_layers_2": 1 - share(results, "bytes_whole_block_broadcast", first_layer=2),
        "epochs": statistics.mean(result["epochs"] for result in results),
        "accuracies": accuracies,
    }


def main() -> int:
    """Returns 1 if a setting misses a target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror", help="where to take the real graphs from")
    parser.add_argument("--datasets", nargs="+", default=["cora"], help="names of the registry, or sbm")
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS))
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--options", type=json.loads, default={}, help="the trainer's for all runs, as a JSON object")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    table = []
    for dataset in arguments.datasets:
        cache = cache_of(dataset, arguments.parts, arguments.mirror)
        settings = [EXACT, *(setting for setting in arguments.settings if setting != EXACT)]
        runs = [options_of(setting, seed, arguments.options) for setting in settings for seed in range(arguments.seeds)]
        started = time.perf_counter()
        results = train_all(cache, arguments.parts, runs)
        print(f"{dataset}: {len(runs)} runs in {time.perf_counter() - started:.0f} s", flush=True)
        exact = results[: arguments.seeds]
        for number, setting in enumerate(settings):
            mine = results[number * arguments.seeds : (number + 1) * arguments.seeds]
            row = judged(dataset, setting, mine, exact)
            table.append(row)
            print(
                f"{setting:36} {row['accuracy']:6.2f} %  difference {row['difference']:+.2f} "
                f"[{row['difference_low']:+.2f}, {row['difference_high']:+.2f}]  avoided of exact "
                f"{row['avoided_of_exact']:.2%} (layers 2+ {row['avoided_of_exact_layers_2']:.2%}), of broadcast "
                f"{row['avoided_of_broadcast']:.2%} (layers 2+ {row['avoided_of_broadcast_layers_2']:.2%}), "
                f"{row['epochs']:.0f} epochs",
                flush=True,
            )
    if arguments.out:
        arguments.out.write_text(json.dumps(table, indent=1))
    tried = [row for row in table if row["setting"] != EXACT]
    return int(
        any(
            row["difference_low"] <= -0.5
            or row["difference"] <= -0.3
            or row["avoided_of_exact"] < 0.9
            or row["avoided_of_exact_layers_2"] < 0.85
            or row["avoided_of_broadcast"] < 0.95
            for row in tried
        )
    )


if __name__ == "__main__":
    sys.exit(main())
