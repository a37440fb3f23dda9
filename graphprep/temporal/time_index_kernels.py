"""The numba loops that gather the events of each node. None checks its input; `time_index` does."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def count_ends(source_m, destination_m, counts_N):  # type: ignore[no-untyped-def]
    """Add the ends of some events to the number of entries of each node."""
    for i in range(len(source_m)):
        counts_N[source_m[i]] += 1
        counts_N[destination_m[i]] += 1


@njit(cache=True, nogil=True)
def place_ends(source_m, destination_m, first_event, low, high, place_n, event_k, neighbour_k):  # type: ignore[no-untyped-def]
    """Write the entries of nodes `low` to `high` for some events that follow each other.

    Args:
        first_event: the number of the first of these events.
        place_n: where the next entry of each of the nodes goes; moved on.
        event_k, neighbour_k: the entries of these nodes.
    """
    for i in range(len(source_m)):
        a, b = source_m[i], destination_m[i]
        if low <= a < high:
            place = place_n[a - low]
            event_k[place], neighbour_k[place] = first_event + i, b
            place_n[a - low] = place + 1
        if low <= b < high:
            place = place_n[b - low]
            event_k[place], neighbour_k[place] = first_event + i, a
            place_n[b - low] = place + 1


@njit(cache=True, nogil=True)
def rows_before(offsets_N, time_R, node_q, time_q, row_q):  # type: ignore[no-untyped-def]
    """The last row of each node whose time is strictly earlier than a time, -1 where there is none; by binary search.

    Args:
        offsets_N: where the rows of each node begin.
        time_R: ascending among the rows of a node.
        row_q: filled.
    """
    for q in range(len(node_q)):
        low, high = offsets_N[node_q[q]], offsets_N[node_q[q] + 1]
        first = low
        while low < high:
            middle = (low + high) // 2
            if time_R[middle] < time_q[q]:
                low = middle + 1
            else:
                high = middle
        row_q[q] = low - 1 if low > first else -1
