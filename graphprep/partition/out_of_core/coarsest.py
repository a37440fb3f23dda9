"""The coarsest level: METIS partitions it with several constraints and along the topology; LDG if both fail.

Coarse nodes weigh as much as their nodes together, so only METIS's methods for weighted nodes apply. The objective is
the weight of edges, which approximates rows. The parts are mapped to ranks and refined in memory.

Letters: X nodes of the level, E directed edges, P parts, C limits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from graphprep.core.csr import index_dtype
from graphprep.core.types import Csr, Ids
from graphprep.errors import PartitionError
from graphprep.partition import small_components
from graphprep.partition.methods.base import PartitionProblem
from graphprep.partition.methods.baselines import ldg
from graphprep.partition.methods.metis import METIS_METHODS
from graphprep.partition.out_of_core.refinement import ByWeight
from graphprep.partition.refine import link_loads
from graphprep.partition.refine.hypergraph import Hypergraph
from graphprep.partition.refine.mapping import best_mapping
from graphprep.partition.refine.refine import EFFORTS, OBJECTIVES, Refinement
from graphprep.partition.refine.refine_kernels import Links
from graphprep.system import progress
from graphprep.system.threads import side_by_side

EFFORT = "fast"
"""of refinement. Edge weights only approximate rows: annealing by them doubles the cut, and gains less than the
finer levels do."""
METIS_NAMES = ("metis-balanced", "metis-hierarchical")
REFINED_EDGES = 4_000_000
"""directed edges up to which the level is refined in memory; each is a net of its own, of some 180 bytes"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Division:
    """Settings of partitioning the coarsest level."""

    links: Links
    most_PC: NDArray[np.float64]
    effort: str
    minimise: str
    workers: int
    mapped: bool
    """whether parts may be mapped to other ranks"""


def divide(problem: PartitionProblem, weight_XC: NDArray[np.integer], division: Division) -> NDArray[np.int32]:
    """The best partition of METIS's methods, int32 [X]; LDG's if all of them fail.

    Args:
        problem: of the coarsest level; loads count what coarse nodes weigh.
        weight_XC: the loads that have limits.
        division: the settings.
    """
    graph = problem.graph
    if graph.num_rows <= problem.num_parts:
        return small_components.fill_empty_parts(
            np.arange(graph.num_rows, dtype=np.int32), problem.num_parts, np.diff(graph.indptr)
        )
    methods = [
        method
        for method in METIS_METHODS
        if method.name in METIS_NAMES and method.needs(problem.num_parts, problem.topology) is None
    ]
    tried = [partial(_run_metis, method, problem) for method in methods]
    found = [part_X for part_X in side_by_side(tried, workers=division.workers) if part_X is not None]
    if not found:
        if methods:
            problem.fallbacks.append("METIS could not divide the coarsest level")
        progress.warn("METIS could not partition the coarsest level; falling back to LDG, whose cut is larger")
        found = [ldg(graph, shares_P=problem.shares_P, seed=problem.seed, imbalance=problem.imbalance)]
    mapped_parts = [_map_to_ranks(part_X, problem, division) for part_X in found]
    if division.effort != "none" and graph.num_edges <= REFINED_EDGES:
        nets = edge_pairs(graph)
        mapped_parts = [_refine(nets, part_X, weight_XC, problem, division) for part_X in mapped_parts]
    costs = [_cost(part_X, graph, weight_XC, division) for part_X in mapped_parts]
    best = mapped_parts[min(range(len(mapped_parts)), key=costs.__getitem__)]
    return small_components.fill_empty_parts(best, problem.num_parts, np.diff(graph.indptr))


def edge_pairs(graph: Csr) -> Hypergraph:
    """Every directed edge of a symmetric graph as a net of one pin, as heavy as the edge."""
    num_edges, offsets = graph.num_edges, index_dtype(graph.num_edges)
    pin_ptr: Ids = np.arange(num_edges + 1, dtype=offsets)
    pins = np.asarray(graph.indices).astype(np.int32, copy=False)
    weight_M = np.ones(num_edges, np.int32) if graph.data is None else np.minimum(graph.data, 2**30).astype(np.int32)
    return Hypergraph(first_X=np.asarray(graph.indptr).astype(offsets), weight_M=weight_M, pin_ptr=pin_ptr, pins=pins)


def _run_metis(method: object, problem: PartitionProblem) -> NDArray[np.int32] | None:
    """METIS's parts with small components placed; None where METIS failed."""
    amounts_DN = np.stack([load.amount_N for load in problem.loads])
    small = small_components.find_small(problem.graph, amounts_DN, problem.shares_P)
    core = small_components.core_graph(problem.graph, small)
    if core.num_rows <= problem.num_parts:
        return None
    loads = tuple(replace(load, amount_N=load.amount_N[small.core_N]) for load in problem.loads)
    try:
        part = method.partition(replace(problem, graph=core, loads=loads))  # type: ignore[attr-defined]
    except PartitionError as error:
        progress.warn(str(error))
        return None
    return small_components.place_small(part, small, amounts_DN, problem.shares_P)


def _map_to_ranks(part_X: NDArray[np.int32], problem: PartitionProblem, division: Division) -> NDArray[np.int32]:
    """Assign each part to the rank that minimises the objective."""
    if not division.mapped or division.effort == "none":
        return part_X
    rank_P = best_mapping(
        _sent(part_X, problem.graph, problem.num_parts),
        division.links,
        problem.shares_P,
        seed=problem.seed,
        by_total=division.minimise == "total",
    )
    return rank_P[part_X]


def _refine(
    nets: Hypergraph,
    part_X: NDArray[np.int32],
    weight_XC: NDArray[np.integer],
    problem: PartitionProblem,
    division: Division,
) -> NDArray[np.int32]:
    with progress.task("refining the coarsest level", unit="visits") as shown:
        refinement = Refinement(
            division.links,
            division.most_PC,
            effort=EFFORTS[EFFORT],
            objective=OBJECTIVES[division.minimise],
            seed=problem.seed,
            advance=shown.advance,
        )
        return refinement.run(nets, part_X, weight_XC.astype(np.float64))


def _sent(part_X: NDArray[np.int32], graph: Csr, num_parts: int) -> NDArray[np.int64]:
    """What part p sends to part q, by the weights of edges."""
    return ByWeight(graph=graph, ranges=[(0, graph.num_rows)]).count(part_X, num_parts)


def _cost(
    part_X: NDArray[np.int32], graph: Csr, weight_XC: NDArray[np.integer], division: Division
) -> tuple[float, ...]:
    """Sort key, lower is better."""
    limits = link_loads.limits_of(part_X, weight_XC, division.most_PC)
    link_loads.set_loads(division.links, _sent(part_X, graph, len(division.most_PC)))
    seconds = (link_loads.slowest(division.links), float(division.links.load_D.sum()))
    return (link_loads.excess(limits), *(seconds[::-1] if division.minimise == "total" else seconds))
