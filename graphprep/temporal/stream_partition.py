"""Give each node of a stream of events a rank, so that few events cross ranks and every rank has work at every time.

Two steps, both linear in the events. First the events are taken as they come, and a node goes where its recent partners
are unless the recent load of that rank is too high: linear deterministic greedy (Stanton and Kliot, KDD 2012) with
partners and loads that are halved every `half_life`, so that a rank which was busy long ago counts as free. Then some
passes over the nodes move each to the rank where fewer of its events cross, counting load above the capacity of each of
`BUCKETS` stretches of the stream (of equal numbers of events) as more crossing events.

Letters: M events, N nodes, P ranks, B buckets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import PartitionError
from graphprep.system import memory, progress
from graphprep.temporal.events import EventSource
from graphprep.temporal.format import DESTINATION, SOURCE, TIME
from graphprep.temporal.stream_kernels import assign_stream, count_loads, refine_nodes
from graphprep.temporal.time_index import TimeIndex

BUCKETS = 64
MOST_PASSES = 12
LEAST_MOVED = 1e-3
"""of the nodes; with fewer moves a pass is the last"""
CAPACITY_WEIGHT = 1.0
"""crossing events that an end above the capacity of a bucket is worth"""
HALF_LIVES = 20
"""in the span of the events, where none is given"""
ROOM_FOR_NODES = 1.2
"""a rank has at most so many times the mean number of nodes"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeRanks:
    """The rank of each node, and how good that is."""

    rank_of_N: NDArray[np.int16]
    crossing_events: int
    """whose ends are on different ranks"""
    load_BP: NDArray[np.int64]
    """ends of events of each rank in each bucket; an event has two"""
    method: str

    def quality(self) -> dict[str, Any]:
        """The figures for the root of a cache."""
        num_events = int(self.load_BP.sum()) // 2
        num_ranks = self.load_BP.shape[1]
        return {
            "method": self.method,
            "crossing_events": self.crossing_events,
            "crossing_share": self.crossing_events / max(1, num_events),
            "nodes": np.bincount(self.rank_of_N, minlength=num_ranks).tolist(),
            "event_ends": self.load_BP.sum(axis=0).tolist(),
            "event_ends_by_time": self.load_BP.tolist(),
            "imbalance": imbalance(self.load_BP.sum(axis=0, keepdims=True))[0],
            "imbalance_over_time": float(np.mean(imbalance(self.load_BP))),
            "imbalance_at_worst": max(imbalance(self.load_BP)),
        }


def imbalance(load_BP: NDArray[Any]) -> list[float]:
    """The largest load of a rank over the mean, in each bucket that has a load."""
    busy = load_BP[load_BP.sum(axis=1) > 0]
    return [float(row.max() / row.mean()) for row in busy]


def assign_nodes(
    events: EventSource,
    index: TimeIndex,
    num_parts: int,
    *,
    imbalance: float = 1.05,
    half_life: float | None = None,
    passes: int = MOST_PASSES,
    memory_limit: int | None = None,
) -> NodeRanks:
    """Give each node a rank.

    Args:
        events: in the order of time.
        index: of the events.
        num_parts: P.
        imbalance: the largest load of a rank in a bucket over the mean that is not too much.
        half_life: after which a partner and a load count half, in the unit of the times; None for a twentieth of the
            span.
        passes: over the nodes, at most.
        memory_limit: bytes that the process may hold; None for half of what is free.

    Raises:
        PartitionError: memory does not suffice for the partners of each node.
    """
    num_nodes, num_events = events.num_nodes, events.num_events
    needed, budget = num_nodes * num_parts * 4, memory.budget(memory_limit)
    if needed > budget:
        raise PartitionError(
            f"the stream partitioner holds the partners of {num_nodes:,} nodes on {num_parts} ranks, "
            f"{progress.format_bytes(needed)} where {progress.format_bytes(budget)} may be used; give fewer --parts, "
            "more --memory, or --method random"
        )
    times = events.arrays[TIME]
    span = float(times[-1]) - float(times[0]) if num_events else 0.0
    half_life = half_life or max(span / HALF_LIVES, np.finfo(np.float64).tiny)
    most_nodes = math.ceil(ROOM_FOR_NODES * num_nodes / num_parts)
    rank_of_N = np.full(num_nodes, -1, np.int16)
    nodes_P, load_P = np.zeros(num_parts, np.int64), np.zeros(num_parts)
    near_NP, seen_N = np.zeros((num_nodes, num_parts), np.float32), np.zeros(num_nodes)
    last_time = float(times[0]) if num_events else 0.0
    seen_N += last_time
    with progress.task("assigning nodes", total=num_events, unit="events") as task:
        for source_m, destination_m, time_m in zip(
            events.rows(SOURCE), events.rows(DESTINATION), events.rows(TIME), strict=True
        ):
            last_time = assign_stream(
                *(source_m, destination_m, time_m, half_life, most_nodes, imbalance, last_time),
                *(near_NP, seen_N, load_P, nodes_P, rank_of_N),
            )
            task.advance(len(time_m))
    del near_NP, seen_N
    _place_idle_nodes(rank_of_N, nodes_P)
    load_BP, _ = loads(events, rank_of_N, num_parts)
    capacity_B = imbalance * load_BP.sum(axis=1) / num_parts
    with progress.task("moving nodes", unit="nodes") as task:
        for _ in range(passes if num_parts > 1 else 0):
            moved = 0
            for low, high in index.ranges(budget // 8):
                event_k, neighbour_k = index.entries(low, high)
                moved += refine_nodes(
                    *(low, index.offsets_N[low : high + 1], event_k, neighbour_k, num_events),
                    *(capacity_B, CAPACITY_WEIGHT, most_nodes, load_BP, nodes_P, rank_of_N),
                )
            task.advance(moved)
            if moved <= LEAST_MOVED * num_nodes:
                break
    return assessed(events, rank_of_N, num_parts, "stream")


def random_ranks(events: EventSource, num_parts: int, seed: int) -> NodeRanks:
    """Ranks that are drawn, as many nodes on each."""
    rank_of_N = np.random.default_rng(seed).permutation(np.arange(events.num_nodes) % num_parts)
    return assessed(events, rank_of_N.astype(np.int16), num_parts, "random")


def assessed(events: EventSource, rank_of_N: NDArray[np.int16], num_parts: int, method: str) -> NodeRanks:
    """Ranks with their figures."""
    load_BP, crossing = loads(events, rank_of_N, num_parts)
    return NodeRanks(rank_of_N=rank_of_N, crossing_events=crossing, load_BP=load_BP, method=method)


def loads(events: EventSource, rank_of_N: NDArray[np.int16], num_parts: int) -> tuple[NDArray[np.int64], int]:
    """Ends of events of each rank in each bucket [B, P], and how many events cross."""
    load_BP = np.zeros((max(1, min(BUCKETS, events.num_events)), num_parts), np.int64)
    crossing = first_event = 0
    for source_m, destination_m in zip(events.rows(SOURCE), events.rows(DESTINATION), strict=True):
        crossing += count_loads(source_m, destination_m, first_event, events.num_events, rank_of_N, load_BP)
        first_event += len(source_m)
    return load_BP, int(crossing)


def _place_idle_nodes(rank_of_N: NDArray[np.int16], nodes_P: NDArray[np.int64]) -> None:
    """Nodes without events go where there are the fewest nodes."""
    idle = np.flatnonzero(rank_of_N < 0)
    if not len(idle):
        return
    # Water filling: the level to which all ranks below it are filled.
    order = np.argsort(nodes_P, kind="stable")
    counts = nodes_P[order]
    for lowest in range(len(order), 0, -1):
        level, more = divmod(int(counts[:lowest].sum()) + len(idle), lowest)
        if lowest == 1 or counts[lowest - 1] <= level:
            break
    added = np.zeros(len(order), np.int64)
    added[:lowest] = level - counts[:lowest]
    added[:more] += 1
    rank_of_N[idle] = np.repeat(order, added)
    nodes_P[order] += added
