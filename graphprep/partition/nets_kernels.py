"""The numba loops that make nets and contract them. None checks its input; `nets` does.

Letters as in `nets`: X nodes, M nets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def simple_rows(indptr: Any, indices: Any) -> Any:
    """A CSR with ascending columns, without self-loops and repeated columns."""
    num_rows = len(indptr) - 1
    ptr = np.zeros(num_rows + 1, np.int64)
    for row in range(num_rows):
        count, last = 0, np.int64(-1)
        for e in range(indptr[row], indptr[row + 1]):
            column = np.int64(indices[e])
            count += column != last and column != row
            last = column
        ptr[row + 1] = ptr[row] + count
    columns = np.empty(ptr[num_rows], np.int32)
    for row in range(num_rows):
        at, last = ptr[row], np.int64(-1)
        for e in range(indptr[row], indptr[row + 1]):
            column = np.int64(indices[e])
            if column != last and column != row:
                columns[at] = column
                at += 1
            last = column
    return ptr, columns


@njit(cache=True, nogil=True)
def transpose(ptr: Any, columns: Any, num_columns: Any) -> Any:
    """The rows in which each column occurs, ascending."""
    back = np.zeros(num_columns + 1, np.int64)
    for column in columns:
        back[column + 1] += 1
    for column in range(num_columns):
        back[column + 1] += back[column]
    place = back[:-1].copy()
    rows = np.empty(len(columns), np.int32)
    for row in range(len(ptr) - 1):
        for e in range(ptr[row], ptr[row + 1]):
            column = columns[e]
            rows[place[column]] = row
            place[column] += 1
    return back, rows


@njit(cache=True, nogil=True)
def pairs(indptr: Any, indices: Any) -> Any:
    """Of in-edges, a net for every pair of nodes: its root is the source, its one pin the destination."""
    num_nodes = len(indptr) - 1
    first = np.zeros(num_nodes + 1, np.int64)
    for row in range(num_nodes):
        last = np.int64(-1)
        for e in range(indptr[row], indptr[row + 1]):
            column = np.int64(indices[e])
            if column != row and column != last:
                first[column + 1] += 1
            last = column
    for node in range(num_nodes):
        first[node + 1] += first[node]
    num_nets = first[num_nodes]
    place = first[:-1].copy()
    pins, weight = np.empty(num_nets, np.int32), np.zeros(num_nets, np.int32)
    for row in range(num_nodes):
        last = np.int64(-1)
        for e in range(indptr[row], indptr[row + 1]):
            column = np.int64(indices[e])
            if column == row:
                continue
            if column != last:
                pins[place[column]] = row
                place[column] += 1
            weight[place[column] - 1] += 1
            last = column
    return np.arange(num_nets + 1, dtype=np.int64), pins, weight, first


@njit(cache=True, nogil=True)
def draw_together(first: Any, weight: Any, pin_ptr: Any, pins: Any, coarse: Any, num_coarse: Any) -> Any:
    """Nets on coarse nodes, by root, each with its pins once and a fingerprint of them; empty nets are left out."""
    num_nodes, num_nets = len(first) - 1, len(weight)
    stamp = np.full(num_coarse, -1, np.int64)
    size = np.zeros(num_nets, np.int32)
    root = np.empty(num_nets, np.int32)
    coarse_first = np.zeros(num_coarse + 1, np.int64)
    for node in range(num_nodes):
        home = coarse[node]
        for net in range(first[node], first[node + 1]):
            root[net] = home
            for i in range(pin_ptr[net], pin_ptr[net + 1]):
                at = coarse[pins[i]]
                if at != home and stamp[at] != net:
                    stamp[at] = net
                    size[net] += 1
            if size[net] > 0:
                coarse_first[home + 1] += 1
    for node in range(num_coarse):
        coarse_first[node + 1] += coarse_first[node]
    kept = coarse_first[num_coarse]
    place = coarse_first[:-1].copy()
    new_of = np.full(num_nets, -1, np.int64)
    new_ptr = np.zeros(kept + 1, np.int64)
    for net in range(num_nets):
        if size[net] > 0:
            new = place[root[net]]
            place[root[net]] += 1
            new_of[net] = new
            new_ptr[new + 1] = size[net]
    for new in range(kept):
        new_ptr[new + 1] += new_ptr[new]
    new_pins = np.empty(new_ptr[kept], np.int32)
    new_weight = np.empty(kept, np.int32)
    mark = np.empty(kept, np.uint64)
    stamp[:] = -1
    for net in range(num_nets):
        new = new_of[net]
        if new < 0:
            continue
        new_weight[new] = weight[net]
        at, home, fingerprint = new_ptr[new], root[net], np.uint64(size[net])
        for i in range(pin_ptr[net], pin_ptr[net + 1]):
            node = coarse[pins[i]]
            if node != home and stamp[node] != net:
                stamp[node] = net
                new_pins[at] = node
                at += 1
                fingerprint += _mixed(np.uint64(node))
        mark[new] = fingerprint
    return coarse_first, new_weight, new_ptr, new_pins, mark


@njit(cache=True, nogil=True)
def _mixed(number: Any) -> Any:
    """64 bits in which every bit of the number has a say (the finaliser of SplitMix64, Steele and others 2014)."""
    number += np.uint64(0x9E3779B97F4A7C15)
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@njit(cache=True, nogil=True)
def merge_equal(first: Any, weight: Any, pin_ptr: Any, pins: Any, mark: Any, num_nodes: Any) -> Any:
    """Nets of one root whose fingerprints are equal become one; the first of them keeps its pins.

    Two nets with unequal pins and one fingerprint of 64 bits would be merged wrongly; on the finest level, where all
    is counted again, that would have cost quality and nothing else.
    """
    num_nets = len(weight)
    into = np.empty(num_nets, np.int64)
    kept_first = np.zeros(num_nodes + 1, np.int64)
    kept, kept_pins = 0, 0
    for node in range(num_nodes):
        begin, end = first[node], first[node + 1]
        order = np.argsort(mark[begin:end], kind="mergesort")
        leader = np.int64(-1)
        for i in range(end - begin):
            net = begin + order[i]
            if leader < 0 or mark[net] != mark[leader]:
                leader = net
                kept += 1
                kept_pins += pin_ptr[net + 1] - pin_ptr[net]
            into[net] = leader
        kept_first[node + 1] = kept
    new_weight, new_ptr = np.empty(kept, np.int32), np.zeros(kept + 1, np.int64)
    new_pins = np.empty(kept_pins, np.int32)
    place = np.full(num_nets, -1, np.int64)
    at = 0
    for net in range(num_nets):
        if into[net] == net:
            place[net] = at
            new_weight[at] = 0
            size = pin_ptr[net + 1] - pin_ptr[net]
            new_ptr[at + 1] = new_ptr[at] + size
            new_pins[new_ptr[at] : new_ptr[at + 1]] = pins[pin_ptr[net] : pin_ptr[net + 1]]
            at += 1
    for net in range(num_nets):
        new_weight[place[into[net]]] += weight[net]
    return kept_first, new_weight, new_ptr, new_pins
