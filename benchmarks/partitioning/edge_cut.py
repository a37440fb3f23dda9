"""The cut alone: on equal links without latency, with --minimise total --balance edges, beside METIS as it comes.

METIS is pymetis with its defaults at 3 % (recursive bisection up to 8 parts, k-way above), run here and now; beside it
are the figures of graphs/reference_cuts.json, the best that Mt-KaHyPar and KaHIP found among them. Limits are those of
METIS: nodes alone.

Prints a row a graph and number of parts, and writes JSON with --out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pymetis

from benchmarks import graphs
from graphprep.core.types import Csr
from graphprep.partition.request import PartitionRequest
from graphprep.partition.search import partition
from graphprep.partition.typed_graph import WholeGraph
from graphprep.system import progress
from graphprep.topology import Topology

IMBALANCE = 1.03
PARTS = (2, 4, 8, 16, 32, 64)


def equal_links(num_parts: int) -> Topology:
    """Ranks on one switch, whose links take no time for a message as such."""
    ranks = "".join(f"  - {{name: r{p}, machine: m}}\n" for p in range(num_parts))
    links = "".join(f"  - {{ends: [r{p}, s], type: pcie, gbytes_per_s: 10, latency_us: 0}}\n" for p in range(num_parts))
    return Topology.from_text(f"name: equal-{num_parts}\nranks:\n{ranks}switches: [s]\nlinks:\n{links}")


def metis_cut(matrix: Csr, num_parts: int) -> tuple[int, float]:
    """Undirected edges that pymetis cuts, and its seconds."""
    started = time.perf_counter()
    adjacency = pymetis.CSRAdjacency(matrix.indptr, matrix.indices.astype(np.int64))
    cut, _ = pymetis.part_graph(num_parts, adjacency=adjacency)
    return int(cut), time.perf_counter() - started


def measured(matrix: Csr, num_parts: int, effort: str, seed: int) -> dict[str, Any]:
    request = PartitionRequest(
        effort=effort, seed=seed, imbalance=IMBALANCE, balance="edges", minimise="total", limits=("nodes",)
    )
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        graph = WholeGraph.of_one_type(matrix)
        result, _ = partition(graph, equal_links(num_parts), request, scratch=Path(scratch))
    seconds = time.perf_counter() - started
    sizes_P = np.bincount(result.assignment, minlength=num_parts)
    return {
        "cut": result.quality.cut_edges // 2,
        "imbalance": float(sizes_P.max() / math.ceil(matrix.num_rows / num_parts) - 1),
        "method": result.method,
        "seconds": seconds,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+")
    parser.add_argument("--parts", nargs="+", type=int, default=list(PARTS))
    parser.add_argument("--effort", default="best", choices=["fast", "default", "best"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    data = os.environ.get("GRAPHPREP_TEST_DATA")
    if data is None:
        raise SystemExit("GRAPHPREP_TEST_DATA names no folder of graphs")
    reference = json.loads((Path(data) / "graphs" / "reference_cuts.json").read_text())["graphs"]
    progress.configure(quiet=True)
    rows = []
    for name in arguments.graphs or reference:
        matrix = graphs.load(name)
        for num_parts in arguments.parts:
            plain, plain_seconds = metis_cut(matrix, num_parts)
            ours = measured(matrix, num_parts, arguments.effort, arguments.seed)
            best = reference[name]["best_seen_3pct"].get(str(num_parts))
            known = reference[name]["pymetis"][str(num_parts)]["cut"]
            rows.append(
                {
                    "graph": name,
                    "parts": num_parts,
                    "metis": plain,
                    "metis_reference": known,
                    "best_seen": best,
                    "metis_seconds": plain_seconds,
                    "ours": ours,
                }
            )
            print(
                f"{name:10}{num_parts:4}  METIS {plain:7} ({known:7})  "
                f"ours {ours['cut']:7} {ours['cut'] / plain:6.3f}  "
                f"best seen {'-' if best is None else f'{best / plain:.3f}':>5}  imbalance {ours['imbalance']:.4f}  "
                f"{ours['seconds']:6.1f} s",
                flush=True,
            )
            if arguments.out:
                arguments.out.write_text(json.dumps({"rows": rows, **summary(rows)}, indent=1) + "\n")
    print(json.dumps(summary(rows), indent=1))
    return 0


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Geometric mean and worst case against METIS of this run and of the reference."""
    found = {}
    for against in ("metis", "metis_reference"):
        ratios = [row["ours"]["cut"] / row[against] for row in rows]
        found[f"to {against}"] = {"geometric mean": statistics.geometric_mean(ratios), "worst": max(ratios)}
    return found


if __name__ == "__main__":
    sys.exit(main())
