"""Bytes of mini-batches by rows of features and by columns of them, and which of the two `--features-by auto` takes.

4 ranks on a hierarchical block model of 20,000 nodes and about 350,000 directed edges, a tenth of the nodes to train
on, parts by METIS or at random; a GCN of two layers, 1,024 training nodes a step with 15 and 10 neighbours, nothing
kept of other ranks. A run by auto is set beside one by the other way. Bytes are those that ranks recorded when they
sent them: features with the numbers of requested rows, or hidden rows with their gradients and the edges of layer 1.
What a run sends once, to share the columns out, is divided by its steps. Seconds are of a step, the median of the
ranks' means from the second epoch on; ranks, samplers and whatever else runs share the machine's cores.

Prints a table, writes JSON with --out. Returns 1 if auto takes the way of more bytes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from benchmarks.command import graphprep
from benchmarks.graphs import hierarchical_sbm
from benchmarks.rank_group import train_all

PARTS, BATCH_SIZE, FANOUTS = 4, 1024, "15,10"
TRAINING: dict[str, Any] = {"device": "cpu", "patience": 0, "eval_every": 1000, "dropout": 0.0}


def cache_of(method: str, nodes: int, features: int) -> Path:
    """A block model with so many features and a tenth of its nodes to train on, partitioned."""
    import graphprep as gp

    rng, name = np.random.default_rng(0), f"{method}-{features}"
    matrix = hierarchical_sbm(nodes, 10 * nodes, seed=0)
    order = rng.permutation(nodes)
    gp.from_scipy(
        csr_array((np.ones(matrix.num_edges, np.float32), matrix.indices, matrix.indptr), shape=(nodes, nodes)),
        x=rng.normal(size=(nodes, features)).astype(np.float32),
        y=rng.integers(0, 8, nodes),
        train_mask=order[: nodes // 10],
        val_mask=order[nodes // 10 : nodes // 5],
        test_mask=order[nodes // 5 :],
        name=name,
    )
    words = ["--parts", str(PARTS), "--method", method, "--effort", "fast", "-q", "--json"]
    return Path(json.loads(graphprep("partition", name, *words))["cache"])


def sent_for(result: dict[str, Any], purpose: str) -> int:
    """The bytes of one purpose, of all ranks."""
    return sum(row["bytes_sent"] for row in result["sent_for"] if row["purpose"] == purpose)


def step_bytes(result: dict[str, Any]) -> float:
    """The bytes of layer 1 that all ranks send in a step."""
    of_rows = sum(row["bytes_sent"] for row in result["exchanges"] if row["direction"] == "batches")
    return float(of_rows + sent_for(result, "who sends")) / num_steps(result)


def num_steps(result: dict[str, Any]) -> int:
    return int(result["mini_batches"]["steps_an_epoch"] * result["epochs"])


def step_seconds(result: dict[str, Any]) -> float:
    """Of the steps from the second epoch on."""
    facts = result["mini_batches"]
    steps = int(facts["steps_an_epoch"] * (result["epochs"] - 1))
    return float(statistics.median(facts["seconds_by_rank"])) / steps


def measured(method: str, nodes: int, features: int, hidden: list[int], epochs: int) -> list[dict[str, Any]]:
    """One row for each width of the hidden layer."""
    cache = cache_of(method, nodes, features)
    common = {**TRAINING, "batch_size": BATCH_SIZE, "fanouts": FANOUTS, "epochs": epochs}
    chosen = train_all(cache, PARTS, [{**common, "hidden": width, "features_by": "auto"} for width in hidden])
    ways = [result["mini_batches"]["features_by"] for result in chosen]
    others = [{"rows": "columns", "columns": "rows"}[way] for way in ways]
    forced = train_all(
        cache,
        PARTS,
        [{**common, "hidden": width, "features_by": way} for width, way in zip(hidden, others, strict=True)],
    )
    table = []
    for number, (width, way) in enumerate(zip(hidden, ways, strict=True)):
        pair = {way: chosen[number], others[number]: forced[number]}
        rows, columns = pair["rows"], pair["columns"]
        once = (sent_for(columns, "preparation") - sent_for(rows, "preparation")) / num_steps(columns)
        by_rows, by_columns = step_bytes(rows), step_bytes(columns)
        losses = [[line["loss"] for line in result["lines"]] for result in (rows, columns)]
        row = {
            "parts_by": method,
            "features": features,
            "hidden": width,
            "steps": num_steps(rows),
            "step_bytes_by_rows": by_rows,
            "step_bytes_by_columns": by_columns,
            "once_by_columns_a_step": once,
            "step_seconds_by_rows": step_seconds(rows),
            "step_seconds_by_columns": step_seconds(columns),
            "fewer": "columns" if by_columns + once < by_rows else "rows",
            "auto": way,
            "greatest_difference_of_losses": max(abs(a - b) / a for a, b in zip(*losses, strict=True)),
        }
        table.append(row)
        print(
            f"{method:6} {features:5} features, {width:4} hidden: {by_rows / 1e6:8.2f} MB a step by rows, "
            f"{by_columns / 1e6:8.2f} by columns (and {once / 1e6:.2f} to share them out), "
            f"{row['step_seconds_by_rows']:.3f} and {row['step_seconds_by_columns']:.3f} s; "
            f"fewer by {row['fewer']}, auto takes {row['auto']}",
            flush=True,
        )
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["metis", "random"])
    parser.add_argument("--features", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--hidden", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    table = []
    with tempfile.TemporaryDirectory() as home:
        os.environ["GRAPHPREP_HOME"] = home
        for method, features in itertools.product(arguments.methods, arguments.features):
            table += measured(method, arguments.nodes, features, arguments.hidden, arguments.epochs)
            if arguments.out:
                arguments.out.write_text(json.dumps(table, indent=1))
    return int(any(row["auto"] != row["fewer"] for row in table))


if __name__ == "__main__":
    sys.exit(main())
