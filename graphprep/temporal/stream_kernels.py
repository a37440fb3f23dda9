"""The numba loops of the stream partitioner. None checks its input; `stream_partition` does.

Letters: N nodes, P ranks, B buckets of time, m events of a piece, k entries of some nodes in the time index.
"""

from __future__ import annotations

import numpy as np
from numba import njit

SLACK = 8.0
"""ends of events by which a rank may always be ahead of the mean, so that the first events can go anywhere"""


@njit(cache=True, nogil=True)
def _best_rank(near_P, load_P, nodes_P, most_nodes, imbalance, current):  # type: ignore[no-untyped-def]
    """The rank for a node: most of its recent partners, less where there is much load; -1 where no rank has room.

    Args:
        near_P: its recent events with nodes of each rank.
        current: its rank, which counts as having room; -1 if it has none.
    """
    mean = load_P.sum() / len(load_P)
    capacity = imbalance * mean + SLACK
    best, best_score = -1, -1.0
    for rank in range(len(load_P)):
        if rank != current and (nodes_P[rank] >= most_nodes or load_P[rank] >= capacity):
            continue
        score = near_P[rank] * max(0.0, 1.0 - load_P[rank] / capacity)
        if best < 0 or score > best_score or (score == best_score and load_P[rank] < load_P[best]):
            best, best_score = rank, score
    return best


@njit(cache=True, nogil=True)
def _place(node, near_NP, load_P, nodes_P, most_nodes, imbalance, rank_of_N):  # type: ignore[no-untyped-def]
    """Give a node of an event its rank, or another one."""
    current = rank_of_N[node]
    best = _best_rank(near_NP[node], load_P, nodes_P, most_nodes, imbalance, current)
    if best < 0:  # all ranks with room for nodes are loaded
        for rank in range(len(load_P)):
            if nodes_P[rank] < most_nodes and (best < 0 or load_P[rank] < load_P[best]):
                best = rank
    if best == current:
        return
    if current >= 0:
        nodes_P[current] -= 1
    nodes_P[best] += 1
    rank_of_N[node] = best


@njit(cache=True, nogil=True)
def assign_stream(  # type: ignore[no-untyped-def]
    source_m,
    destination_m,
    time_m,
    half_life,
    most_nodes,
    imbalance,
    last_time,
    near_NP,
    seen_N,
    load_P,
    nodes_P,
    rank_of_N,
):
    """Give nodes their ranks as their events come.

    A node goes where its recent partners are, unless the recent load of that rank is too high; it may change its rank
    at each of its events. Partners and loads are halved every `half_life`.

    Args:
        last_time: of the event before.
        near_NP: recent events of each node with nodes of each rank, as of `seen_N`.
        seen_N: the time of the node's last event.
        load_P: ends of recent events on each rank, as of `last_time`.
        nodes_P: nodes on each rank.
        rank_of_N: the rank of each node, -1 for none yet.

    Returns:
        The time of the last event.
    """
    for i in range(len(source_m)):
        now = np.float64(time_m[i])
        load_P *= 0.5 ** ((now - last_time) / half_life)
        last_time = now
        a, b = source_m[i], destination_m[i]
        near_NP[a] *= 0.5 ** ((now - seen_N[a]) / half_life)
        seen_N[a] = now
        near_NP[b] *= 0.5 ** ((now - seen_N[b]) / half_life)
        seen_N[b] = now
        if rank_of_N[b] >= 0 and a != b:
            near_NP[a, rank_of_N[b]] += 1.0
        _place(a, near_NP, load_P, nodes_P, most_nodes, imbalance, rank_of_N)
        if a != b:
            near_NP[b, rank_of_N[a]] += 1.0
            _place(b, near_NP, load_P, nodes_P, most_nodes, imbalance, rank_of_N)
        load_P[rank_of_N[a]] += 1.0
        load_P[rank_of_N[b]] += 1.0
    return last_time


@njit(cache=True, nogil=True)
def count_loads(source_m, destination_m, first_event, num_events, rank_of_N, load_BP):  # type: ignore[no-untyped-def]
    """Add the ends of some events to the load of their ranks in their buckets; returns how many cross ranks."""
    crossing = 0
    for i in range(len(source_m)):
        bucket = (first_event + i) * len(load_BP) // num_events
        one, other = rank_of_N[source_m[i]], rank_of_N[destination_m[i]]
        load_BP[bucket, one] += 1
        load_BP[bucket, other] += 1
        crossing += one != other
    return crossing


@njit(cache=True, nogil=True)
def refine_nodes(  # type: ignore[no-untyped-def]
    low, offsets_N, event_k, neighbour_k, num_events, capacity_B, weight, most_nodes, load_BP, nodes_P, rank_of_N
):
    """Move nodes to ranks where fewer of their events cross and less load is above the capacity of a bucket.

    Args:
        low: the first node of these entries.
        offsets_N: where the entries of these nodes begin, and where the last ones end.
        capacity_B: load of a rank in a bucket that is not too much.
        weight: of an end above the capacity, in crossing events.

    Returns:
        How many nodes moved.
    """
    num_ranks, num_buckets, moved = len(nodes_P), len(load_BP), 0
    partners_P = np.zeros(num_ranks, np.int64)
    ends_B = np.zeros(num_buckets, np.int64)
    active_b = np.empty(num_buckets, np.int64)
    for node in range(low, low + len(offsets_N) - 1):
        start, stop = offsets_N[node - low] - offsets_N[0], offsets_N[node - low + 1] - offsets_N[0]
        if start == stop:
            continue
        partners_P[:] = 0
        num_active = 0
        for k in range(start, stop):
            if neighbour_k[k] != node:
                partners_P[rank_of_N[neighbour_k[k]]] += 1
            bucket = event_k[k] * num_buckets // num_events
            if ends_B[bucket] == 0:
                active_b[num_active] = bucket
                num_active += 1
            ends_B[bucket] += 1
        current = rank_of_N[node]
        relief = 0.0
        for i in range(num_active):
            b = active_b[i]
            above = load_BP[b, current] - capacity_B[b]
            relief += max(0.0, above) - max(0.0, above - ends_B[b])
        best, best_gain = current, 1e-9
        for rank in range(num_ranks):
            if rank == current or nodes_P[rank] >= most_nodes:
                continue
            gain = np.float64(partners_P[rank] - partners_P[current])
            if gain + weight * relief <= best_gain:
                continue
            burden = 0.0
            for i in range(num_active):
                b = active_b[i]
                above = load_BP[b, rank] - capacity_B[b]
                burden += max(0.0, above + ends_B[b]) - max(0.0, above)
            gain += weight * (relief - burden)
            if gain > best_gain:
                best, best_gain = rank, gain
        for i in range(num_active):
            b = active_b[i]
            if best != current:
                load_BP[b, current] -= ends_B[b]
                load_BP[b, best] += ends_B[b]
            ends_B[b] = 0
        if best != current:
            nodes_P[current] -= 1
            nodes_P[best] += 1
            rank_of_N[node] = best
            moved += 1
    return moved


@njit(cache=True, nogil=True)
def count_active(source_m, destination_m, first_event, offsets_T, snapshot, stamp_N, nodes_T):  # type: ignore[no-untyped-def]
    """Count the different nodes of the events of each snapshot.

    Args:
        first_event: the number of the first of these events.
        snapshot: the one that the event before belongs to.
        stamp_N: the last snapshot in which each node was seen; -1 for none.

    Returns:
        The snapshot of the last event.
    """
    for i in range(len(source_m)):
        while first_event + i >= offsets_T[snapshot + 1]:
            snapshot += 1
        for node in (source_m[i], destination_m[i]):
            if stamp_N[node] != snapshot:
                stamp_N[node] = snapshot
                nodes_T[snapshot] += 1
    return snapshot
