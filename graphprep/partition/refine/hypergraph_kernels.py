"""The numba kernels that make nets and contract them. None checks its input; `hypergraph` does.

Letters as in `nets`: X nodes, M nets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from graphprep.core.merge_sort import sort_stably


@njit(cache=True, nogil=True)
def simple_rows(indptr: Any, indices: Any, no_offsets: Any) -> Any:
    """A CSR with ascending columns, without self-loops and repeated columns; its offsets as wide as `no_offsets`."""
    num_rows = len(indptr) - 1
    ptr = np.zeros(num_rows + 1, no_offsets.dtype)
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
    back = np.zeros(num_columns + 1, ptr.dtype)
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
def pairs(indptr: Any, indices: Any, weights: Any, no_offsets: Any) -> Any:
    """Of in-edges, a net for every pair of nodes: its root is the source, its one pin the destination. It weighs as
    much as its edges, each 1 where there are no weights."""
    num_nodes = len(indptr) - 1
    first = np.zeros(num_nodes + 1, no_offsets.dtype)
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
            weight[place[column] - 1] += np.int32(weights[e]) if len(weights) > 0 else np.int32(1)
            last = column
    return np.arange(num_nets + 1).astype(no_offsets.dtype), pins, weight, first


@njit(cache=True, nogil=True)
def renumber(first: Any, weight: Any, pin_ptr: Any, pins: Any, order: Any, place: Any) -> Any:
    """Nets by the new numbers of their roots; pins stay in their order, empty nets are left out."""
    num_nodes = len(order)
    new_first = np.zeros(num_nodes + 1, first.dtype)
    kept, kept_pins = 0, 0
    for new in range(num_nodes):
        for net in range(first[order[new]], first[order[new] + 1]):
            size = pin_ptr[net + 1] - pin_ptr[net]
            kept += size > 0
            kept_pins += size
        new_first[new + 1] = kept
    new_weight, new_ptr = np.empty(kept, np.int32), np.zeros(kept + 1, pin_ptr.dtype)
    new_pins = np.empty(kept_pins, np.int32)
    at, end = 0, 0
    for new in range(num_nodes):
        for net in range(first[order[new]], first[order[new] + 1]):
            if pin_ptr[net + 1] > pin_ptr[net]:
                for i in range(pin_ptr[net], pin_ptr[net + 1]):
                    new_pins[end] = place[pins[i]]
                    end += 1
                new_weight[at] = weight[net]
                at += 1
                new_ptr[at] = end
    return new_first, new_weight, new_ptr, new_pins


@njit(cache=True, nogil=True)
def renumber_mirrored(ptr: Any, columns: Any, order: Any, place: Any) -> Any:
    """A symmetric CSR by the new numbers of its nodes, columns ascending."""
    num_nodes = len(order)
    new_ptr = np.zeros(num_nodes + 1, ptr.dtype)
    for new in range(num_nodes):
        new_ptr[new + 1] = new_ptr[new] + ptr[order[new] + 1] - ptr[order[new]]
    at = new_ptr[:-1].copy()
    new_columns = np.empty(len(columns), np.int32)
    for new in range(num_nodes):
        for e in range(ptr[order[new]], ptr[order[new] + 1]):
            row = place[columns[e]]
            new_columns[at[row]] = new
            at[row] += 1
    return new_ptr, new_columns


@njit(cache=True, nogil=True)
def contract_nets(first: Any, weight: Any, pin_ptr: Any, pins: Any, coarse: Any, num_coarse: Any) -> Any:
    """Nets on coarse nodes, by root, each with its pins once.

    Empty nets are left out, and nets of one root whose pins have one fingerprint become one: the first of them, with
    the weights of all. Two nets with unequal pins and one fingerprint of 64 bits would be merged wrongly; on the finest
    level, where all is counted again, that would have cost quality and nothing else.
    """
    num_nets = len(weight)
    stamp = np.full(num_coarse, -1, pin_ptr.dtype)
    size, mark = np.zeros(num_nets, np.int32), np.empty(num_nets, np.uint64)
    begin = np.zeros(num_coarse + 1, first.dtype)
    for node in range(len(first) - 1):
        home = coarse[node]
        for net in range(first[node], first[node + 1]):
            count, fingerprint = 0, np.uint64(0)
            for i in range(pin_ptr[net], pin_ptr[net + 1]):
                at = coarse[pins[i]]
                if at != home and stamp[at] != net:
                    stamp[at] = net
                    count += 1
                    fingerprint += _mixed(np.uint64(at))
            size[net], mark[net] = count, fingerprint + np.uint64(count)
            begin[home + 1] += count > 0
    for home in range(num_coarse):
        begin[home + 1] += begin[home]
    place = begin[:-1].copy()
    by_home = np.empty(begin[num_coarse], first.dtype)
    for node in range(len(first) - 1):
        for net in range(first[node], first[node + 1]):
            if size[net] > 0:
                by_home[place[coarse[node]]] = net
                place[coarse[node]] += 1
    leader, kept, kept_pins = _leaders(begin, by_home, mark, size)
    new_first = np.zeros(num_coarse + 1, first.dtype)
    new_weight, new_ptr = np.zeros(kept, np.int32), np.zeros(kept + 1, pin_ptr.dtype)
    new_pins = np.empty(kept_pins, np.int32)
    number = np.empty(num_nets, first.dtype)
    stamp[:] = -1
    new, end = 0, 0
    for home in range(num_coarse):
        for k in range(begin[home], begin[home + 1]):
            net = by_home[k]
            if leader[net] != net:
                continue
            for i in range(pin_ptr[net], pin_ptr[net + 1]):
                at = coarse[pins[i]]
                if at != home and stamp[at] != net:
                    stamp[at] = net
                    new_pins[end] = at
                    end += 1
            number[net] = new
            new += 1
            new_ptr[new] = end
        new_first[home + 1] = new
    for net in by_home:
        new_weight[number[leader[net]]] += weight[net]
    return new_first, new_weight, new_ptr, new_pins


@njit(cache=True, nogil=True)
def _mixed(number: Any) -> Any:
    """A 64-bit hash of the number (the finaliser of SplitMix64, Steele and others 2014)."""
    number += np.uint64(0x9E3779B97F4A7C15)
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@njit(cache=True, nogil=True)
def _leaders(begin: Any, by_home: Any, mark: Any, size: Any) -> Any:
    """For each net the first of its root with the same fingerprint; how many such nets there are, and their pins."""
    leader = np.empty(len(mark), by_home.dtype)
    kept, kept_pins = 0, 0
    for home in range(len(begin) - 1):
        nets = by_home[begin[home] : begin[home + 1]].copy()
        sort_stably(mark[nets], nets)
        first_of_kind = np.int64(-1)
        for net in nets:
            if first_of_kind < 0 or mark[net] != mark[first_of_kind]:
                first_of_kind = net
                kept += 1
                kept_pins += size[first_of_kind]
            leader[net] = first_of_kind
    return leader, kept, kept_pins
