"""The numba loops that draw neighbours. All release the GIL, and none checks its input; `neighbour` does.

Draws are hashes of (seed, epoch, hop, edge type), folded into `key`, and of the node's number. So the neighbours of a
node in a hop of an epoch are the same in whatever batch, thread, process or rank it is drawn.

Letters: n nodes whose neighbours are drawn, E edges drawn, M edges of the whole graph, N nodes that edges come from.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from graphprep.core.csr_kernels import mixed

ANY_TIME = np.iinfo(np.int64).max
LOOKED_THROUGH = 64
"""so many drawn edges of a node are compared one by one; where there are more, a hash table has them"""
_ONE_OVER_2_53 = 1.0 / (1 << 53)


@njit(cache=True, nogil=True)
def below(number, end):  # type: ignore[no-untyped-def]
    """A whole number from 0 .. end - 1, end < 2^32, of a 64-bit hash (Lemire 2019, without the rejection: one of them
    is more probable than another by at most end / 2^32)."""
    return np.int64(((number >> np.uint64(32)) * np.uint64(end)) >> np.uint64(32))


@njit(cache=True, nogil=True)
def _share(number):  # type: ignore[no-untyped-def]
    """A number above 0 and at most 1 of a 64-bit hash, in steps of 2^-53."""
    return (np.float64(number >> np.uint64(11)) + 1.0) * _ONE_OVER_2_53


@njit(cache=True, nogil=True)
def count_uniform(indptr, nodes_n, fanout, with_replacement):  # type: ignore[no-untyped-def]
    """Where the edges of each node begin among those drawn: int64 [n + 1]. A `fanout` below 0 is every neighbour."""
    offsets = np.zeros(len(nodes_n) + 1, np.int64)
    for i in range(len(nodes_n)):
        degree = indptr[nodes_n[i] + 1] - indptr[nodes_n[i]]
        count = degree if fanout < 0 or (degree <= fanout and not with_replacement) else np.int64(fanout)
        offsets[i + 1] = offsets[i] + (count if degree > 0 else 0)
    return offsets


@njit(cache=True, nogil=True)
def _is_in_table(number, table_T):  # type: ignore[no-untyped-def]
    """Whether a hash table of 2^k places, -1 where free, has a number; it has it afterwards."""
    slot = np.int64(mixed(np.uint64(0), number) & np.uint64(len(table_T) - 1))
    while table_T[slot] != -1:
        if table_T[slot] == number:
            return True
        slot = (slot + 1) & (len(table_T) - 1)
    table_T[slot] = number
    return False


@njit(cache=True, nogil=True)
def draw_uniform(indptr, nodes_n, offsets_n, with_replacement, key, number_E):  # type: ignore[no-untyped-def]
    """The numbers of the drawn edges, each as probable as another (without replacement: Floyd's algorithm, Bentley and
    Floyd 1987, "A sample of brilliance")."""
    table_T = np.empty(0, np.int64)
    for i in range(len(nodes_n)):
        node = nodes_n[i]
        first, at = indptr[node], offsets_n[i]
        degree, count = indptr[node + 1] - first, offsets_n[i + 1] - at
        if count == degree and not with_replacement:
            for j in range(count):
                number_E[at + j] = first + j
            continue
        of_node = mixed(key, node)
        has_table = count > LOOKED_THROUGH and not with_replacement
        if has_table:
            size = 2 * LOOKED_THROUGH
            while size < 2 * count:
                size *= 2
            table_T = np.full(size, -1, np.int64)
        for j in range(count):
            if with_replacement:
                number_E[at + j] = first + below(mixed(of_node, j), degree)
                continue
            last = degree - count + j
            chosen = first + below(mixed(of_node, j), last + 1)
            if has_table:
                if _is_in_table(chosen, table_T):
                    chosen = first + last
                    _is_in_table(chosen, table_T)
            else:
                for k in range(at, at + j):
                    if number_E[k] == chosen:
                        chosen = first + last
                        break
            number_E[at + j] = chosen


@njit(cache=True, nogil=True)
def may_be_drawn(e, source, weight_M, time_M, time_N, until):  # type: ignore[no-untyped-def]
    if len(weight_M) > 0 and not weight_M[e] > 0:
        return False
    if len(time_M) > 0 and time_M[e] > until:
        return False
    return not (len(time_N) > 0 and time_N[source] > until)


@njit(cache=True, nogil=True)
def count_possible(indptr, indices, nodes_n, fanout, weight_M, time_M, time_N, until_n):  # type: ignore[no-untyped-def]
    """As `count_uniform`, of the edges that have a weight above 0 and are not later than `until_n`."""
    offsets = np.zeros(len(nodes_n) + 1, np.int64)
    for i in range(len(nodes_n)):
        count = np.int64(0)
        until = until_n[i] if len(until_n) > 0 else ANY_TIME
        for e in range(indptr[nodes_n[i]], indptr[nodes_n[i] + 1]):
            if count == fanout:
                break
            count += may_be_drawn(e, indices[e], weight_M, time_M, time_N, until)
        offsets[i + 1] = offsets[i] + count
    return offsets


@njit(cache=True, nogil=True)
def value_of(of_node, place, weight):  # type: ignore[no-untyped-def]
    """The value of an edge of some weight, by the hash of the node that it is drawn for and its place among its edges:
    -log(u) / weight for a random u."""
    return -np.log(_share(mixed(of_node, place))) / weight


@njit(cache=True, nogil=True)
def draw_smallest(  # type: ignore[no-untyped-def]
    indptr, indices, nodes_n, offsets_n, weight_M, time_M, time_N, until_n, latest, key, number_E, value_E
):
    """The numbers of the drawn edges, without replacement: those of the smallest values.

    The value of an edge of weight w is -log(u) / w for a random u, so that edges are drawn one after the other in
    proportion to their weights (Efraimidis and Spirakis 2006); with `latest` it is its time, negative. An empty
    `weight_M` is weight 1; of `time_M` (of edges) and `time_N` (of the nodes where they begin) one is empty or both
    are. `value_E` is space for the values, of which each node's are a heap with the greatest first.
    """
    for i in range(len(nodes_n)):
        node, at = nodes_n[i], offsets_n[i]
        count = offsets_n[i + 1] - at
        if count == 0:
            continue
        until = until_n[i] if len(until_n) > 0 else ANY_TIME
        of_node = mixed(key, node)
        size = 0
        for e in range(indptr[node], indptr[node + 1]):
            if not may_be_drawn(e, indices[e], weight_M, time_M, time_N, until):
                continue
            if latest:
                value = -np.float64(time_M[e] if len(time_M) > 0 else time_N[indices[e]])
            else:
                weight = np.float64(weight_M[e]) if len(weight_M) > 0 else 1.0
                value = value_of(of_node, e - indptr[node], weight)
            if size < count:
                place = size
                size += 1
                while place > 0 and value_E[at + (place - 1) // 2] < value:
                    value_E[at + place] = value_E[at + (place - 1) // 2]
                    number_E[at + place] = number_E[at + (place - 1) // 2]
                    place = (place - 1) // 2
            elif value < value_E[at]:
                place = 0
                while 2 * place + 1 < count:
                    child = 2 * place + 1
                    if child + 1 < count and value_E[at + child + 1] > value_E[at + child]:
                        child += 1
                    if value_E[at + child] <= value:
                        break
                    value_E[at + place] = value_E[at + child]
                    number_E[at + place] = number_E[at + child]
                    place = child
            else:
                continue
            value_E[at + place] = value
            number_E[at + place] = e
        number_E[at : at + count].sort()


@njit(cache=True, nogil=True)
def hashes_of(count, key):  # type: ignore[no-untyped-def]
    """A 64-bit hash of each of 0 .. count - 1: uint64 [count]."""
    found = np.empty(count, np.uint64)
    for number in range(count):
        found[number] = mixed(key, number)
    return found


@njit(cache=True, nogil=True)
def exponentials_of(ids_n, key):  # type: ignore[no-untyped-def]
    """A number of each node from the exponential distribution of mean 1, by a hash: float64 [n]."""
    found = np.empty(len(ids_n), np.float64)
    for i in range(len(ids_n)):
        found[i] = -np.log(_share(mixed(key, ids_n[i])))
    return found


@njit(cache=True, nogil=True)
def draw_pairs(owner_k, num_owners, num_sources, num_destinations, key):  # type: ignore[no-untyped-def]
    """Random sources and destinations: int64 [k] each. Pair i is drawn from the hash of its owner, the place of a seed,
    and of how many pairs that owner had before, i // num_owners."""
    source, destination = np.empty(len(owner_k), np.int64), np.empty(len(owner_k), np.int64)
    for i in range(len(owner_k)):
        of_pair = mixed(mixed(key, owner_k[i]), i // num_owners)
        source[i] = below(of_pair, num_sources)
        destination[i] = below(mixed(of_pair, 1), num_destinations)
    return source, destination


@njit(cache=True, nogil=True)
def sources_of(indices, number_E):  # type: ignore[no-untyped-def]
    """Where each drawn edge begins: int64 [E]."""
    source = np.empty(len(number_E), np.int64)
    for e in range(len(number_E)):
        source[e] = indices[number_E[e]]
    return source


@njit(cache=True, nogil=True)
def owners_of(offsets_n, first):  # type: ignore[no-untyped-def]
    """Which node each drawn edge belongs to, counted from `first`: int64 [E]."""
    owner = np.empty(offsets_n[-1], np.int64)
    for i in range(len(offsets_n) - 1):
        for e in range(offsets_n[i], offsets_n[i + 1]):
            owner[e] = first + i
    return owner


@njit(cache=True, nogil=True)
def copies_of(indptr, indices, source_k, destination_k):  # type: ignore[no-untyped-def]
    """The numbers of the first edge from each source to its destination and of the one behind the last: int64 [k] each.

    Columns of a row ascend. Where there is no such edge both numbers are equal.
    """
    first, end = np.empty(len(source_k), np.int64), np.empty(len(source_k), np.int64)
    for i in range(len(source_k)):
        begin, stop = indptr[destination_k[i]], indptr[destination_k[i] + 1]
        first[i] = begin + np.searchsorted(indices[begin:stop], source_k[i])
        end[i] = begin + np.searchsorted(indices[begin:stop], source_k[i], side="right")
    return first, end


@njit(cache=True, nogil=True)
def facts_until(indptr, indices, nodes_n, weight_M, time_M, time_N, until_n):  # type: ignore[no-untyped-def]
    """Of each node's in-edges that are not later than `until_n`: how many there are, the sum of their weights in fp64,
    and whether one is a self-loop. An empty `weight_M` is weight 1."""
    count, total = np.zeros(len(nodes_n), np.int64), np.zeros(len(nodes_n), np.float32)
    has_loop = np.zeros(len(nodes_n), np.bool_)
    no_weights = weight_M[:0]
    for i in range(len(nodes_n)):
        until = until_n[i] if len(until_n) > 0 else ANY_TIME
        of_node = 0.0
        for e in range(indptr[nodes_n[i]], indptr[nodes_n[i] + 1]):
            if may_be_drawn(e, indices[e], no_weights, time_M, time_N, until):
                count[i] += 1
                of_node += weight_M[e] if len(weight_M) > 0 else 1.0
                has_loop[i] |= indices[e] == nodes_n[i]
        total[i] = of_node
    return count, total, has_loop
