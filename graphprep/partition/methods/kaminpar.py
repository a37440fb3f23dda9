"""KaMinPar (optional): deep multilevel partitioning with k-way FM refinement, in a fifth of METIS's memory.

It balances the number of nodes alone. Several threads change its result, so it gets one.

Gottesbueren, Heuer, Sanders, Schulz, Seemaier: Deep multilevel graph partitioning, ESA 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from graphprep.core.csr import INT32_LIMIT
from graphprep.errors import PartitionError
from graphprep.partition.methods import integer_weights, subprocess_job
from graphprep.partition.methods.base import PartitionProblem
from graphprep.partition.methods.graph_files import write_parhip
from graphprep.topology import Topology

PROCESS = "graphprep.partition.methods.kaminpar_worker"
TITLE = "KaMinPar"
FIXED_BYTES, BYTES_PER_NODE, BYTES_PER_EDGE = 60_000_000, 150, 28
"""Memory of the child process, at least what was measured on graphs of 2 to 16 million directed edges."""
LIMIT_S, LIMIT_S_PER_EDGE = 60.0, 2e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class KaMinPar:
    """The `eco` preset, which includes FM; the default one cuts a third more on meshes than METIS does."""

    name: str = "kaminpar"

    def needs(self, num_parts: int, topology: Topology | None) -> str | None:  # noqa: ARG002
        """The package."""
        return None if find_spec("kaminpar") else "KaMinPar is not installed; pip install 'graphprep[kaminpar]'"

    def expected_bytes(self, num_nodes: int, num_edges: int) -> int:
        return FIXED_BYTES + BYTES_PER_NODE * num_nodes + BYTES_PER_EDGE * num_edges

    def partition(self, problem: PartitionProblem) -> NDArray[np.int32]:
        """See `Method`."""
        reason = self.needs(problem.num_parts, problem.topology)
        if reason:
            raise PartitionError(reason)
        graph = problem.graph
        if graph.num_edges >= INT32_LIMIT:
            raise PartitionError(f"{TITLE} takes fewer than 2^31 directed edges, and there are {graph.num_edges:,}")
        limit = LIMIT_S + LIMIT_S_PER_EDGE * graph.num_edges
        with subprocess_job.job(problem, title=TITLE, module=PROCESS, time_limit_s=limit) as job:
            write_parhip(job.folder / "graph.parhip", graph, integer_weights.edge_weights(graph.data))
            most_P = np.ceil(problem.shares_P * graph.num_rows * problem.imbalance)
            request = {
                "seed": problem.seed,
                "most_nodes": np.maximum(most_P, 1).astype(int).tolist(),
                "allowance": problem.imbalance - 1 if problem.equal_shares else None,
            }
            return job.run(request, problem)


KAMINPAR_METHODS = (KaMinPar(),)
