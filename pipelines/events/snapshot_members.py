"""Divide the nodes among the ranks that share a group of snapshots: by METIS, or by the stream partitioner.

Both are tried, and rows of the halo are counted in the snapshots themselves. METIS partitions the graph of all pairs of
nodes, weighed by the number of snapshots in which they have an event, with the rows of the nodes in balance.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import Csr
from graphprep.errors import PartitionError
from graphprep.partition.methods.base import NodeLoad, PartitionProblem
from graphprep.partition.methods.metis import METIS_METHODS
from graphprep.partition.methods.subgraph import induced
from graphprep.system import memory, progress
from graphprep.temporal.events import EventSource
from graphprep.temporal.snapshot_members import (
    BYTES_OF_AN_EVENT,
    MemberNodes,
    assessed_members,
    fewest_halo_rows,
    pair_graph,
    rows_of_nodes,
)
from graphprep.temporal.stream_partition import NodeRanks
from graphprep.temporal.time_index import TimeIndex

LIMIT = 1.05
"""of the rows of a rank over the mean, for METIS"""


def divide_nodes(
    events: EventSource,
    index: TimeIndex,
    offsets_T: NDArray[np.int64],
    number: int,
    *,
    by_stream: Callable[[int], NodeRanks],
    tries_metis: bool,
    seed: int,
    scratch: Path,
    memory_limit: int | None,
) -> MemberNodes:
    """The nodes of each rank, by whichever method gives the fewest rows of the halo.

    Args:
        events: in the order of time.
        index: of the events.
        offsets_T: the first event of each window.
        number: ranks that share a group.
        by_stream: assigns nodes to so many ranks, as for training on events.
        tries_metis: whether METIS is to be tried.
        seed: of METIS.
        scratch: an existing folder for its files.
        memory_limit: bytes that this process may hold; None for half of what is free.
    """
    budget = memory.budget(memory_limit)
    rows_N = rows_of_nodes(index, offsets_T, entry_bytes=budget // 8)
    ranks = by_stream(number)
    candidates = [assessed_members(events, offsets_T, rows_N, ranks.rank_of_N, number, ranks.method)]
    if (
        tries_metis
        and (member_of_N := members_by_metis(events, offsets_T, rows_N, number, seed, scratch, budget)) is not None
    ):
        candidates.append(assessed_members(events, offsets_T, rows_N, member_of_N, number, "metis"))
    chosen = fewest_halo_rows(candidates)
    progress.say(
        f"{number} ranks share each group of snapshots: "
        + ", ".join(
            f"{one.method} gives {one.halo_rows:,} halo rows and {one.imbalance:.3f} of the mean rows"
            for one in candidates
        )
        + f"; {chosen.method} is used"
    )
    return chosen


def members_by_metis(
    events: EventSource,
    offsets_T: NDArray[np.int64],
    rows_N: NDArray[np.int64],
    number: int,
    seed: int,
    scratch: Path,
    budget: int,
) -> NDArray[np.int64] | None:
    """The rank of each node by METIS; None where it cannot be used, which is said.

    Args:
        events: in the order of time.
        offsets_T: the first event of each window.
        rows_N: in how many snapshots each node has a row.
        number: ranks that share a group.
        seed: of METIS.
        scratch: an existing folder for its files.
        budget: bytes that it may take.
    """
    plain, balanced = (
        next(method for method in METIS_METHODS if method.name == name) for name in ("metis", "metis-balanced")
    )
    needed = BYTES_OF_AN_EVENT * events.num_events + plain.expected_bytes(events.num_nodes, 2 * events.num_events)
    if needed > budget:
        progress.warn(
            f"METIS is not tried: it may need {progress.format_bytes(needed)} and {progress.format_bytes(budget)} may "
            "be used, so the stream partitioner divides the nodes of a group; give more --memory"
        )
        return None
    graph = pair_graph(events, offsets_T)
    has_neighbour_N = np.diff(graph.indptr) > 0
    inner = induced(graph.indptr, graph.indices, graph.data, has_neighbour_N)
    if len(inner.nodes) <= number:
        progress.warn(f"METIS is not tried: {len(inner.nodes)} nodes have events with others, for {number} ranks")
        return None
    method = plain if balanced.needs(number, None) else balanced
    problem = PartitionProblem(
        graph=Csr(indptr=inner.indptr, indices=inner.indices, num_sources=len(inner.nodes), data=inner.weights),
        shares_P=np.full(number, 1 / number),
        loads=(NodeLoad(what="rows of snapshots", amount_N=rows_N[inner.nodes], limit=LIMIT),),
        imbalance=LIMIT,
        seed=seed,
        scratch=scratch,
    )
    try:
        of_inner = method.partition(problem)
    except PartitionError as error:
        progress.warn(f"{error}; the stream partitioner divides the nodes among the ranks that share a group")
        return None
    for fallback in problem.fallbacks:
        progress.warn(fallback)
    member_of_N = np.zeros(events.num_nodes, np.int64)
    rest = np.flatnonzero(~has_neighbour_N)
    member_of_N[rest] = np.arange(len(rest)) % number
    member_of_N[inner.nodes] = of_inner
    return member_of_N
