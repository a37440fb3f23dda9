"""The numba loops that propose moves against a snapshot of the parts. None checks its input; `streamed` does.

Every range of rows makes its moves one after another on its own copy of the links and of what the parts hold, as
`refine_kernels.improve` does on the only one. The other ranges do much the same meanwhile, so a range counts each of
its moves for as many as there are ranges: prices rise and parts fill as fast as they will when all moves are made.

Two ways to know what a move changes:

    by weight   a level's edges stand for the rows: from u's own row, the weight that it has to each part
    by rows     exact: two bit masks a node over the parts say where its row goes. `present`: some node that it has an
                edge to lies there; `single`: exactly one does. Where u leaves part p for q, each node w with an edge
                to u saves the row to p if that is single, and needs one more to q if that is not present; u's own row
                goes where it is present, from q instead of p

Letters: X nodes of a level, P parts, W words of 64 bits for a bit a part, C limits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from graphprep.partition.out_of_core.propagation_kernels import spread
from graphprep.partition.refine.refine_kernels import (
    MOVES_A_PRICE,
    Limits,
    Links,
    change,
    cost_of,
    eases,
    fits,
    price,
)

WORD_BITS = 64
FLOOR = 0.1
"""What any row costs, as a part of the mean price."""
PRESENT, SINGLE = 0, 1
"""where a node's two masks begin, in masks_X2W"""


@njit(cache=True, nogil=True)
def is_over(limits: Limits, node: Any, part: Any) -> Any:
    """Whether a part holds more than it may of something that the node has."""
    for c in range(limits.most_PC.shape[1]):
        if limits.weight_XC[node, c] > 0 and limits.held_PC[part, c] > limits.most_PC[part, c]:
            return True
    return False


@njit(cache=True, nogil=True)
def _price(links: Links) -> None:
    """Prices, with a floor: rows on quick links cost next to nothing by the norm, and would become many for nothing."""
    price(links)
    floor = FLOOR * links.price_PP.mean()
    for p in range(len(links.price_PP)):
        for q in range(len(links.price_PP)):
            if p != q:
                links.price_PP[p, q] += floor


@njit(cache=True, nogil=True)
def _carry(limits: Limits, node: Any, source: Any, target: Any, times: Any) -> None:
    for c in range(limits.most_PC.shape[1]):
        weight = limits.weight_XC[node, c] * np.float64(times)
        limits.held_PC[source, c] -= weight
        limits.held_PC[target, c] += weight


@njit(cache=True, nogil=True)
def count_weights(start: Any, stop: Any, indptr: Any, indices: Any, data: Any, part_X: Any, units_PP: Any) -> None:
    """Add the weights of a range's edges by the parts of their ends, source first."""
    for row in range(start, stop):
        q = part_X[row]
        for e in range(indptr[row], indptr[row + 1]):
            p = part_X[indices[e]]
            if p != q:
                units_PP[p, q] += np.int64(data[e]) if len(data) else 1


@njit(cache=True, nogil=True)
def propose_by_weight(
    start: Any,
    stop: Any,
    indptr: Any,
    indices: Any,
    data: Any,
    part_X: Any,
    links: Links,
    limits: Limits,
    times: Any,
    salt: Any,
    nodes: Any,
    targets: Any,
    gains: Any,
) -> Any:
    """Fill in the moves of half of a range's nodes; how many they are. Moves that only relieve a part lose something.

    Args:
        links, limits: the range's own copies; links carry what was counted.
        times: what a move counts for.
        salt: of the draw of the half.
    """
    num_parts = len(links.rows_PP)
    to_P, touched_P = np.zeros(num_parts, np.float64), np.empty(num_parts, np.int64)
    count, since = 0, 0
    _price(links)
    cost = cost_of(links)
    for node in range(start, stop):
        if spread(node, salt) & 1:
            continue
        source = part_X[node]
        touched = 0
        for e in range(indptr[node], indptr[node + 1]):
            part = part_X[indices[e]]
            if to_P[part] == 0.0:
                touched_P[touched] = part
                touched += 1
            to_P[part] += data[e] if len(data) else 1.0
        leaves = is_over(limits, node, source)
        if leaves or touched > 1 or (touched == 1 and touched_P[0] != source):
            best, best_gain = -1, -np.inf
            for easing in range(2 if leaves else 1):
                for k in range(num_parts if leaves else touched):
                    target = k if leaves else touched_P[k]
                    if target == source or (best >= 0 and easing):
                        continue
                    if not (eases(limits, node, source, target) if easing else fits(limits, node, source, target)):
                        continue
                    gain = 0.0
                    for i in range(touched):
                        part = touched_P[i]
                        gain += to_P[part] * (
                            links.price_PP[source, part]
                            + links.price_PP[part, source]
                            - links.price_PP[target, part]
                            - links.price_PP[part, target]
                        )
                    if gain > best_gain:
                        best, best_gain = target, gain
            if best >= 0 and (best_gain > 0.0 or leaves):
                _lay_weights(links, source, best, to_P, touched_P, touched, times)
                found = cost_of(links)
                if found < cost or leaves:
                    cost = found
                    _carry(limits, node, source, best, times)
                    nodes[count], targets[count], gains[count] = node, best, best_gain
                    count += 1
                    since += 1
                else:
                    _lay_weights(links, best, source, to_P, touched_P, touched, times)
        for i in range(touched):
            to_P[touched_P[i]] = 0.0
        if since == MOVES_A_PRICE:
            since = 0
            _price(links)
    return count


@njit(cache=True, nogil=True)
def _lay_weights(links: Links, source: Any, target: Any, to_P: Any, touched_P: Any, touched: Any, times: Any) -> None:
    """A node with so much weight to each part goes from one part to another."""
    for i in range(touched):
        part = touched_P[i]
        weight = np.int64(to_P[part]) * times
        change(links, source, part, -weight)
        change(links, part, source, -weight)
        change(links, target, part, weight)
        change(links, part, target, weight)


@njit(cache=True, nogil=True)
def find_masks(start: Any, stop: Any, indptr: Any, indices: Any, part_X: Any, masks_x2W: Any) -> None:
    """Fill in both masks of a range's nodes from the nodes that they have an edge to, each listed once."""
    for node in range(start, stop):
        present, single = masks_x2W[node - start, PRESENT], masks_x2W[node - start, SINGLE]
        present[:] = 0
        single[:] = 0
        for e in range(indptr[node], indptr[node + 1]):
            part = part_X[indices[e]]
            word, bit = part // WORD_BITS, np.uint64(1) << np.uint64(part % WORD_BITS)
            if present[word] & bit:
                single[word] &= ~bit
            else:
                present[word] |= bit
                single[word] |= bit


@njit(cache=True, nogil=True)
def _parts_of(present: Any, found: Any) -> Any:
    """Fill in the parts of a mask; how many they are."""
    count = 0
    for word in range(len(present)):
        left = present[word]
        part = word * WORD_BITS
        while left:
            if not left & np.uint64(0xFFFFFFFF):
                left >>= np.uint64(32)
                part += 32
            elif not left & np.uint64(0xFF):
                left >>= np.uint64(8)
                part += 8
            else:
                if left & np.uint64(1):
                    found[count] = part
                    count += 1
                left >>= np.uint64(1)
                part += 1
    return count


@njit(cache=True, nogil=True)
def _has(mask: Any, part: Any) -> Any:
    return mask[part // WORD_BITS] >> np.uint64(part % WORD_BITS) & np.uint64(1) != 0


@njit(cache=True, nogil=True)
def count_rows(start: Any, stop: Any, part_X: Any, masks_x2W: Any, units_PP: Any) -> None:
    """Add the rows that the nodes of a range send, from their masks."""
    found = np.empty(len(units_PP), np.int64)
    for node in range(start, stop):
        source = part_X[node]
        for k in range(_parts_of(masks_x2W[node - start, PRESENT], found)):
            if found[k] != source:
                units_PP[source, found[k]] += 1


@njit(cache=True, nogil=True)
def propose_by_rows(
    start: Any,
    stop: Any,
    indptr: Any,
    indices: Any,
    masks_X2W: Any,
    mutual: Any,
    part_X: Any,
    links: Links,
    limits: Limits,
    times: Any,
    salt: Any,
    nodes: Any,
    targets: Any,
    gains: Any,
) -> Any:
    """As `propose_by_weight`; indptr and indices are in-edges, each once: whose row each node needs.

    `mutual`: every edge has its reverse, so that a node whose own row stays at home needs none from elsewhere.
    """
    num_parts = len(links.rows_PP)
    got_P, saved_P = np.zeros(num_parts, np.float64), np.zeros(num_parts, np.float64)
    is_near_P, near_P = np.zeros(num_parts, np.bool_), np.empty(num_parts, np.int64)
    sent_P, found = np.empty(num_parts, np.int64), np.empty(num_parts, np.int64)
    count, since = 0, 0
    _price(links)
    cost = cost_of(links)
    for node in range(start, stop):
        if spread(node, salt) & 1:
            continue
        source = part_X[node]
        leaves = is_over(limits, node, source)
        sent = _parts_of(masks_X2W[node, PRESENT], sent_P)
        if mutual and not leaves and (sent == 0 or (sent == 1 and sent_P[0] == source)):
            continue
        near = 0
        for k in range(sent):
            near_P[near] = sent_P[k]
            is_near_P[sent_P[k]] = True
            near += 1
        for e in range(indptr[node], indptr[node + 1]):
            part = part_X[indices[e]]
            if not is_near_P[part]:
                is_near_P[part] = True
                near_P[near] = part
                near += 1
            got_P[part] += 1.0
        best, best_gain = -1, -np.inf
        if leaves or near > 1 or (near == 1 and near_P[0] != source):
            base = 0.0
            for e in range(indptr[node], indptr[node + 1]):
                other = indices[e]
                part = part_X[other]
                if part != source and _has(masks_X2W[other, SINGLE], source):
                    base += links.price_PP[part, source]
                present = masks_X2W[other, PRESENT]
                for k in range(_parts_of(present, found)):
                    saved_P[found[k]] += links.price_PP[part, found[k]]
            for k in range(sent):
                base += links.price_PP[source, sent_P[k]]
            for easing in range(2 if leaves else 1):
                for k in range(num_parts if leaves else near):
                    target = k if leaves else near_P[k]
                    if target == source or (best >= 0 and easing):
                        continue
                    if not (eases(limits, node, source, target) if easing else fits(limits, node, source, target)):
                        continue
                    gain = base + saved_P[target]
                    for i in range(sent):
                        gain -= links.price_PP[target, sent_P[i]]
                    for i in range(near):
                        gain -= got_P[near_P[i]] * links.price_PP[near_P[i], target]
                    if gain > best_gain:
                        best, best_gain = target, gain
            if best >= 0 and (best_gain > 0.0 or leaves):
                _lay_rows(node, best, indptr, indices, masks_X2W, part_X, links, sent_P, sent, times)
                after = cost_of(links)
                if after < cost or leaves:
                    cost = after
                    _carry(limits, node, source, best, times)
                    nodes[count], targets[count], gains[count] = node, best, best_gain
                    count += 1
                    since += 1
                else:
                    _lay_rows(node, best, indptr, indices, masks_X2W, part_X, links, sent_P, sent, -times)
            saved_P[:] = 0.0
        for k in range(near):
            is_near_P[near_P[k]] = False
            got_P[near_P[k]] = 0.0
        if since == MOVES_A_PRICE:
            since = 0
            _price(links)
    return count


@njit(cache=True, nogil=True)
def _lay_rows(
    node: Any,
    target: Any,
    indptr: Any,
    indices: Any,
    masks_X2W: Any,
    part_X: Any,
    links: Links,
    sent_P: Any,
    sent: Any,
    times: Any,
) -> None:
    """A node goes to another part, so many times; a negative number takes that back."""
    source = part_X[node]
    for k in range(sent):
        change(links, source, sent_P[k], -times)
        change(links, target, sent_P[k], times)
    for e in range(indptr[node], indptr[node + 1]):
        other = indices[e]
        part = part_X[other]
        if _has(masks_X2W[other, SINGLE], source):
            change(links, part, source, -times)
        if not _has(masks_X2W[other, PRESENT], target):
            change(links, part, target, times)


@njit(cache=True, nogil=True)
def make(order: Any, nodes: Any, targets: Any, gains: Any, part_X: Any, limits: Limits, most: Any) -> Any:
    """Make the proposed moves in this order, as far as limits have room, and no more than `most`; how many were made.

    One that loses something is made only while the part that it leaves holds more than it may.
    """
    made = 0
    for i in order:
        if made == most:
            break
        node, target = nodes[i], targets[i]
        source = part_X[node]
        leaves = is_over(limits, node, source)
        if gains[i] <= 0.0 and not leaves:
            continue
        if fits(limits, node, source, target) or (leaves and eases(limits, node, source, target)):
            _carry(limits, node, source, target, 1)
            part_X[node] = target
            made += 1
    return made
