"""The partitioner by passes over files: how good its parts are beside METIS, and what an edge costs as graphs grow.

    quality    every graph and topology of the partition benchmark: bottleneck and cut of `--method multilevel` by
               passes, in parts of METIS k-way in its own order (median of three seeds). Levels are forced:
               METIS gets at most --coarsest nodes. The parts of a second run, which minimises the sum of all edges on
               equal links within METIS's only limit, on nodes, say how good its cut is when the cut is what is asked
               for. KaMinPar, where it is installed, stands beside, its parts laid on the ranks that suit them
    scaling    generated block models of rising size, from the store to the finished cache under --memory, into 32
               parts for the 4x8 topology: seconds, nanoseconds an edge, peak memory of the process tree (RssAnon +
               RssShmem), and METIS's k-way and KaMinPar on those for which METIS would need no more than
               --metis-memory
    shares     generated block models, to the store by way of the disk, and from the store to parts in order: processor
               time by function of what an executor does, which `--dask` shares out, and of the rest, which stays with
               the process that was started; METIS gets at most --coarsest nodes

Prints as it goes, writes JSON with --out after every case.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import graphs
from benchmarks.measured import measured
from benchmarks.partitioning import quality as partition_quality
from benchmarks.partitioning.quality import (
    IMBALANCE,
    ROW_BYTES,
    SEEDS,
    Case,
    baseline,
    geometric,
    mapped,
    timed,
    topology_of,
)
from graphprep.core import csr
from graphprep.datasets.generators.requests import SbmRequest
from graphprep.partition.methods.metis import expected_bytes
from graphprep.partition.out_of_core.driver import order_out_of_core, partition_out_of_core
from graphprep.partition.out_of_core.levels import Settings
from graphprep.partition.out_of_core.mapped_graph import MappedGraph
from graphprep.partition.out_of_core.passes import Passes
from graphprep.partition.request import PartitionRequest
from graphprep.store.store import GraphStore
from graphprep.system import memory, progress
from graphprep.topology import Topology
from pipelines.generate import generate_graph

DEGREE = 20
WARM_UP = 4_000_000
"""directed edges of a graph whose figures do not count, since functions are compiled meanwhile"""
OTHERS = ("metis", "kaminpar")
PLAIN = ("--effort", "none", "--replace")
"""Options for their parts as they are."""


def by_passes(case: Case, topology: Topology, coarsest: int, folder: Path, **options: Any) -> np.ndarray:
    """The parts of the streamed partitioner."""
    graph = MappedGraph(whole=case.whole, into=case.matrix, out=case.matrix, clean=case.matrix)
    request = PartitionRequest(method="multilevel", imbalance=IMBALANCE, row_bytes=ROW_BYTES, **options)
    settings = Settings(coarsest_nodes=coarsest)
    return partition_out_of_core(
        graph, topology, request, scratch=folder, memory_limit=None, settings=settings
    ).assignment


def quality(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """The cases' figures."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for graph in arguments.graphs:
            matrix = graphs.load(graph)
            clean = csr.undirected_simple(matrix)
            for topology_name in arguments.topologies:
                topology = topology_of(topology_name, folder)
                case = Case(graph=graph, matrix=matrix, clean=clean, topology=topology)
                runs = [timed(partial(baseline, case, "metis", seed, folder)) for seed in range(SEEDS)]
                plain = sorted((case.figures(*run) for run in runs), key=lambda row: row["bottleneck_ms"])[SEEDS // 2]
                parts, seconds = timed(partial(by_passes, case, topology, arguments.coarsest, folder))
                mine = case.figures(parts, seconds)
                flat = Topology.flat(topology.num_ranks)
                cut = case.figures(
                    by_passes(
                        case,
                        flat,
                        arguments.coarsest,
                        folder,
                        balance="edges",
                        minimise="total",
                        limits=("nodes",),
                    ),
                    0.0,
                )
                rows.append(
                    {
                        "graph": graph,
                        "topology": topology_name,
                        "metis k-way": plain,
                        "by passes": mine,
                        **(beside(case, folder, plain) if find_spec("kaminpar") else {}),
                        "bottleneck": mine["bottleneck_ms"] / plain["bottleneck_ms"],
                        "cut": mine["cut_edges"] / plain["cut_edges"],
                        "cut when asked for": cut["cut_edges"] / plain["cut_edges"],
                    }
                )
                print(
                    f"{graph:18s} {topology_name:12s} bottleneck {rows[-1]['bottleneck']:.3f}   cut "
                    f"{rows[-1]['cut']:.3f}   cut when asked for {rows[-1]['cut when asked for']:.3f}   nodes "
                    f"{mine['nodes']:.3f} in-edges {mine['in_edges']:.3f} (METIS {plain['in_edges']:.2f})   "
                    f"{seconds:.1f} s, METIS {plain['seconds']:.1f} s"
                    + (
                        f"   KaMinPar bottleneck {rows[-1]['kaminpar, bottleneck']:.3f} cut "
                        f"{rows[-1]['kaminpar, cut']:.3f} {rows[-1]['kaminpar']['seconds']:.1f} s"
                        if "kaminpar" in rows[-1]
                        else ""
                    ),
                    flush=True,
                )
                write(arguments, {"quality": {"cases": rows, "geometric means": means(rows)}})
    print(json.dumps(means(rows)))
    return rows


def beside(case: Case, folder: Path, plain: dict[str, Any]) -> dict[str, Any]:
    """KaMinPar's figures, and in parts of METIS's."""
    parts, seconds = timed(partial(baseline, case, "kaminpar", 0, folder))
    found = case.figures(mapped(case, parts), seconds)
    return {
        "kaminpar": found,
        "kaminpar, bottleneck": found["bottleneck_ms"] / plain["bottleneck_ms"],
        "kaminpar, cut": found["cut_edges"] / plain["cut_edges"],
    }


def means(rows: list[dict[str, Any]]) -> dict[str, float | None]:
    """Geometric, of each ratio."""
    ratios = ("bottleneck", "cut", "cut when asked for", "kaminpar, bottleneck", "kaminpar, cut")
    return {name: geometric([row[name] for row in rows if name in row]) for name in ratios}


def scaling(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds and memory by size."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as home:
        topology = Path(home) / "4x8.yaml"
        topology.write_text(partition_quality.TOPOLOGIES["4x8"])
        for edges in arguments.edges:
            name = f"sbm{edges}"
            command = [sys.executable, "-m", "cli", "generate", "sbm", "--name", name, "--nodes", str(edges // DEGREE)]
            measured([*command, "--edges", str(edges // 2), "--memory", "2GB", "-q"], {"GRAPHPREP_HOME": home})
            command = [sys.executable, "-m", "cli", "partition", name, "--topology", str(topology), "--json"]
            command += ["--row-bytes", "1024"]
            run = measured([*command, "--method", "multilevel", "--memory", arguments.memory], {"GRAPHPREP_HOME": home})
            found = json.loads(run.output)
            row = {
                "directed_edges": edges,
                "seconds": run.seconds,
                "nanoseconds_an_edge": run.seconds / edges * 1e9,
                "peak_gb": run.peak_bytes / 1e9,
                "metis_would_need_gb": expected_bytes(edges // DEGREE, edges) / 1e9,
                "result": found,
            }
            if expected_bytes(edges // DEGREE, edges) <= memory.parse(arguments.metis_memory):
                for method in OTHERS if find_spec("kaminpar") else OTHERS[:1]:
                    other = measured([*command, "--method", method, *PLAIN], {"GRAPHPREP_HOME": home})
                    row[method] = {
                        "seconds": other.seconds,
                        "peak_gb": other.peak_bytes / 1e9,
                        "result": json.loads(other.output),
                    }
            rows.append(row)
            print(
                f"{edges:>13,} edges: {row['seconds']:7.1f} s, {row['nanoseconds_an_edge']:6.0f} ns an edge, peak "
                f"{row['peak_gb']:.2f} GB; METIS would need {row['metis_would_need_gb']:.1f} GB"
                + "".join(
                    f"; {method} took {row[method]['seconds']:.1f} s, {row[method]['peak_gb']:.2f} GB"
                    for method in OTHERS
                    if method in row
                ),
                flush=True,
            )
            write(arguments, {"scaling": rows})
    return rows


class Timed:
    """Does what other processes would do, one piece after another, and books the processor time of each function."""

    is_elsewhere = True

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def map(self, function: Callable[..., Any], pieces: Sequence[Any], *shared: object, needed: int) -> Iterator[Any]:  # noqa: ARG002
        name = function.__name__.lstrip("_")
        for piece in pieces:
            started = time.process_time()  # of all threads: sorting has some of its own
            found = function(piece, *shared)
            self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - started
            yield found


def shares(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Where the processor time goes: making the store by way of the disk, and from the store to parts in order."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        shares_of(WARM_UP, arguments, folder)  # compiles
        for edges in arguments.edges:
            rows.append({"directed_edges": edges, **shares_of(edges, arguments, folder)})
            print(json.dumps(rows[-1], indent=1), flush=True)
            write(arguments, {"shares": rows})
    return rows


def shares_of(edges: int, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Seconds of a graph of so many directed edges."""
    topology, limit = topology_of("4x8", folder), memory.parse(arguments.memory)
    name, place = f"sbm{edges}", folder / f"sbm{edges}.zarr"

    def convert(executor: Timed) -> GraphStore:
        request = SbmRequest(nodes=edges // DEGREE, edges=edges // 2)
        room = memory.resident() + 2 * memory.LEAST_BUDGET  # so that edges do not fit
        return generate_graph(request, name=name, out=place, replace=True, memory_limit=room, executor=executor).store

    def partition(store: GraphStore, executor: Timed) -> None:
        passes = Passes.of(executor, folder)
        graph = MappedGraph.of(store, folder, memory_limit=limit, passes=passes)
        found = partition_out_of_core(
            graph,
            topology,
            PartitionRequest(method="multilevel"),
            scratch=folder,
            memory_limit=limit,
            settings=Settings(coarsest_nodes=arguments.coarsest),
            passes=passes,
        )
        order_out_of_core(
            graph, found.assignment, topology.num_ranks, scratch=folder, memory_limit=limit, executor=executor
        )

    store, conversion = booked(convert)
    _, partitioning = booked(partial(partition, store))
    return {"conversion": conversion, "partitioning": partitioning}


def booked(work: Callable[[Timed], Any]) -> tuple[Any, dict[str, Any]]:
    """What came of work, and its processor time: by function of the executor, of METIS, and the rest."""
    executor, before = Timed(), os.times()
    found = work(executor)
    spent = os.times()
    shared = sum(executor.seconds.values())
    total = spent.user + spent.system - before.user - before.system
    metis = spent.children_user - before.children_user
    return found, {
        "executor_seconds": dict(sorted(executor.seconds.items(), key=lambda item: -item[1])),
        "rest_seconds": total - shared,
        "metis_seconds": metis,
        "executor_share": shared / (total + metis),
    }


def write(arguments: argparse.Namespace, found: dict[str, Any]) -> None:
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")


def main() -> int:
    """Returns 0; what the figures mean is for people to say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["quality", "scaling", "shares"])
    names = [*partition_quality.GRAPHS, *graphs.FILES]
    parser.add_argument("--graphs", nargs="+", default=list(partition_quality.GRAPHS), choices=names)
    topologies = partition_quality.TOPOLOGIES
    parser.add_argument("--topologies", nargs="+", default=list(topologies), choices=topologies)
    parser.add_argument("--coarsest", type=int, default=8000, help="nodes that METIS gets at most")
    parser.add_argument("--edges", nargs="+", type=int, default=[50_000_000, 400_000_000], help="directed, each size")
    parser.add_argument("--memory", default="4GB", help="of the partitioner")
    parser.add_argument("--metis-memory", default="8GB", help="METIS runs on graphs for which it needs no more")
    parser.add_argument("--folder", type=Path, help="where stores and scratch files lie")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    progress.configure(quiet=True)
    {"quality": quality, "scaling": scaling, "shares": shares}[arguments.what](arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
