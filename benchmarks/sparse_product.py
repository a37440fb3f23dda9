"""The sparse product A X on a CPU: torch's kernels and the trainer's choice, beside a copy of the same bytes.

First the kernels, on a hierarchical block model of 200,000 nodes and 4 million directed edges, whose nodes are in
random order or in the order that `graphprep partition` gives to a part. `MKL` is torch.mm of a CSR tensor, `reduce`
torch.sparse.mm(..., reduce="sum"), `former` the one of both that the trainer used to take (MKL below 64 columns), and
`trainer` what it takes now. GB/s are of the bytes that a product has to move at least: every row of X read once, every
row of the result written once, 8 bytes an edge. `copy` moves as many bytes by Tensor.copy_, half of them read and half
written. All take turns, in one process on --threads threads; medians.

Then the trainer: seconds of the local and halo products an epoch, over both ranks of one thread each, with the former
kernels and with those of now, by turns, for GCN and GraphSAGE with 2 layers of 256 on 2 parts of a block model of the
same size. An epoch is the difference of two runs of unequal length, divided by the epochs between them.

Prints tables, writes JSON with --out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks import graphs
from benchmarks.command import graphprep
from benchmarks.rank_group import train_all
from graphprep.core import csr
from graphprep.core.types import Csr
from graphprep.partition.ordering.order import locality_order
from trainer.base.freed_memory import keep_freed_memory
from trainer.sparse import adjacency
from trainer.sparse.row_sums import csr_product, csr_reduction, weighted_row_sums

FORMER_WIDE = 64
"""Columns from which on the trainer took `reduce`, before it took embedding_bag."""
RANDOM_SEED = 20_000
"""apart from the generator's, whose shuffle must not be undone"""
MODELS = ("gcn", "sage")
SHORT, LONG = 2, 6
TRAINING: dict[str, Any] = {"hidden": 256, "patience": 0, "eval_every": 1000, "dropout": 0.5, "input_dropout": 0.5}
Edges = tuple[Tensor, Tensor, Tensor]


def former_sums(indptr: Tensor, indices: Tensor, weights: Tensor | None, rows: Tensor) -> Tensor:
    """The sums as the trainer computed them before it took embedding_bag."""
    rows = rows.detach().float()
    if not len(indices) or not rows.shape[1]:
        return rows.new_zeros(len(indptr) - 1, rows.shape[1])
    return (csr_product if rows.shape[1] < FORMER_WIDE else csr_reduction)(indptr, indices, weights, rows)


KERNELS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "MKL": csr_product,
    "reduce": csr_reduction,
    "former": former_sums,
    "trainer": weighted_row_sums,
}


def ordered_edges(nodes: int, edges: int) -> dict[str, Edges]:
    """`indptr`, `indices` and weights of a block model, by the order of its nodes."""
    graph = csr.undirected_simple(graphs.hierarchical_sbm(nodes, edges, seed=0))
    [local_N] = locality_order(graph, np.zeros(graph.num_rows, np.int32), 1)
    random_N = np.random.default_rng(RANDOM_SEED).permutation(graph.num_rows)
    return {"random": _renumbered(graph, random_N), "local": _renumbered(graph, local_N)}


def _renumbered(graph: Csr, nodes_N: np.ndarray) -> Edges:
    place_N = np.empty(graph.num_rows, np.int64)
    place_N[nodes_N] = np.arange(graph.num_rows)
    row_E = np.repeat(place_N, np.diff(graph.indptr))
    column_E = place_N[graph.indices]
    order_E = np.lexsort((column_E, row_E))
    indptr = np.concatenate([[0], np.bincount(row_E, minlength=graph.num_rows).cumsum()]).astype(np.int32)
    degree_N = torch.from_numpy(np.diff(indptr)).float()
    weights = (1 / degree_N.clamp(min=1)).repeat_interleave(torch.from_numpy(np.diff(indptr)))
    return torch.from_numpy(indptr), torch.from_numpy(column_E[order_E].astype(np.int32)), weights


def measure_kernels(edges: dict[str, Edges], columns: list[int], repeats: int) -> list[dict[str, Any]]:
    """A row of the table for each number of columns, order and kernel."""
    table: list[dict[str, Any]] = []
    for width in columns:
        for order, (indptr, indices, weights) in edges.items():
            rows = torch.rand(len(indptr) - 1, width)
            num_bytes = 2 * rows.nbytes + indices.nbytes + weights.nbytes
            source, target = torch.rand(num_bytes // 8), torch.empty(num_bytes // 8)
            ways: dict[str, Callable[[], object]] = {
                name: partial(kernel, indptr, indices, weights, rows) for name, kernel in KERNELS.items()
            }
            ways["copy"] = partial(target.copy_, source)
            milliseconds = by_turns(ways, repeats)
            found = {
                name: {
                    "ms": value,
                    "gb_per_second": num_bytes / value / 1e6,
                    "share_of_copy": milliseconds["copy"] / value,
                    "share_of_former": value / milliseconds["former"],
                }
                for name, value in milliseconds.items()
            }
            table += [{"columns": width, "order": order, "kernel": name, **row} for name, row in found.items()]
            words, now = "  ".join(f"{name} {value:6.1f}" for name, value in milliseconds.items()), found["trainer"]
            print(
                f"{width:4} columns, {order:6} order, ms: {words}  | trainer {now['gb_per_second']:5.1f} GB/s, "
                f"{now['share_of_copy']:.2f} of copy, {now['share_of_former']:.2f} of former",
                flush=True,
            )
    return table


def by_turns(ways: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Milliseconds of each, the median of `repeats` turns after one that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats + 1):
        for name, run in ways.items():
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    return {name: 1e3 * statistics.median(every[1:]) for name, every in seconds.items()}


def measure_training(nodes: int, edges: int, repeats: int) -> list[dict[str, Any]]:
    """A row of the table for each model: the seconds an epoch of all products of both ranks."""
    size = ["--nodes", str(nodes), "--edges", str(edges), "--features", "128", "--classes", "16"]
    name = f"sbm-product-{nodes}-{edges}"
    graphprep("generate", "sbm", "--name", name, *size, "-q")
    cache = Path(json.loads(graphprep("partition", name, "--parts", "2", "-q", "--json"))["cache"])
    table = []
    for model in MODELS:
        formerly, of_now = list[float](), list[float]()
        for _ in range(repeats):
            for prepare, epoch_seconds in ((use_former_sums, formerly), (None, of_now)):
                short, long = (_product_seconds(cache, model, epochs, prepare) for epochs in (SHORT, LONG))
                epoch_seconds.append((long - short) / (LONG - SHORT))
        former, now = statistics.median(formerly), statistics.median(of_now)
        table.append({"model": model, "former_seconds": former, "seconds": now, "share_of_former": now / former})
        print(f"{model}: products {former:.3f} s an epoch formerly, {now:.3f} s now, {now / former:.2f}", flush=True)
    return table


def _product_seconds(cache: Path, model: str, epochs: int, prepare: Callable[[], None] | None) -> float:
    """The seconds of local and halo products of a run, over its ranks."""
    [run] = train_all(cache, 2, [{**TRAINING, "model": model, "epochs": epochs}], prepare=prepare)
    return float(sum(rank[name] for rank in run["seconds_by_rank"] for name in ("local product", "halo product")))


def use_former_sums() -> None:
    """Have the trainer of this process compute sums as it did before."""
    setattr(adjacency, "weighted_row_sums", former_sums)  # noqa: B010 # mypy forbids the assignment


def main() -> int:
    """Returns 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--edges", type=int, default=2_000_000, help="undirected")
    parser.add_argument("--columns", type=int, nargs="*", default=[2, 4, 8, 16, 32, 64, 128, 256])
    parser.add_argument("--repeats", type=int, default=9, help="turns of the kernels")
    parser.add_argument("--runs", type=int, default=3, help="turns of training; 0 for the kernels alone")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()  # as the trainer does
    document: dict[str, Any] = {"threads": arguments.threads, "torch": torch.__version__, "kernels": [], "training": []}
    if arguments.columns:
        edges = ordered_edges(arguments.nodes, arguments.edges)
        document["kernels"] = measure_kernels(edges, arguments.columns, arguments.repeats)
    if arguments.runs:
        document["training"] = measure_training(arguments.nodes, arguments.edges, arguments.runs)
    if arguments.out:
        arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    wide_local = [row for row in document["kernels"] if (row["columns"], row["order"]) == (128, "local")]
    return int(
        any(row["kernel"] == "trainer" and row["share_of_copy"] < 0.5 for row in wide_local)
        or any(row["share_of_former"] > 0.5 for row in document["training"])
    )


if __name__ == "__main__":
    sys.exit(main())
