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
