"""Test accuracies beside published ones: Cora with GCN, GraphSAGE and GAT; co-author and co-purchase graphs with GCN.

4 ranks, exact. Published: Kipf and Welling 2017 (GCN on Cora), Velickovic et al. 2018 (GAT on Cora), Shchur et al. 2018
(GCN on the others). GraphSAGE on Cora is held to 80 %.

Cora has its public split, and each row of features is scaled to the sum 1, as in the papers; seeds differ in the first
weights and the masks of dropout. The others are averaged over random splits with 20 nodes a class to train on and 30 to
validate: seed s takes the registry's split s. As in the paper, their features say which words occur and are not scaled,
and a GCN has the options that the paper found in validation: 64 hidden features, step size 0.01, dropout 0.8 in both
layers, L2 0.001, patience 50; and only the largest component counts, since no message reaches the other nodes. In
the paper the validation loss decides when to stop, here the validation accuracy. `--choose N` trains every one of
CANDIDATES on the first N splits and takes the one that is best in validation instead.

No option is chosen by a test accuracy. Each accuracy is that of the weights that were best in validation.

Prints a table, writes JSON with --out, where rows of cases that are not run stay. Needs --mirror (or the network).
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.rank_group import train_all
from benchmarks.staleness import cache_of

FIXED: dict[str, Any] = {"device": "cpu", "eval_every": 1}
CANDIDATES: tuple[dict[str, Any], ...] = (
    {"dropout": 0.8, "input_dropout": 0.8, "weight_decay": 0.001, "epochs": 400},
    {"dropout": 0.8, "input_dropout": 0.0, "weight_decay": 0.001, "epochs": 400},
    {"dropout": 0.5, "input_dropout": 0.5, "weight_decay": 0.0005, "epochs": 400},
    {"dropout": 0.5, "input_dropout": 0.0, "weight_decay": 0.0005, "epochs": 400},
)
"""What `--choose` chooses from, the paper's first; all end by early stopping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model on a graph."""

    dataset: str
    published: float
    """accuracy in percent"""
    margin: float
    """how far below it the mean may be, in points"""
    options: dict[str, Any]
    """the trainer's"""
    scales: bool = False
    """whether each row of features gets the sum 1"""
    varies_split: bool = False
    """whether seed s trains on split s; else all train on the only one"""


def _random_splits(dataset: str, published: float, **changes: Any) -> Case:
    options = {"model": "gcn", "eval_every": 3, **CANDIDATES[0], **changes}
    return Case(dataset=dataset, published=published, margin=1.5, options=options, varies_split=True)


def _on_cora(published: float, **options: Any) -> Case:
    return Case(dataset="cora", published=published, margin=1.0, options=options, scales=True)


CASES = {
    "cora-gcn": _on_cora(81.5, model="gcn"),
    "cora-sage": _on_cora(81.0, model="sage", hidden=64),
    "cora-gat": _on_cora(
        83.0, model="gat", heads=8, hidden=8, output_heads=1, dropout=0.6, lr=0.005, epochs=1000, patience=100
    ),
    "coauthor-cs": _random_splits("coauthor-cs", 91.1),
    "amazon-computers": _random_splits("amazon-computers-connected", 82.6),
    "amazon-photo": _random_splits("amazon-photo-connected", 91.2),
}


def train_seeds(case: Case, cache: Path, options: dict[str, Any], *, parts: int, seeds: int) -> list[dict[str, Any]]:
    """The results of the first seeds."""
    runs = [{**options, "seed": seed, "split": seed if case.varies_split else 0} for seed in range(seeds)]
    return train_all(cache, parts, runs)


def choose(name: str, cache: Path, *, parts: int, seeds: int) -> dict[str, Any]:
    """The candidate with the best mean accuracy in validation, the first of equals; nothing else is looked at."""
    validations = []
    for candidate in CANDIDATES:
        options = {**FIXED, **CASES[name].options, **candidate}
        results = train_seeds(CASES[name], cache, options, parts=parts, seeds=seeds)
        validations.append(statistics.mean(100 * result["val_accuracy"] for result in results))
        print(f"{name:18} {validations[-1]:.2f} % in validation with {json.dumps(candidate)}", flush=True)
    return CANDIDATES[validations.index(max(validations))]


def run(name: str, cache: Path, *, parts: int, seeds: int, changes: dict[str, Any]) -> dict[str, Any]:
    """One row of the table."""
    case = CASES[name]
    started = time.perf_counter()
    options = {**FIXED, **case.options, **changes}
    results = train_seeds(case, cache, options, parts=parts, seeds=seeds)
    accuracies = [100 * result["test_accuracy"] for result in results]
    mean = statistics.mean(accuracies)
    return {
        "case": name,
        "published": case.published,
        "mean": mean,
        "deviation": statistics.stdev(accuracies) if seeds > 1 else 0.0,
        "accuracies": accuracies,
        "validation": statistics.mean(100 * result["val_accuracy"] for result in results),
        "epochs": statistics.mean(result["epochs"] for result in results),
        "seconds": time.perf_counter() - started,
        "ranks": parts,
        "splits": seeds if case.varies_split else 1,
        "options": options,
        "reached": mean >= case.published - case.margin,
    }


def main() -> int:
    """Returns 1 if some mean is too far below what was published."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror", help="where to take the graphs from")
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--seeds", type=int, default=10, help="at most 10 where each has a split of its own")
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--options", type=json.loads, default={}, help="the trainer's for all runs, as a JSON object")
    parser.add_argument(
        "--choose",
        type=int,
        default=0,
        metavar="N",
        help="choose options of random splits by the first N in validation",
    )
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    rows = []
    caches = Path(tempfile.mkdtemp())
    for name in arguments.cases:
        case = CASES[name]
        place = ["--effort", "fast", "--out", str(caches / case.dataset)]
        scaled = ["--scale-features", "rows"] if case.scales else []
        cache = cache_of(case.dataset, arguments.parts, arguments.mirror, *scaled, *place)
        changes = arguments.options
        if arguments.choose and case.varies_split:
            changes = {**choose(name, cache, parts=arguments.parts, seeds=arguments.choose), **changes}
        row = run(name, cache, parts=arguments.parts, seeds=arguments.seeds, changes=changes)
        rows.append(row)
        print(
            f"{name:18} {row['mean']:.2f} +- {row['deviation']:.2f} % over {len(row['accuracies'])} seeds, published "
            f"{row['published']:.1f} %, {row['validation']:.2f} % in validation, {row['epochs']:.0f} epochs, "
            f"{row['seconds']:.0f} s",
            flush=True,
        )
        if arguments.out:
            keep(rows, arguments.out)
    shutil.rmtree(caches)
    return int(not all(row["reached"] for row in rows))


def keep(rows: list[dict[str, Any]], file: Path) -> None:
    """Write the rows, and those of other cases that the file has, in the order of the cases."""
    found = {row["case"]: row for row in (json.loads(file.read_text()) if file.exists() else [])}
    found |= {row["case"]: row for row in rows}
    file.write_text(json.dumps([found[name] for name in CASES if name in found], indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
