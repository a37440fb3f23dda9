"""Mt-KaHyPar (optional): by cut, by rows (connectivity), and mapped onto the topology (Steiner trees).

By rows, each node is a net of itself and its neighbours: the connectivity of all nets less one each is exactly what one
exchange sends. On a graph it is 30 to 40 times slower than by cut. Mapped, an edge between two ranks costs the link
seconds of their route, so that a mapping of parts to ranks comes with the parts.

It balances the number of nodes alone. Several threads change its result, so it gets one.

Gottesbueren, Heuer, Maas, Sanders, Schlag: Scalable high-quality hypergraph partitioning, ACM TALG 2024; Heuer: A
direct k-way hypergraph partitioning algorithm for optimizing the Steiner tree metric, ALENEX 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from graphprep.core.csr import INT32_LIMIT
from graphprep.errors import PartitionError
from graphprep.partition.methods import integer_weights, subprocess_job
from graphprep.partition.methods.base import PartitionProblem
from graphprep.partition.methods.graph_files import write_hmetis, write_metis
from graphprep.topology import Topology
from graphprep.topology.groups import pair_seconds

PROCESS = "graphprep.partition.methods.mtkahypar_worker"
MOST_RANKS = 64
"""Beyond about 100 it refuses to map; its table of distances grows with the square of the ranks."""
GREATEST_DISTANCE = 1000
FIXED_BYTES, BYTES_PER_NODE, BYTES_PER_EDGE = 60_000_000, 350, 80
"""Memory of the child process, at least what was measured on graphs of 2 to 16 million directed edges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MtKaHyPar:
    """One of its objectives, with its default preset."""

    name: str
    title: str
    objective: Literal["cut", "rows", "steiner"]
    limit_s: float = 60.0
    limit_s_per_edge: float = 2e-5
    """Seconds that it may take on any graph, and more for each directed edge."""

    def needs(self, num_parts: int, topology: Topology | None) -> str | None:
        """The package, and for a mapping a topology of not too many ranks."""
        if not find_spec("mtkahypar"):
            return "Mt-KaHyPar is not installed; pip install 'graphprep[mtkahypar]'"
        if self.objective == "steiner" and topology is None:
            return "it maps onto a topology, and there is none"
        if self.objective == "steiner" and num_parts > MOST_RANKS:
            return f"it maps onto at most {MOST_RANKS} ranks, and there are {num_parts}"
        return None

    def expected_bytes(self, num_nodes: int, num_edges: int) -> int:
        return FIXED_BYTES + BYTES_PER_NODE * num_nodes + BYTES_PER_EDGE * num_edges

    def partition(self, problem: PartitionProblem) -> NDArray[np.int32]:
        """See `Method`."""
        reason = self.needs(problem.num_parts, problem.topology)
        if reason:
            raise PartitionError(f"{self.title} is not available: {reason}")
        graph = problem.graph
        if graph.num_edges >= INT32_LIMIT:
            raise PartitionError(
                f"{self.title} takes fewer than 2^31 directed edges, and there are {graph.num_edges:,}"
            )
        limit = self.limit_s + self.limit_s_per_edge * graph.num_edges
        with subprocess_job.job(problem, title=self.title, module=PROCESS, time_limit_s=limit) as job:
            if self.objective == "rows":
                write_hmetis(job.folder / "graph", graph)
            else:
                write_metis(job.folder / "graph", graph, integer_weights.edge_weights(graph.data))
            return job.run(self._request(problem), problem)

    def _request(self, problem: PartitionProblem) -> dict[str, Any]:
        most_P = np.ceil(problem.shares_P * problem.graph.num_rows * problem.imbalance)
        mapped = self.objective == "steiner" and problem.topology is not None
        return {
            "objective": self.objective,
            "seed": problem.seed,
            "parts": problem.num_parts,
            "allowance": problem.imbalance - 1,
            "most_nodes": None if problem.equal_shares else np.maximum(most_P, 1).astype(int).tolist(),
            "distances": distances(problem.topology).tolist() if mapped and problem.topology else None,
        }


def distances(topology: Topology) -> NDArray[np.int64]:
    """int64 [P, P]: link seconds of a byte between two ranks, as whole numbers from 1 to GREATEST_DISTANCE."""
    seconds_PP = pair_seconds(topology)
    whole_PP: NDArray[np.int64] = np.rint(seconds_PP * (GREATEST_DISTANCE / seconds_PP.max())).astype(np.int64)
    return np.maximum(whole_PP, 1)


MTKAHYPAR_METHODS = (
    MtKaHyPar(name="mtkahypar", title="Mt-KaHyPar", objective="cut"),
    MtKaHyPar(name="mtkahypar-rows", title="Mt-KaHyPar by rows", objective="rows", limit_s_per_edge=1e-4),
    MtKaHyPar(name="mtkahypar-steiner", title="Mt-KaHyPar onto the topology", objective="steiner"),
)
