"""Partitions for the links, beside what there is: all that users see of every method on every graph and topology.

METIS k-way in its own order is the measure: the median of its seeds. The other baselines are mapped to the ranks by our
exact or local mapping, or by their own (Mt-KaHyPar's Steiner trees, Scotch). For each there are the bottleneck, the
halo rows, the cut, the most memory of a rank, the predicted step and the time, and bottleneck and step with relays.
A peer is balanced if it keeps the limits on nodes and in-edges.

Prints a table as it goes, writes JSON with --out after every case, so that a run that is cut short is not lost.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks import graphs
from benchmarks.partitioning import scotch_mapping
from graphprep.core import csr
from graphprep.core.types import Csr
from graphprep.errors import PartitionError
from graphprep.partition.candidates import CANDIDATES, assign
from graphprep.partition.evaluation import evaluate_assignment
from graphprep.partition.refine.legs import links_of
from graphprep.partition.refine.mapping import best_mapping
from graphprep.partition.request import PartitionRequest
from graphprep.partition.search import partition
from graphprep.partition.typed_graph import WholeGraph
from graphprep.system import progress
from graphprep.topology import Topology, resolve
from graphprep.traffic import LinkModel, assess_with_relays

Made = TypeVar("Made")
TOPOLOGIES = {
    "2x2x2": "name: 2x2x2\nmachines:\n  - {count: 2, gpus: 4, nvlink: {gbytes_per_s: 50, pairs: [[0, 1], [2, 3]]}, "
    "pcie: {gbytes_per_s: 16, gpus_per_switch: 2}, network: {gbytes_per_s: 12.5, latency_us: 10}}\n",
    "dgx-1": "",
    "uneven-nics": "name: uneven-nics\nmachines:\n"
    + "".join(
        "  - {count: 1, gpus: 2, pcie: {gbytes_per_s: 16, gpus_per_switch: 2}, "
        f"network: {{gbytes_per_s: {rate}, latency_us: 10}}}}\n"
        for rate in (12.5, 12.5, 3.1, 1.25)
    ),
    "3-2-1": "name: 3-2-1\nmachines:\n"
    + "".join(
        f"  - {{count: 1, gpus: {gpus}, pcie: {{gbytes_per_s: 16, gpus_per_switch: {gpus}}}, "
        "network: {gbytes_per_s: 12.5, latency_us: 10}}\n"
        for gpus in (3, 2, 1)
    ),
    "ring-6": "name: ring-6\nranks:\n"
    + "".join(f"  - {{name: gpu{rank}, machine: m{rank}}}\n" for rank in range(6))
    + "switches: [nic0, nic1, nic2, nic3, nic4, nic5]\nlinks:\n"
    + "".join(
        f"  - {{ends: [gpu{rank}, nic{rank}], type: pcie, gbytes_per_s: 16, latency_us: 3}}\n"
        f"  - {{ends: [nic{rank}, nic{(rank + 1) % 6}], type: network, gbytes_per_s: 12.5, latency_us: 10}}\n"
        for rank in range(6)
    ),
    "two-racks": "name: two-racks\nranks:\n"
    + "".join(f"  - {{name: gpu{rank}, machine: m{rank // 2}}}\n" for rank in range(8))
    + "switches: [m0, m1, m2, m3, rack0, rack1]\nlinks:\n"
    + "".join(
        f"  - {{ends: [gpu{rank}, m{rank // 2}], type: pcie, gbytes_per_s: 16, latency_us: 3}}\n" for rank in range(8)
    )
    + "".join(
        f"  - {{ends: [m{machine}, rack{machine // 2}], type: network, gbytes_per_s: 12.5, latency_us: 10}}\n"
        for machine in range(4)
    )
    + "  - {ends: [rack0, rack1], type: uplink, gbytes_per_s: 6.25, latency_us: 10}\n",
    "4x8": "name: 4x8\nmachines:\n  - {count: 4, gpus: 8, nvlink: {gbytes_per_s: 150, switch: true}, "
    "pcie: {gbytes_per_s: 16, gpus_per_switch: 2}, network: {gbytes_per_s: 12.5, latency_us: 10}}\n",
}
GRAPHS = (*graphs.FETCHED, "ego-twitter", "wing", "mdual", *graphs.GENERATED)
BASELINES = ("metis", "metis-recursive", "metis-volume", "metis-balanced", "metis-hierarchical", "mtkahypar",
             "mtkahypar-steiner", "scotch")  # fmt: skip
OURS = ("default", "best")
IMBALANCE = 1.05
ROW_BYTES = 1024
SEEDS = 3
PATIENCE_S = 300.0
"""after which a baseline is recorded as absent, unless --patience says otherwise"""
FIGURES = ("bottleneck_ms", "halo_rows", "cut_edges", "memory_mb", "step_ms", "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One graph on one topology."""

    graph: str
    matrix: Csr
    clean: Csr
    topology: Topology
    patience_s: float = PATIENCE_S
    seeds: int = SEEDS

    @property
    def whole(self) -> WholeGraph:
        return WholeGraph.of_one_type(self.matrix)

    def figures(self, assignment: np.ndarray, seconds: float) -> dict[str, Any]:
        """What an assignment is worth."""
        request = PartitionRequest(imbalance=IMBALANCE, row_bytes=ROW_BYTES)
        result = evaluate_assignment(assignment, self.whole, self.topology, request)
        quality, whole = result.quality, self.whole
        relayed = assess_with_relays(
            quality,
            result.traffic,
            whole.matrices,
            whole.assignments(assignment),
            self.topology,
            row_bytes=ROW_BYTES,
        )
        num_parts = self.topology.num_ranks
        nodes_P = np.bincount(assignment, minlength=num_parts)
        edges_P = np.bincount(assignment, weights=np.diff(self.matrix.indptr), minlength=num_parts)
        slowest = max(quality.links, key=lambda link: link.seconds)
        return {
            "bottleneck_ms": quality.bottleneck_seconds * 1e3,
            "relayed_bottleneck_ms": relayed.bottleneck_seconds * 1e3,
            "sum_ms": quality.sum_seconds * 1e3,
            "step_ms": quality.step_seconds * 1e3,
            "relayed_step_ms": relayed.step_seconds * 1e3,
            "halo_rows": quality.halo_rows,
            "cut_edges": quality.cut_edges // 2,
            "memory_mb": max(rank.memory_bytes for rank in quality.ranks) / 1e6,
            "nodes": float(nodes_P.max() * num_parts / nodes_P.sum()),
            "in_edges": float(edges_P.max() * num_parts / edges_P.sum()),
            "slowest_type": slowest.type,
            "link_imbalance": next(kind.imbalance for kind in quality.link_types if kind.type == slowest.type),
            "seconds": seconds,
        }


def topology_of(name: str, folder: Path) -> Topology:
    """One of TOPOLOGIES."""
    if name == "dgx-1":
        return resolve("dgx-1-v100")
    file = folder / f"{name}.yaml"
    file.write_text(TOPOLOGIES[name])
    return resolve(str(file))


def mapped(case: Case, assignment: np.ndarray) -> np.ndarray:
    """The parts on the ranks that suit them."""
    request = PartitionRequest(row_bytes=ROW_BYTES)
    rows_PP = evaluate_assignment(assignment, case.whole, case.topology, request).traffic.rows_PP
    num_parts = case.topology.num_ranks
    links = links_of(LinkModel.of(case.topology), ROW_BYTES)
    placed: np.ndarray = best_mapping(rows_PP, links, np.full(num_parts, 1 / num_parts), seed=0)[assignment]
    return placed


def baseline(case: Case, name: str, seed: int, scratch: Path) -> np.ndarray:
    """One run of a method that is not ours, in its own order.

    Raises:
        PartitionError: it is not installed, or failed.
    """
    if name == "scotch":
        return scotch_mapping.map_onto(case.clean, case.topology, imbalance=IMBALANCE, time_limit_s=case.patience_s)
    parts_N: np.ndarray = assign(
        name,
        case.clean,
        shares_P=np.full(case.topology.num_ranks, 1 / case.topology.num_ranks),
        request=PartitionRequest(seed=seed, imbalance=1.03 if name == "metis" else IMBALANCE),
        scratch=scratch,
        in_degree_N=np.diff(case.matrix.indptr),
        topology=case.topology,
        time_limit_s=case.patience_s,
    )
    return parts_N


def timed(make: Callable[[], Made]) -> tuple[Made, float]:
    started = time.perf_counter()
    return make(), time.perf_counter() - started


def measured(case: Case, baselines: list[str], ours: list[str], scratch: Path) -> dict[str, Any]:
    """The figures of every way; a string where there are none."""
    runs = [timed(partial(baseline, case, "metis", seed, scratch)) for seed in range(case.seeds)]
    plain = sorted((case.figures(*run) for run in runs), key=lambda row: row["bottleneck_ms"])
    found: dict[str, Any] = {
        "metis k-way": {**plain[case.seeds // 2], "seconds": statistics.median(r[1] for r in runs)}
    }
    for name in baselines:
        reason = None if name == "scotch" else CANDIDATES[name].needs(case.topology.num_ranks, case.topology)
        try:
            if reason is not None:
                raise PartitionError(reason)
            assignment, seconds = timed(partial(baseline, case, name, 0, scratch))
        except PartitionError as problem:
            found[name] = str(problem)
            continue
        own_order = name in ("scotch", "mtkahypar-steiner")
        found[name] = case.figures(assignment if own_order else mapped(case, assignment), seconds)
    for effort in ours:
        request = PartitionRequest(effort=effort, imbalance=IMBALANCE, row_bytes=ROW_BYTES)
        result, seconds = timed(partial(partition, case.whole, case.topology, request, scratch=scratch))
        found[f"ours, {effort}"] = case.figures(result[0].assignment, seconds)
    return found


def keeps_limits(row: Any) -> bool:
    return isinstance(row, dict) and max(row["nodes"], row["in_edges"]) <= IMBALANCE * 1.002


def summary(cases: list[dict[str, Any]], ours: list[str]) -> dict[str, Any]:
    """Ratios to METIS k-way (geometric mean and worst), and against the best peer that keeps the limits."""
    found: dict[str, Any] = {}
    for effort in ours:
        rows = [(case["ways"]["metis k-way"], case["ways"][f"ours, {effort}"]) for case in cases]
        ratios = {name: [mine[name] / plain[name] for plain, mine in rows] for name in FIGURES}
        for name in ("bottleneck_ms", "step_ms"):
            ratios[f"relayed_{name}"] = [mine[f"relayed_{name}"] / plain[name] for plain, mine in rows]
        beaten, best = 0, []
        for case, (_, mine) in zip(cases, rows, strict=True):
            peers = [row for name, row in case["ways"].items() if "ours" not in name and keeps_limits(row)]
            beaten += all(mine["step_ms"] < row["step_ms"] for row in peers)
            best += [mine["bottleneck_ms"] / min(row["bottleneck_ms"] for row in peers)] if peers else []
        found[effort] = {
            "to metis k-way": {
                name: {"geometric mean": geometric(found), "worst": max(found)} for name, found in ratios.items()
            },
            "bottleneck to the best balanced peer": {
                "geometric mean": geometric(best),
                "worst": max(best, default=None),
            },
            "step below every balanced peer's": f"{beaten} of {len(cases)}",
            "more than 1.3 of the halo rows": {
                f"{case['graph']} on {case['topology']}": {"rows": more, "step": step}
                for case, more, step in zip(cases, ratios["halo_rows"], ratios["step_ms"], strict=True)
                if more > 1.3
            },
            "worst nodes": max(mine["nodes"] for _, mine in rows),
            "worst in_edges": max(mine["in_edges"] for _, mine in rows),
        }
    return found


def geometric(values: list[float]) -> float | None:
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def print_case(case: dict[str, Any]) -> None:
    print(f"{case['graph']} on {case['topology']}")
    plain = case["ways"]["metis k-way"]
    for name, row in case["ways"].items():
        if isinstance(row, str):
            print(f"  {name:20s} {row}")
            continue
        figures = "  ".join(f"{figure} {row[figure] / plain[figure]:.3f}" for figure in FIGURES)
        relayed = row["relayed_bottleneck_ms"] / plain["bottleneck_ms"]
        print(f"  {name:20s} {figures}  relayed {relayed:.3f}  in-edges {row['in_edges']:.3f}", flush=True)


def main() -> int:
    """Returns 0; what the figures mean is for people to say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), choices=[*GRAPHS, *graphs.FILES])
    parser.add_argument("--topologies", nargs="+", default=list(TOPOLOGIES), choices=TOPOLOGIES)
    parser.add_argument("--baselines", nargs="*", default=list(BASELINES), choices=BASELINES)
    parser.add_argument("--ours", nargs="*", default=list(OURS), choices=["fast", *OURS])
    parser.add_argument("--seeds", type=int, default=SEEDS, help="runs of METIS k-way, of which the median counts")
    parser.add_argument("--patience", type=float, default=PATIENCE_S, help="seconds for a baseline")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    progress.configure(quiet=True)
    cases: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for graph in arguments.graphs:
            matrix = graphs.load(graph)
            clean = csr.undirected_simple(matrix)
            for name in arguments.topologies:
                case = Case(
                    graph=graph,
                    matrix=matrix,
                    clean=clean,
                    topology=topology_of(name, Path(folder)),
                    patience_s=arguments.patience,
                    seeds=arguments.seeds,
                )
                ways = measured(case, arguments.baselines, arguments.ours, Path(folder))
                cases.append({"graph": graph, "topology": name, "ways": ways})
                print_case(cases[-1])
                if arguments.out:
                    found = {"cases": cases, "summary": summary(cases, arguments.ours)}
                    arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(summary(cases, arguments.ours), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
