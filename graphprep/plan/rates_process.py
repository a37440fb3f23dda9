"""Measure the rates of the operations of training, in one process a rank, all at the same time.

    python -m graphprep.plan.rates_process SAMPLE.npz RANKS

The sample holds `indptr`, `indices` and `num_columns` of a part of the graph, `widths` to sum over edges at, `products`
[., 2] of matrices to multiply rows by, `gradients` [., 2] of those to make the gradients of, and `masked` and `passed`,
the widths of rows. A line of JSON with the seconds of one edge, row, ... by width and rank is printed: the mean of
several repeats after one that warms up. A mean, since training on a busy machine is interrupted as these repeats are.
Ranks on CPUs are forks, so that torch is imported once; a GPU's driver does not survive a fork.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from graphprep.system.child_process import end_with_parent

WIDE = 4
"""Columns, from which the trainer sums by embedding_bag on a CPU."""
REGISTER_WIDTH = 16
SECONDS_EACH, LEAST_REPEATS = 0.4, 5
TABLE = 1 << 20
GATHERED = 1 << 19
"""Entries of masks, of which the trainer gathers so many at a time on a CPU."""


def measure(sample: dict[str, Any], rank: int) -> dict[str, Any]:
    """Seconds of one edge, row of a product, masked row and passed row, by width; each rank on a GPU of its own."""
    warnings.filterwarnings("ignore")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    device = torch.device("cuda", rank % gpus) if gpus else torch.device("cpu")
    num_rows, num_columns = len(sample["indptr"]) - 1, int(sample["num_columns"])
    num_edges = len(sample["indices"])
    matrix = torch.sparse_csr_tensor(
        torch.from_numpy(sample["indptr"]),
        torch.from_numpy(sample["indices"]),
        torch.ones(num_edges),
        size=(num_rows, num_columns),
    ).to(device)
    rates: dict[str, Any] = {"device": device.type, "threads": torch.get_num_threads()}
    rates |= {"name": "CPU", "memory_gb": None}
    if gpus:
        properties = torch.cuda.get_device_properties(device)
        rates |= {"name": properties.name, "memory_gb": round(properties.total_memory / 1e9, 1)}
    rates["edges"] = {str(w): _sum_over_edges(matrix, int(w), device) / max(1, num_edges) for w in sample["widths"]}
    rows = max(1, min(num_rows, 100_000))
    rates["products"] = {f"{a},{b}": _product(rows, int(a), int(b), device) / rows for a, b in sample["products"]}
    rates["gradients"] = {f"{a},{b}": _gradient(rows, int(a), int(b), device) / rows for a, b in sample["gradients"]}
    rates["masked"] = {str(w): _mask(rows, int(w), device) / rows for w in sample["masked"]}
    rates["passed"] = {str(w): _pass(rows, int(w), device) / rows for w in sample["passed"]}
    return rates


def _sum_over_edges(matrix: torch.Tensor, width: int, device: torch.device) -> float:
    rows = torch.rand(matrix.shape[1], width, device=device)
    if width < WIDE or device.type == "cuda":
        return _seconds(lambda: torch.mm(matrix, rows), device)
    edges = (matrix.col_indices(), matrix.crow_indices())
    weights = matrix.values()
    return _seconds(
        lambda: torch.embedding_bag(rows, *edges, per_sample_weights=weights, include_last_offset=True), device
    )


def _product(rows: int, a: int, b: int, device: torch.device) -> float:
    left, right = torch.rand(rows, a, device=device), torch.rand(a, b, device=device)
    return _seconds(lambda: left @ right, device)


def _gradient(rows: int, a: int, b: int, device: torch.device) -> float:
    """As the trainer multiplies: a narrow side that fills no register of a CPU comes first."""
    left, right = torch.rand(rows, a, device=device), torch.rand(rows, b, device=device)
    if b < a and b % REGISTER_WIDTH:
        left, right = right, left
    return _seconds(lambda: left.T @ right, device)


def _mask(rows: int, width: int, device: torch.device) -> float:
    """Gather windows of a table and multiply by them, a few rows at a time."""
    values, table = torch.rand(rows, width, device=device), torch.rand(TABLE + width, device=device)
    windows = table.as_strided((TABLE, width), (1, 1))
    starts = torch.randint(0, TABLE, (rows,), device=device)
    out, some = torch.empty_like(values), max(GATHERED // width, 1)

    def run() -> None:
        for begin in range(0, rows, some):
            here = slice(begin, begin + some)
            torch.mul(values[here], windows.index_select(0, starts[here]), out=out[here])

    return _seconds(run, device)


def _pass(rows: int, width: int, device: torch.device) -> float:
    values, other = torch.rand(rows, width, device=device), torch.rand(rows, width, device=device)
    return _seconds(lambda: values.add_(other), device)


def _seconds(run: Callable[[], object], device: torch.device) -> float:
    """The mean of several runs."""
    times: list[float] = []
    begun = time.perf_counter()
    while len(times) <= LEAST_REPEATS or (time.perf_counter() - begun < SECONDS_EACH and len(times) < 50):
        started = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - started)
    return statistics.fmean(times[1:])


def measure_side_by_side(sample: dict[str, Any], ranks: int) -> list[dict[str, Any]]:
    """What `measure` finds for each rank, in processes that end with this one."""
    may_fork = sys.platform == "linux" and torch.version.cuda is None and torch.version.hip is None
    processes = multiprocessing.get_context("fork" if may_fork else "spawn")
    with processes.Pool(ranks, initializer=partial(end_with_parent, started_otherwise=True)) as pool:
        return pool.map(partial(measure, sample), range(ranks), chunksize=1)


if __name__ == "__main__":
    end_with_parent()
    with np.load(sys.argv[1], allow_pickle=False) as arrays:
        print(json.dumps(measure_side_by_side(dict(arrays), int(sys.argv[2]))))
