"""METIS: k-way and recursive, by cut and by volume, within limits on several loads, and along the topology.

pymetis balances the number of nodes alone. On power-law graphs the heaviest part then has several times its share of
edges, so METIS's own mode for several constraints is called past pymetis.

Karypis, Kumar: A fast and high quality multilevel scheme for partitioning irregular graphs, SIAM J. Sci. Comput. 1998;
Multilevel algorithms for multi-constraint graph partitioning, SC 1998.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import PartitionError
from graphprep.partition.methods import integer_weights, metis_ctypes, subprocess_job
from graphprep.partition.methods.base import PartitionProblem
from graphprep.topology import Topology
from graphprep.topology.groups import rank_groups
from graphprep.topology.rank_groups import RankGroup, levels

FIXED_BYTES, BYTES_PER_NODE, BYTES_PER_EDGE = 40_000_000, 150, 130
"""Memory of the child process, at least what was measured on R-MAT, block-model and grid graphs of 2 to 16 million
directed edges. All kinds of runs are within a tenth of each other; on grids they take half of it."""
MOST_CONSTRAINTS = 6
"""With more, METIS finds no partition that keeps any of them; refinement enforces the rest."""
MOST_LIMIT = 10.0
"""of what may be uneven"""
PROCESS = "graphprep.partition.methods.metis_worker"


def expected_bytes(num_nodes: int, num_edges: int) -> int:
    """Memory that METIS will need for a clean graph of this size."""
    return FIXED_BYTES + BYTES_PER_EDGE * num_edges + BYTES_PER_NODE * num_nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainMetis:
    """One constraint: the number of nodes."""

    name: str
    title: str
    recursive: bool = False
    volume: bool = False
    """Minimise the rows that are sent, not the edges that are cut; 2 to 85 times slower on power-law graphs."""
    limit_s: float | None = None
    """Seconds that it may take on any graph, and ..."""
    limit_s_per_edge: float = 0.0
    """... seconds more for each directed edge."""

    def needs(self, num_parts: int, topology: Topology | None) -> str | None:  # noqa: ARG002
        """None: it is always available."""
        return None

    def expected_bytes(self, num_nodes: int, num_edges: int) -> int:
        return expected_bytes(num_nodes, num_edges)

    def partition(self, problem: PartitionProblem) -> NDArray[np.int32]:
        """See `Method`."""
        limit = None if self.limit_s is None else self.limit_s + self.limit_s_per_edge * problem.graph.num_edges
        with subprocess_job.job(problem, title=self.title, module=PROCESS, time_limit_s=limit) as job:
            _add_graph(job, problem)
            request = {
                "recursive": self.recursive,
                "volume": self.volume,
                "equal": problem.equal_shares,
                "ufactor": max(1, round((problem.imbalance - 1) * 1000)),
                "limits": None,
            }
            return job.run(_shared(problem) | request, problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancedMetis:
    """A constraint for each load that has a limit, up to MOST_CONSTRAINTS of them."""

    name: str
    title: str
    along_topology: bool = False
    """Divide among groups of ranks first, the slowest links' first of all."""

    def needs(self, num_parts: int, topology: Topology | None) -> str | None:  # noqa: ARG002
        """METIS's own interface, and for a hierarchy a topology with one."""
        reason = metis_ctypes.missing()
        if reason or not self.along_topology:
            return reason
        if topology is None:
            return "it follows a topology, and there is none"
        if levels(rank_groups(topology)) < 2:
            return "all links of the topology are alike, so there are no slow ones to cut first"
        return None

    def expected_bytes(self, num_nodes: int, num_edges: int) -> int:
        return expected_bytes(num_nodes, num_edges)

    def partition(self, problem: PartitionProblem) -> NDArray[np.int32]:
        """See `Method`; a topology of one level is partitioned directly."""
        groups: RankGroup | None = None
        if self.along_topology:
            if problem.topology is None:
                raise PartitionError(f"{self.title} follows a topology, and there is none")
            groups = rank_groups(problem.topology)
        reason = metis_ctypes.missing()
        if reason:
            raise PartitionError(f"{self.title} is not available: {reason}")
        with subprocess_job.job(problem, title=self.title, module=PROCESS, time_limit_s=None) as job:
            _add_graph(job, problem)
            limited = [load for load in problem.loads if math.isfinite(load.limit)]
            loads = tuple(limited or problem.loads)[:MOST_CONSTRAINTS]
            job.add_array("node_weights", integer_weights.node_weights(loads, problem.shares_P), np.int64)
            request = {"limits": [min(load.limit, MOST_LIMIT) for load in loads], "groups": groups}
            return job.run(_shared(problem) | request, problem)


def _shared(problem: PartitionProblem) -> dict[str, Any]:
    return {"shares": problem.shares_P.tolist(), "seed": problem.seed}


def _add_graph(job: subprocess_job.Job, problem: PartitionProblem) -> None:
    job.add_array("xadj", problem.graph.indptr, np.int64)
    job.add_array("adjncy", problem.graph.indices, np.int64)
    weights = integer_weights.edge_weights(problem.graph.data)
    if weights is not None:
        job.add_array("edge_weights", weights, np.int64)


METIS_METHODS = (
    PlainMetis(name="metis", title="METIS k-way"),
    PlainMetis(name="metis-recursive", title="METIS recursive bisection", recursive=True),
    PlainMetis(name="metis-volume", title="METIS by volume", volume=True, limit_s=30.0, limit_s_per_edge=1e-5),
    BalancedMetis(name="metis-balanced", title="METIS with several constraints"),
    BalancedMetis(name="metis-hierarchical", title="METIS along the topology", along_topology=True),
)
