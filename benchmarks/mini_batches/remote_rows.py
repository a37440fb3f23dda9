"""Feature rows that mini-batches fetch from other ranks, by what a rank keeps of them (graphprep/sampling/row_cache).

4 parts by METIS, of a hierarchical block model of 200,000 nodes and 4 million directed edges, and of an R-MAT graph of
262,144 and as many. A step has 1,024 training nodes, those of all parts, and 15 and 10 neighbours in two hops; each
part draws for the training nodes that it has, and in each hop for all nodes so far. A cache holds alpha * N / 4 rows of
other parts, as in SALIENT++. "bound" is Belady's policy with the batches of all epochs known ahead: no plan fetches
fewer rows. "belady" knows those of two epochs ahead. Caches begin empty, and a row gets into one when a batch fetches
it. Figures are of all parts and epochs together. Prints a table, writes JSON with --out.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pymetis
from numpy.typing import NDArray

from benchmarks import graphs
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, Csr
from graphprep.sampling.graph import SamplingGraph
from graphprep.sampling.neighbour_source import WholeGraph
from graphprep.sampling.row_cache.belady import BeladyCache
from graphprep.sampling.row_cache.plan import RowCache, plan_batches
from graphprep.sampling.row_cache.policies import POLICIES, make_row_cache, scores_of
from graphprep.sampling.row_cache.scores import presampled_counts
from graphprep.sampling.samplers.neighbour import NeighbourSampler, SamplingOptions
from graphprep.sampling.schedule import Schedule

PARTS, FANOUTS, BATCH_SIZE = 4, (15, 10), 1024
Batches = list[NDArray[np.int64]]


def part_of_nodes(matrix: Csr) -> NDArray[np.int32]:
    """The part of each node, by METIS."""
    adjacency = pymetis.CSRAdjacency(matrix.indptr, matrix.indices.astype(np.int64))
    return np.array(pymetis.part_graph(PARTS, adjacency=adjacency)[1], np.int32)


def sampler_of(matrix: Csr) -> NeighbourSampler:
    """As the trainer draws."""
    graph = SamplingGraph(num_nodes={HOMOGENEOUS_NODE: matrix.num_rows}, edges={HOMOGENEOUS_EDGE: matrix})
    return NeighbourSampler(graph, SamplingOptions(fanouts=FANOUTS, every_node=True))


def input_nodes(sampler: NeighbourSampler, seeds: NDArray[np.int64], epoch: int) -> NDArray[np.int64]:
    """The nodes whose rows a batch of some seeds needs."""
    return sampler.sample({HOMOGENEOUS_NODE: seeds}, epoch=epoch).nodes[HOMOGENEOUS_NODE].ids_n


def remote_rows(matrix: Csr, part_N: NDArray[np.int32], train: NDArray[np.int64], epochs: int) -> list[list[Batches]]:
    """The remote rows of each batch: by part and epoch."""
    schedule = Schedule(num_seeds=len(train), batch_size=BATCH_SIZE, seed=0, shuffle=True)
    sampler = sampler_of(matrix)
    found: list[list[Batches]] = [[[] for _ in range(epochs)] for _ in range(PARTS)]
    for epoch in range(epochs):
        for places in schedule.batches(epoch):
            for part in range(PARTS):
                seeds = train[places][part_N[train[places]] == part]
                ids_n = input_nodes(sampler, seeds, epoch)
                found[part][epoch].append(ids_n[part_N[ids_n] != part])
    return found


def fetched(cache: RowCache, batches: Batches) -> int:
    """Rows that a cache does not have when a batch needs them."""
    return sum(plan.num_fetched for _, plan in plan_batches(cache, batches, lambda ids_n: ids_n))


def measured(name: str, matrix: Csr, train_share: float, epochs: int, alphas: Sequence[float]) -> list[dict[str, Any]]:
    """The rows of a table: one an alpha."""
    part_N = part_of_nodes(matrix)
    has_neighbours = np.flatnonzero(np.diff(matrix.indptr))
    count = int(train_share * matrix.num_rows)
    train = np.sort(np.random.default_rng(1).choice(has_neighbours, count, replace=False))
    by_part = remote_rows(matrix, part_N, train, epochs + 1)
    graph = SamplingGraph(num_nodes={HOMOGENEOUS_NODE: matrix.num_rows}, edges={HOMOGENEOUS_EDGE: matrix})
    scores: dict[tuple[str, int], NDArray[Any]] = {}
    for part, of_part in enumerate(by_part):
        probability_N = np.zeros(matrix.num_rows)
        probability_N[train[part_N[train] == part]] = min(1.0, BATCH_SIZE / len(train))
        counts = {HOMOGENEOUS_NODE: presampled_counts(matrix.num_rows, of_part[-1])}
        for policy in POLICIES:
            scores[policy, part] = scores_of(
                policy,
                WholeGraph(graph),
                fanouts={HOMOGENEOUS_EDGE: FANOUTS},
                seed_probability={HOMOGENEOUS_NODE: probability_N},
                presampled=partial(dict, counts),
            )[HOMOGENEOUS_NODE]
    used = [[batch for of_epoch in of_part[:-1] for batch in of_epoch] for of_part in by_part]
    an_epoch = len(by_part[0][0])
    needed = sum(len(ids_n) for batches in used for ids_n in batches)
    table = []
    for alpha in alphas:
        slots = int(alpha * matrix.num_rows / PARTS)
        rows = {}
        started = time.perf_counter()
        for policy in POLICIES:
            rows[policy] = sum(
                fetched(
                    make_row_cache(
                        policy,
                        slots,
                        score_N=scores[policy, part],
                        is_remote_N=part_N != part,
                        look_ahead=2 * an_epoch,
                    ),
                    used[part],
                )
                for part in range(PARTS)
            )
        seconds = time.perf_counter() - started
        rows["bound"] = sum(fetched(BeladyCache(matrix.num_rows, slots, len(mine)), mine) for mine in used)
        saved = {policy: needed - count for policy, count in rows.items()}
        table.append(
            {
                "graph": name,
                "train_share": train_share,
                "epochs": epochs,
                "batches_an_epoch": an_epoch,
                "alpha": alpha,
                "slots": slots,
                "rows_needed": needed,
                "rows_fetched": rows,
                "saved_by_belady_over_bound": saved["belady"] / saved["bound"],
                "saved_by_belady_over_vip": saved["belady"] / saved["vip"],
                "planning_seconds": seconds,
            }
        )
        shares = "  ".join(f"{policy} {100 * each / needed:5.1f} %" for policy, each in saved.items())
        print(
            f"{name:17} {train_share:4.0%} train  alpha {alpha:4.2f}  saved: {shares}  "
            f"{saved['belady'] / saved['vip']:.2f} x VIP",
            flush=True,
        )
    return table


def main() -> int:
    """Returns 1 if Belady's policy saves less than 0.95 of what its bound says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--train-shares", type=float, nargs="+", default=[0.1, 0.5])
    parser.add_argument("--alphas", type=float, nargs="+", default=[0.08, 0.12, 0.16, 0.32])
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    table = []
    for name in ("hierarchical-sbm", "rmat"):
        matrix = graphs.load(name)
        for share in arguments.train_shares:
            table += measured(name, matrix, share, arguments.epochs, arguments.alphas)
    if arguments.out:
        arguments.out.write_text(json.dumps(table, indent=1))
    return int(any(row["saved_by_belady_over_bound"] < 0.95 for row in table))


if __name__ == "__main__":
    sys.exit(main())
