"""All partitioning methods by name, and the steps around each: node loads, small components, empty parts.

Letters: N nodes, P parts, D loads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import Csr
from graphprep.errors import PartitionError
from graphprep.partition import small_components
from graphprep.partition.constraints import node_loads
from graphprep.partition.methods import baselines
from graphprep.partition.methods.base import Method, NodeLoad, PartitionProblem
from graphprep.partition.methods.kaminpar import KAMINPAR_METHODS
from graphprep.partition.methods.metis import METIS_METHODS
from graphprep.partition.methods.mtkahypar import MTKAHYPAR_METHODS
from graphprep.partition.out_of_core.method import MultilevelMethod
from graphprep.partition.request import PartitionRequest
from graphprep.topology import Topology

_METHODS: tuple[Method, ...] = (
    *METIS_METHODS,
    *MTKAHYPAR_METHODS,
    *KAMINPAR_METHODS,
    MultilevelMethod(),
    *baselines.BASELINES,
)
CANDIDATES: Mapping[str, Method] = {method.name: method for method in _METHODS}
"""Every method by the name that --method takes."""
MOST_IN_EDGES = 2.0**53
SEED_STEP, MOST_SEEDS = 101, 2**31
"""Step between the seeds of two runs of a method, and the modulus of seeds."""
MOST_CORE_LIMIT = 3.0
"""The limit of a core load is at most this, however large the small components are."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedGraph:
    """A graph prepared for any number of methods: loads counted, small components set aside."""

    problem: PartitionProblem
    """The problem of the core, without the small components."""
    small: small_components.SmallComponents
    amounts_DN: NDArray[np.int64]
    """int64 [D, N], of all nodes."""
    degree_N: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        clean: Csr,
        loads: tuple[NodeLoad, ...],
        *,
        shares_P: NDArray[np.float64],
        request: PartitionRequest,
        scratch: Path,
        topology: Topology | None = None,
        cancelled: Event | None = None,
    ) -> PreparedGraph:
        """`loads` are of all nodes; setting `cancelled` ends native libraries; the rest as for `assign`.

        Raises:
            PartitionError: the topology has another number of ranks.
        """
        if topology is not None and topology.num_ranks != len(shares_P):
            raise PartitionError(
                f"{len(shares_P)} parts do not match the {topology.num_ranks} ranks of {topology.name}"
            )
        amounts_DN = np.stack([load.amount_N for load in loads])
        small = small_components.find_small(clean, amounts_DN, shares_P)
        problem = PartitionProblem(
            graph=small_components.core_graph(clean, small),
            shares_P=shares_P,
            loads=tuple(_over_core(load, small.core_N) for load in loads),
            imbalance=request.imbalance,
            seed=request.seed,
            scratch=scratch,
            topology=topology,
            cancelled=cancelled,
        )
        return cls(problem=problem, small=small, amounts_DN=amounts_DN, degree_N=np.diff(clean.indptr))

    def assign(self, method: str, *, draw: int = 0, time_limit_s: float | None = None) -> NDArray[np.int32]:
        """See the function `assign`; each `draw` has its own seed, draw 0 that of the request."""
        num_parts = self.problem.num_parts
        if num_parts == 1:
            return np.zeros(len(self.degree_N), np.int32)
        # The libraries fail on fewer nodes than parts, and there is nothing to cut well either.
        few = self.problem.graph.num_rows <= num_parts
        chosen = CANDIDATES["ldg"] if few else CANDIDATES[method]
        seed = (self.problem.seed + SEED_STEP * draw) % MOST_SEEDS
        core_assignment = chosen.partition(replace(self.problem, seed=seed, time_limit_s=time_limit_s))
        assignment_N = small_components.place_small(core_assignment, self.small, self.amounts_DN, self.problem.shares_P)
        return small_components.fill_empty_parts(assignment_N, num_parts, self.degree_N)


def assign(
    method: str,
    clean: Csr,
    *,
    shares_P: NDArray[np.float64],
    request: PartitionRequest,
    scratch: Path,
    in_degree_N: NDArray[np.int64] | None = None,
    train_mask: NDArray[np.bool_] | None = None,
    topology: Topology | None = None,
    time_limit_s: float | None = None,
) -> NDArray[np.int32]:
    """Assign every node to a part; small components are placed to even out the loads.

    Args:
        method: a name in CANDIDATES.
        clean: square, symmetric, no self-loops, no duplicates; data counts directed edges.
        shares_P: the share of all loads that each part should get; sums to 1.
        request: seed and imbalance are used.
        scratch: an existing folder for temporary files.
        in_degree_N: int64 [N], in-edges of each node in the dataset's own graph; None for half of what `clean` counts.
        train_mask: bool [N], or None.
        topology: with one rank a part, for methods that use it.
        time_limit_s: seconds for a native library, instead of the method's own limit.

    Returns:
        int32 [N]; no part is empty as long as there are as many nodes as parts.

    Raises:
        PartitionError: the method is not available, or its library failed, timed out, or returned an invalid partition.
    """
    if in_degree_N is None:
        in_degree_N = _half_of_edge_counts(clean)
    prepared = PreparedGraph.of(
        clean,
        node_loads(in_degree_N, train_mask, imbalance=request.imbalance, limits=request.limits),
        shares_P=shares_P,
        request=request,
        scratch=scratch,
        topology=topology,
    )
    return prepared.assign(method, time_limit_s=time_limit_s)


def _half_of_edge_counts(clean: Csr) -> NDArray[np.int64]:
    """int64 [N]: in-edges of each node if as many enter as leave it, rounded up."""
    counts_E = np.ones(clean.num_edges) if clean.data is None else clean.data
    sums = np.concatenate([[0.0], np.cumsum(counts_E, dtype=np.float64)])[clean.indptr]
    scale = 2.0 if clean.data is not None else 1.0
    return np.minimum(np.ceil(np.diff(sums) / scale), MOST_IN_EDGES).astype(np.int64)


def _over_core(load: NodeLoad, core_N: NDArray[np.bool_]) -> NodeLoad:
    """The load of the core alone; its limit is larger, since small components fill the gaps later."""
    amount = load.amount_N[core_N]
    whole, core = float(load.amount_N.sum(dtype=np.float64)), float(amount.sum(dtype=np.float64))
    limit = min(load.limit * whole / core, MOST_CORE_LIMIT) if core else load.limit
    return NodeLoad(what=load.what, amount_N=amount, limit=max(limit, load.limit))
