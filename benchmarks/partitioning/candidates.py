"""Every partitioning candidate on one generated graph: seconds, memory of its process, cut, rows, balance, bottleneck.

Prints a table, writes JSON with --out. Scotch's mapping is listed too where its program is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measured import SECONDS_BETWEEN_LOOKS, held_by, tree
from benchmarks.partitioning import scotch_mapping
from graphprep.core import csr
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, Csr
from graphprep.datasets.generators import grid, rmat, sbm
from graphprep.datasets.generators.requests import GridRequest, RmatRequest, SbmRequest
from graphprep.errors import GraphprepError
from graphprep.partition.candidates import CANDIDATES, assign
from graphprep.partition.request import PartitionRequest
from graphprep.system import progress
from graphprep.topology import Topology, resolve
from graphprep.traffic import Quality, assess, speed_shares

SCOTCH = "scotch-mapping"
COLUMNS = ("seconds", "peak_mb", "expected_mb", "cut", "rows", "nodes", "in_edges", "bottleneck_ms")


def graph_of(arguments: argparse.Namespace, folder: Path) -> Csr:
    """The graph that the command line asks for."""
    common: dict[str, Any] = {"classes": 2, "features": 0, "seed": arguments.seed}
    if arguments.graph == "rmat":
        raw = rmat.generate(RmatRequest(scale=arguments.scale, edges=arguments.edges, **common), folder=folder)
    elif arguments.graph == "sbm":
        blocks = SbmRequest(nodes=arguments.nodes, edges=arguments.edges, branching=4, levels=3, **common)
        raw = sbm.generate(blocks, folder=folder)
    else:
        raw = grid.generate(GridRequest(sides=tuple(arguments.sides), **common), folder=folder)
    num_nodes = raw.nodes[HOMOGENEOUS_NODE].num_nodes
    matrix, _ = csr.from_edges(
        raw.edges[0].chunks(), num_rows=num_nodes, num_sources=num_nodes, treatment=raw.treatment, name="generated"
    )
    return matrix


@contextmanager
def watched_children() -> Iterator[list[int]]:
    """The greatest memory that all children of this process held together meanwhile: the one entry of the list."""
    peak, done, me = [0], threading.Event(), os.getpid()

    def look() -> None:
        while not done.wait(SECONDS_BETWEEN_LOOKS):
            peak[0] = max(peak[0], sum(map(held_by, tree(me)[1:])))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()


def measure(
    name: str, make: Callable[[], np.ndarray], expected_bytes: int, matrix: Csr, topology: Topology, imbalance: float
) -> dict[str, Any]:
    """One row of the table; where the candidate fails, the reason instead of figures."""
    started = time.perf_counter()
    try:
        with watched_children() as peak:
            assignment_N = make()
    except GraphprepError as error:
        return {"method": name, "seconds": time.perf_counter() - started, "absent": str(error)}
    seconds = time.perf_counter() - started
    quality: Quality = assess(
        {HOMOGENEOUS_EDGE: matrix}, {HOMOGENEOUS_NODE: assignment_N.astype(np.int32)}, topology, imbalance=imbalance
    )
    limits = {limit.what: limit for limit in quality.limits}
    return {
        "method": name,
        "seconds": seconds,
        "peak_mb": peak[0] / 1e6,
        "expected_mb": expected_bytes / 1e6,
        "cut": quality.cut_edges,
        "rows": quality.halo_rows,
        "nodes": limits["nodes"].value,
        "in_edges": limits["in-edges"].value,
        "bottleneck_ms": quality.bottleneck_seconds * 1e3,
        "keeps_limits": all(limit.met for limit in quality.limits),
    }


def as_text(row: dict[str, Any]) -> str:
    """A line of the table."""
    if "absent" in row:
        return f"{row['method']:20} absent: {row['absent']}"
    figures = [f"{row[name]:>13,}" if isinstance(row[name], int) else f"{row[name]:>13.3f}" for name in COLUMNS]
    return f"{row['method']:20}" + "".join(figures)


def main() -> int:
    """Returns 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", choices=("rmat", "sbm", "grid"), default="rmat")
    parser.add_argument("--scale", type=int, default=16, help="R-MAT has 2^SCALE nodes")
    parser.add_argument("--nodes", type=int, default=200_000, help="of the block model")
    parser.add_argument("--edges", type=int, default=1_000_000, help="undirected edges that are drawn")
    parser.add_argument("--sides", type=int, nargs="+", default=[80, 80, 80], help="of the grid")
    parser.add_argument("--topology", default="2x4", help="a preset or a file")
    parser.add_argument("--parts", type=int, help="as many ranks on one switch, instead of --topology")
    parser.add_argument("--imbalance", type=float, default=1.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time-limit", type=float, help="seconds a candidate, instead of its own limit")
    parser.add_argument("--methods", nargs="+", default=[*CANDIDATES, SCOTCH], choices=[*CANDIDATES, SCOTCH])
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    progress.configure(quiet=True)
    topology = Topology.flat(arguments.parts) if arguments.parts else resolve(arguments.topology)
    request = PartitionRequest(seed=arguments.seed, imbalance=arguments.imbalance)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        matrix = graph_of(arguments, Path(name))
        clean = csr.undirected_simple(matrix)
        in_degree_N = np.diff(matrix.indptr).astype(np.int64)
        print(f"{matrix.num_rows:,} nodes, {clean.num_edges:,} directed edges, {topology.name}")
        print(f"{'method':20}" + "".join(f"{column:>13}" for column in COLUMNS))

        def candidate(method: str) -> np.ndarray:
            return assign(
                method,
                clean,
                shares_P=speed_shares(topology),
                request=request,
                scratch=Path(name),
                in_degree_N=in_degree_N,
                topology=topology,
                time_limit_s=arguments.time_limit,
            )

        def scotch() -> np.ndarray:
            return scotch_mapping.map_onto(
                clean, topology, imbalance=arguments.imbalance, time_limit_s=arguments.time_limit
            )

        candidate("ldg")  # kernels are compiled before anything is timed
        for method in arguments.methods:
            known = method in CANDIDATES
            make = partial(candidate, method) if known else scotch
            expected = CANDIDATES[method].expected_bytes(clean.num_rows, clean.num_edges) if known else 0
            absent = CANDIDATES[method].needs(topology.num_ranks, topology) if known else None
            if absent:
                rows.append({"method": method, "absent": absent})
            else:
                rows.append(measure(method, make, expected, matrix, topology, arguments.imbalance))
            print(as_text(rows[-1]), flush=True)
    if arguments.out:
        facts = {key: value for key, value in vars(arguments).items() if key not in ("out", "methods")}
        facts |= {"nodes": matrix.num_rows, "directed_edges": clean.num_edges, "topology": topology.name}
        arguments.out.write_text(json.dumps({"case": facts, "candidates": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
