"""Edges drawn a second by graphprep's sampler on one thread, beside torch-sparse's or NumPy's on the same graph.

1,024 seeds and 15, 10 and 5 neighbours in three hops, on a hierarchical block model of 200,000 nodes and 4 million
directed edges and on an R-MAT graph of as many. Both sides draw without replacement and number the nodes of the batch.
The other side is torch-sparse where it is installed (`torch.ops.torch_sparse.neighbor_sample`, one thread), and
otherwise NumPy: a random key for every edge of the frontier, and the smallest ones of each row. Batches take turns
between the sides; medians are of batches. Prints a table, writes JSON with --out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import graphs
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, Csr
from graphprep.sampling.graph import SamplingGraph
from graphprep.sampling.samplers.neighbour import NeighbourSampler, SamplingOptions

FANOUTS = (15, 10, 5)
SEEDS = 1024
Draw = Callable[[NDArray[np.int64], int], int]
"""draws the neighbours of some seeds in an epoch; the number of edges"""


def graphprep_draws(matrix: Csr) -> Draw:
    """Ours."""
    graph = SamplingGraph(num_nodes={HOMOGENEOUS_NODE: matrix.num_rows}, edges={HOMOGENEOUS_EDGE: matrix})
    sampler = NeighbourSampler(graph, SamplingOptions(fanouts=FANOUTS))

    def draw(seeds: NDArray[np.int64], epoch: int) -> int:
        batch = sampler.sample({HOMOGENEOUS_NODE: seeds}, epoch=epoch)
        return len(batch.edges[HOMOGENEOUS_EDGE].number_E)

    return draw


def torch_sparse_draws(matrix: Csr) -> Draw:
    """torch-sparse's.

    Raises:
        ImportError: it is not installed.
    """
    import torch_sparse  # noqa: F401 - registers the operators

    offsets, columns = torch.from_numpy(matrix.indptr), torch.from_numpy(matrix.indices.astype(np.int64))

    def draw(seeds: NDArray[np.int64], epoch: int) -> int:
        torch.manual_seed(epoch)
        found = torch.ops.torch_sparse.neighbor_sample(
            offsets, columns, torch.from_numpy(seeds), list(FANOUTS), False, True
        )
        return len(found[3])

    return draw


def numpy_draws(matrix: Csr) -> Draw:
    """What one writes without a package for it."""

    def draw(seeds: NDArray[np.int64], epoch: int) -> int:
        rng = np.random.default_rng(epoch)
        frontier, known, edges = seeds, seeds, 0
        for fanout in FANOUTS:
            degree = np.diff(matrix.indptr)[frontier]
            row = np.repeat(np.arange(len(frontier)), degree)
            place = np.arange(len(row)) - np.repeat(np.cumsum(degree) - degree, degree)
            order = np.lexsort((rng.random(len(row)), row))
            chosen = order[place < fanout]
            source = matrix.indices[(np.repeat(matrix.indptr[frontier], degree) + place)[chosen]]
            frontier = np.setdiff1d(source, known)
            known = np.concatenate([known, frontier])
            np.searchsorted(np.sort(known), source)
            edges += len(chosen)
        return edges

    return draw


def other_side(matrix: Csr) -> tuple[str, Draw]:
    """torch-sparse if it is installed, else NumPy."""
    try:
        return "torch-sparse", torch_sparse_draws(matrix)
    except ImportError:
        return "NumPy", numpy_draws(matrix)


def main() -> int:
    """Returns 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=21)
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    table: list[dict[str, Any]] = []
    for name, nodes in (("hierarchical-sbm", 200_000), ("rmat", None)):
        matrix = graphs.hierarchical_sbm(nodes, 2_000_000, seed=0) if nodes else graphs.load(name)
        other, draw_other = other_side(matrix)
        sides = {"graphprep": graphprep_draws(matrix), other: draw_other}
        rng = np.random.default_rng(0)
        seconds: dict[str, list[float]] = {side: [] for side in sides}
        edges: dict[str, list[int]] = {side: [] for side in sides}
        for number in range(arguments.batches + 1):
            seeds = rng.choice(matrix.num_rows, SEEDS, replace=False)
            for side, draw in sides.items():
                started = time.perf_counter()
                count = draw(seeds, number)
                if number:  # the first one compiles
                    seconds[side].append(time.perf_counter() - started)
                    edges[side].append(count)
        median = {side: statistics.median(each) for side, each in seconds.items()}
        rates = {side: statistics.median(edges[side]) / median[side] for side in sides}
        table.append(
            {
                "graph": name,
                "edges": matrix.num_edges,
                "other": other,
                "milliseconds": {side: 1e3 * median[side] for side in sides},
                "edges_a_batch": {side: statistics.median(edges[side]) for side in sides},
                "edges_a_second": rates,
                "ratio": rates["graphprep"] / rates[other],
            }
        )
        for side in sides:
            print(
                f"{name:18} {side:13} {1e3 * median[side]:8.1f} ms a batch of {SEEDS:,} seeds, "
                f"{statistics.median(edges[side]):9,.0f} edges, {rates[side] / 1e6:6.2f} M edges/s",
                flush=True,
            )
        print(
            f"{name:18} graphprep draws {rates['graphprep'] / rates[other]:.1f} times as many edges a second as {other}"
        )
    if arguments.out:
        arguments.out.write_text(json.dumps(table, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
