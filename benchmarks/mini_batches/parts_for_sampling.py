"""Rows that mini-batches fetch with parts made for them (--for sampling), beside parts for the full graph.

1,024 training nodes a step, 15 and 10 neighbours, rows of 400 bytes; a block model of 200,000 nodes and 4 million
directed edges and an R-MAT graph of 262,144 and as many; training nodes are drawn evenly among nodes with neighbours.
Rows are expected ones, by visit probabilities, and those of drawn batches: `STEPS` steps of the sampler. Seconds are of
partitioning. Prints a table, writes JSON with --out.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import graphs
from benchmarks.mini_batches.remote_rows import BATCH_SIZE, FANOUTS, input_nodes, sampler_of
from graphprep.core.types import Csr
from graphprep.partition.request import PartitionRequest
from graphprep.partition.search import partition
from graphprep.partition.typed_graph import WholeGraph
from graphprep.sampling.schedule import Schedule
from graphprep.topology import Topology, resolve
from graphprep.traffic import BatchShape, batch_figures

STEPS = 10
ROW_BYTES = 400
SHAPE = BatchShape(fanouts=FANOUTS, batch_size=BATCH_SIZE)


def drawn_rows(matrix: Csr, part_N: NDArray[np.int32], train: NDArray[np.int64], num_parts: int) -> float:
    """Rows that the ranks together fetch in a step, the mean of STEPS."""
    schedule = Schedule(num_seeds=len(train), batch_size=BATCH_SIZE, seed=0, shuffle=True)
    sampler = sampler_of(matrix)
    steps = [(epoch, places) for epoch in range(STEPS) for places in schedule.batches(epoch)][:STEPS]
    rows = 0
    for epoch, places in steps:
        for part in range(num_parts):
            seeds = train[places][part_N[train[places]] == part]
            rows += int((part_N[input_nodes(sampler, seeds, epoch)] != part).sum())
    return rows / len(steps)


def measured(matrix: Csr, train: NDArray[np.int64], topology: Topology, purpose: str, effort: str) -> dict[str, Any]:
    """The parts for a purpose."""
    train_N = np.zeros(matrix.num_rows, np.bool_)
    train_N[train] = True
    graph = WholeGraph.of_one_type(matrix, train_N)
    request = PartitionRequest(
        purpose=purpose, fanouts=FANOUTS, batch_size=BATCH_SIZE, effort=effort, row_bytes=ROW_BYTES
    )
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        result, _ = partition(graph, topology, request, scratch=Path(scratch))
    seconds = time.perf_counter() - started
    figures = batch_figures(
        graph.matrices,
        graph.assignments(result.assignment),
        graph.training_masks,
        topology,
        SHAPE,
        row_bytes=ROW_BYTES,
    )
    quality = result.quality
    return {
        "for": purpose,
        "rows_expected": figures.rows,
        "rows_drawn": drawn_rows(matrix, result.assignment, train, topology.num_ranks),
        "rows_by_link_type": {each.type: each.rows for each in figures.link_types},
        "bottleneck_seconds": figures.bottleneck_seconds,
        "largest_seeds_over_mean": max(rank.seeds for rank in figures.ranks) * topology.num_ranks / BATCH_SIZE,
        "cut_edges": quality.cut_edges,
        "halo_rows": quality.halo_rows,
        "memory_bytes": max(rank.memory_bytes for rank in quality.ranks),
        "seconds": seconds,
    }


def main() -> int:
    """Returns 1 if parts for sampling fetch more rows than others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topology", default="2x2-10gbe")
    parser.add_argument("--effort", default="fast", choices=["fast", "default", "best"])
    parser.add_argument("--train-shares", type=float, nargs="+", default=[0.01, 0.1])
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    topology, table, is_right = resolve(arguments.topology), [], True
    for name in ("hierarchical-sbm", "rmat"):
        matrix = graphs.load(name)
        for share in arguments.train_shares:
            has_neighbours = np.flatnonzero(np.diff(matrix.indptr))
            count = int(share * matrix.num_rows)
            train = np.sort(np.random.default_rng(1).choice(has_neighbours, count, replace=False))
            pair = [
                measured(matrix, train, topology, purpose, arguments.effort) for purpose in ("full-graph", "sampling")
            ]
            for row in pair:
                table.append({"graph": name, "train_share": share, "topology": topology.name, **row})
                print(
                    f"{name:17} {share:4.0%} train, for {row['for']:10} {row['rows_expected']:8,.0f} rows a step "
                    f"({row['rows_drawn']:8,.0f} drawn), {1e3 * row['bottleneck_seconds']:.3f} ms on the slowest link, "
                    f"seeds {row['largest_seeds_over_mean']:.2f} of their mean, {row['halo_rows']:,} halo rows, "
                    f"{row['seconds']:.0f} s",
                    flush=True,
                )
            is_right &= pair[1]["rows_expected"] <= 1.001 * pair[0]["rows_expected"]
    if arguments.out:
        arguments.out.write_text(json.dumps(table, indent=1))
    return int(not is_right)


if __name__ == "__main__":
    sys.exit(main())
