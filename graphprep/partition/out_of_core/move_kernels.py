"""The numba kernels that propose moves against a snapshot of the parts. None checks its input; `refinement` does.

Every range of rows makes its moves one after another on its own copy of the links and of the parts' weights, as
`refine_kernels.improve` does on the only copy. The other ranges make similar moves at the same time, so a range counts
each of its moves as many times as there are ranges: prices rise and parts fill as fast as if all moves were made.

Two ways to compute the change of a move:

    by weight   edge weights approximate the rows that a node sends to and needs from each part
    by rows     exact: two bit masks a node over the parts say where its row goes. `present`: some node that it has an
                edge to lies there; `single`: exactly one does. Where u leaves part p for q, each node w with an edge
                to u saves the row to p if that is single, and needs one more to q if that is not present; u's own row
                goes where it is present, from q instead of p

Letters: X nodes of a level, P parts, W words of 64 bits for a bit a part, C limits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.partition.out_of_core.propagation_kernels import Edges, spread
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
PRICE_FLOOR = 0.1
"""The least price of a row, as a share of the mean price."""
PRESENT, SINGLE = 0, 1
"""where a node's two masks begin, in masks_X2W"""


class Moves(NamedTuple):
    """Proposed moves, the first `count` of which are filled in."""

    nodes: NDArray[np.int64]
    targets: NDArray[np.int32]
    gains: NDArray[np.float64]


@njit(cache=True, nogil=True)
def exceeds_limit(limits: Limits, node: Any, part: Any) -> Any:
    """Whether a part exceeds the limit of a load that the node has."""
    for c in range(limits.most_PC.shape[1]):
        if limits.weight_XC[node, c] > 0 and limits.held_PC[part, c] > limits.most_PC[part, c]:
            return True
    return False


@njit(cache=True, nogil=True)
def _price(links: Links) -> None:
    """Prices, with a floor: rows on fast links cost almost nothing by the norm, so many would be added for no gain."""
    price(links)
    floor = PRICE_FLOOR * links.price_PL.mean()
    for p in range(len(links.price_PL)):
        for q in range(len(links.price_PL)):
            if p != q:
                links.price_PL[p, q] += floor


@njit(cache=True, nogil=True)
def _shift_load(limits: Limits, node: Any, source: Any, target: Any, times: Any) -> None:
    for c in range(limits.most_PC.shape[1]):
        weight = limits.weight_XC[node, c] * np.float64(times)
        limits.held_PC[source, c] -= weight
        limits.held_PC[target, c] += weight


@njit(cache=True, nogil=True)
def count_weights(rows: Any, edges: Edges, part_X: Any, units_PP: Any) -> None:
    """Add the weights of a range's edges by the parts of their ends, source first."""
    (start, stop), (indptr, indices, data) = rows, edges
    for row in range(start, stop):
        q = part_X[row]
        for e in range(indptr[row], indptr[row + 1]):
            p = part_X[indices[e]]
            if p != q:
                units_PP[p, q] += np.int64(data[e]) if len(data) else 1


@njit(cache=True, nogil=True)
def propose_by_weight(
    rows: Any, edges: Edges, part_X: Any, links: Links, limits: Limits, times: Any, salt: Any, moves: Moves
) -> Any:
    """Propose moves of half of a range's nodes; returns how many. Moves that only relieve a part have a negative gain.

    Args:
        links, limits: the range's own copies; with the counted loads.
        times: how many times a move is counted.
        salt: of the choice of the half.
    """
    (start, stop), (indptr, indices, data) = rows, edges
    num_parts = len(links.rows_PL)
    to_P, touched_P = np.zeros(num_parts, np.float64), np.empty(num_parts, np.int64)
    count, since = 0, 0
    _price(links)
    cost = cost_of(links)
    for node in range(start, stop):
        if spread(node, salt) & 1:
            continue
        source = np.int64(part_X[node])
        touched = 0
        for e in range(indptr[node], indptr[node + 1]):
            part = np.int64(part_X[indices[e]])
            if to_P[part] == 0.0:
                touched_P[touched] = part
                touched += 1
            to_P[part] += data[e] if len(data) else 1.0
        leaves = exceeds_limit(limits, node, source)
        if leaves or touched > 1 or (touched == 1 and touched_P[0] != source):
            best: Any = np.int64(-1)
            best_gain = -np.inf
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
                            links.price_PL[source, part]
                            + links.price_PL[part, source]
                            - links.price_PL[target, part]
                            - links.price_PL[part, target]
                        )
                    if gain > best_gain:
                        best, best_gain = target, gain
            if best >= 0 and (best_gain > 0.0 or leaves):
                _shift_weights(links, source, best, to_P, touched_P[:touched], times)
                found = cost_of(links)
                if found < cost or leaves:
                    cost = found
                    _shift_load(limits, node, source, best, times)
                    moves.nodes[count], moves.targets[count], moves.gains[count] = node, best, best_gain
                    count += 1
                    since += 1
                else:
                    _shift_weights(links, best, source, to_P, touched_P[:touched], times)
        for i in range(touched):
            to_P[touched_P[i]] = 0.0
        if since == MOVES_A_PRICE:
            since = 0
            _price(links)
    return count


@njit(cache=True, nogil=True)
def _shift_weights(links: Links, source: Any, target: Any, to_P: Any, touched_P: Any, times: Any) -> None:
    """Move a node, with its weight to each part, from one part to another."""
    for part in touched_P:
        weight = np.int64(to_P[part]) * times
        change(links, source, part, -weight)
        change(links, part, source, -weight)
        change(links, target, part, weight)
        change(links, part, target, weight)


@njit(cache=True, nogil=True)
def find_masks(rows: Any, edges: Edges, part_X: Any, masks_x2W: Any) -> None:
    """Fill in both masks of a range's nodes from the nodes that they have an edge to, each listed once."""
    (start, stop), (indptr, indices, _) = rows, edges
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
def count_rows(rows: Any, part_X: Any, masks_x2W: Any, units_PP: Any) -> None:
    """Add the rows that the nodes of a range send, from their masks."""
    start, stop = rows
    found = np.empty(len(units_PP), np.int64)
    for node in range(start, stop):
        source = part_X[node]
        for k in range(_parts_of(masks_x2W[node - start, PRESENT], found)):
            if found[k] != source:
                units_PP[source, found[k]] += 1


@njit(cache=True, nogil=True)
def propose_by_rows(
    rows: Any,
    edges: Edges,
    masks_X2W: Any,
    mutual: Any,
    part_X: Any,
    links: Links,
    limits: Limits,
    times: Any,
    salt: Any,
    moves: Moves,
) -> Any:
    """As `propose_by_weight`; `edges` are in-edges, each once: whose row each node needs.

    `mutual`: every edge has its reverse, so that a node whose own row stays at home needs none from elsewhere.
    """
    (start, stop), (indptr, indices, _) = rows, edges
    num_parts = len(links.rows_PL)
    got_P, saved_P = np.zeros(num_parts, np.float64), np.zeros(num_parts, np.float64)
    is_near_P, near_P = np.zeros(num_parts, np.bool_), np.empty(num_parts, np.int64)
    sent_P, found = np.empty(num_parts, np.int64), np.empty(num_parts, np.int64)
    count, since = 0, 0
    _price(links)
    cost = cost_of(links)
    for node in range(start, stop):
        if spread(node, salt) & 1:
            continue
        source = np.int64(part_X[node])
        leaves = exceeds_limit(limits, node, source)
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
        best: Any = np.int64(-1)
        best_gain = -np.inf
        if leaves or near > 1 or (near == 1 and near_P[0] != source):
            base = 0.0
            for e in range(indptr[node], indptr[node + 1]):
                other = indices[e]
                part = np.int64(part_X[other])
                if part != source and _has(masks_X2W[other, SINGLE], source):
                    base += links.price_PL[part, source]
                present = masks_X2W[other, PRESENT]
                for k in range(_parts_of(present, found)):
                    saved_P[found[k]] += links.price_PL[part, found[k]]
            for k in range(sent):
                base += links.price_PL[source, sent_P[k]]
            for easing in range(2 if leaves else 1):
                for k in range(num_parts if leaves else near):
                    target = k if leaves else near_P[k]
                    if target == source or (best >= 0 and easing):
                        continue
                    if not (eases(limits, node, source, target) if easing else fits(limits, node, source, target)):
                        continue
                    gain = base + saved_P[target]
                    for i in range(sent):
                        gain -= links.price_PL[target, sent_P[i]]
                    for i in range(near):
                        gain -= got_P[near_P[i]] * links.price_PL[near_P[i], target]
                    if gain > best_gain:
                        best, best_gain = target, gain
            if best >= 0 and (best_gain > 0.0 or leaves):
                _shift_rows(node, best, edges, masks_X2W, part_X, links, sent_P[:sent], times)
                after = cost_of(links)
                if after < cost or leaves:
                    cost = after
                    _shift_load(limits, node, source, best, times)
                    moves.nodes[count], moves.targets[count], moves.gains[count] = node, best, best_gain
                    count += 1
                    since += 1
                else:
                    _shift_rows(node, best, edges, masks_X2W, part_X, links, sent_P[:sent], -times)
            saved_P[:] = 0.0
        for k in range(near):
            is_near_P[near_P[k]] = False
            got_P[near_P[k]] = 0.0
        if since == MOVES_A_PRICE:
            since = 0
            _price(links)
    return count


@njit(cache=True, nogil=True)
def _shift_rows(
    node: Any, target: Any, edges: Edges, masks_X2W: Any, part_X: Any, links: Links, sent_P: Any, times: Any
) -> None:
    """Move a node to another part, counted `times`; a negative number undoes that."""
    source = np.int64(part_X[node])
    for part in sent_P:
        change(links, source, part, -times)
        change(links, target, part, times)
    for e in range(edges.indptr[node], edges.indptr[node + 1]):
        other = edges.indices[e]
        part = np.int64(part_X[other])
        if _has(masks_X2W[other, SINGLE], source):
            change(links, part, source, -times)
        if not _has(masks_X2W[other, PRESENT], target):
            change(links, part, target, times)


@njit(cache=True, nogil=True)
def make_moves(order: Any, moves: Moves, part_X: Any, limits: Limits, most: Any) -> Any:
    """Make the proposed moves in this order, within the limits, and no more than `most`; returns how many.

    A move with a negative gain is made only while its source part exceeds a limit.
    """
    made = 0
    for i in order:
        if made == most:
            break
        node, target = moves.nodes[i], np.int64(moves.targets[i])
        source = np.int64(part_X[node])
        leaves = exceeds_limit(limits, node, source)
        if moves.gains[i] <= 0.0 and not leaves:
            continue
        if fits(limits, node, source, target) or (leaves and eases(limits, node, source, target)):
            _shift_load(limits, node, source, target, np.int64(1))
            part_X[node] = target
            made += 1
    return made
