"""The numba kernels of refinement: pin counts of nets by part, gains of moves, and moves one after another.

For every net, slots hold the number of its pins in each part. A net with at least P pins has a slot for each
part, which holds the count; a smaller one has as many slots as pins, of which the first `used` hold part and count. So
there are never more slots than pins. All other data of a net is in a head of 16 bytes, since nearly every visit to a
net is a cache miss.

The objective is a steep norm of the seconds of all link directions, a smooth approximation of the slowest of them:

    cost = sum over d of (seconds_d / reference) ** K  +  FLAT * sum over d of seconds_d / reference,   K = 2 ** steps

Its derivative by the rows of a pair of parts is that pair's price. The gain of a move is first estimated by prices,
which is one pass over the slots of the node's nets; the best move is then made, and undone if the exact cost has not
fallen.

Numbers that are read from arrays become int64 before functions get them: numba compiles a function for each combination
of its arguments' types, and compiling takes longer here than anything else does when a machine refines its first graph.

Letters: X nodes, M nets, P parts, D link directions, C limits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

FLAT = 1e-3
"""weight of the sum of seconds beside the norm, so that it decides between equal maxima"""
MOVES_A_PRICE = 32
"""moves after which prices are computed again"""


BEGIN, USED, HOME, WEIGHT = 0, 1, 2, 3
"""Columns of a net's head: its first slot, slots in use (or DENSE), its root's part, rows that it represents."""
DENSE = -1
WORD = 64
"""bits of a word of groups"""
COUNT_BITS = 16
COUNT_MASK = (1 << COUNT_BITS) - 1
NO, YES = np.bool_(False), np.bool_(True)
"""for arguments: with `False` and `True`, numba compiles a function once for each"""


class Pins(NamedTuple):
    """A level's nets and their slots."""

    first_X: NDArray[np.signedinteger[Any]]
    pin_ptr: NDArray[np.signedinteger[Any]]
    pins: NDArray[np.int32]
    inc_ptr: NDArray[np.signedinteger[Any]]
    inc: NDArray[np.int32]
    root_M: NDArray[np.int32]
    head_M4: NDArray[np.signedinteger[Any]]
    """int32 while a number of 31 bits names any slot, else int64"""
    slots: NDArray[np.int32]


class Links(NamedTuple):
    """The legs of each row's way, the links that they cross, and the loads of links.

    Without relays a leg is a pair of parts: row p, column q of `rows_PL`. With relays, which pass rows on inside groups
    of ranks, the first row that p sends into a group crosses to it once, and the column is the group's first rank; each
    further part of the group that needs it adds a leg inside the deepest group that has the row already, which is row
    `first_PG[q, depth - 1]`, column P + depth - 1.
    """

    route_ptr: NDArray[np.int64]
    """[P * L + 1]"""
    route: NDArray[np.int32]
    """link directions"""
    share: NDArray[np.float64]
    """of a leg's rows that cross each link direction of `route`"""
    pairs: NDArray[np.float64]
    """[P * L]: pairs of ranks that share a leg's rows, and so the messages of a leg"""
    second_D: NDArray[np.float64]
    """seconds a row"""
    latency_D: NDArray[np.float64]
    """seconds a message"""
    rows_PL: NDArray[np.int64]
    """[P, L]: rows on each leg"""
    load_D: NDArray[np.float64]
    """seconds"""
    price_PL: NDArray[np.float64]
    """[P, L]: what one more row costs; 0 on the diagonal"""
    scale: NDArray[np.float64]
    """[3]: reference seconds, the binary logarithm of K, and the cost of one row beside the norm"""
    total: NDArray[np.int64]
    """[1]: rows on all legs"""
    depth_PP: NDArray[np.int64]
    """[P, P]: depth of the deepest group that has both ranks; 0 if that is all ranks, and everywhere without relays"""
    enter_PP: NDArray[np.int64]
    """[P, P]: the column of p's leg towards q"""
    first_PG: NDArray[np.int64]
    """[P, L - P]: first rank of the group of each depth above 0 that has rank p"""
    group_PG: NDArray[np.int64]
    """[P, L - P]: number of the same group among those of all depths, the deeper the greater"""
    group_bits_PW: NDArray[np.uint64]
    """[P, W]: the same numbers as set bits"""
    enter_PK: NDArray[np.float64]
    """[P, K]: what a row of p costs that enters group k, beyond a row passed on inside k; 0 if p is in k"""
    last_PP: NDArray[np.float64]
    """[P, P]: what the last leg from p to q costs, if q's deepest group that p is not in has the row already"""
    first_leg_PP: NDArray[np.float64]
    """[P, P]: what the first leg from q to p costs, by row p"""


class Limits(NamedTuple):
    """What each node weighs, what each part holds, and what it may hold."""

    weight_XC: NDArray[np.float64]
    held_PC: NDArray[np.float64]
    most_PC: NDArray[np.float64]


class Scratch(NamedTuple):
    """Work arrays for the gains of one node."""

    sent_P: NDArray[np.float64]
    """rows that the node sends into each part"""
    sent_K: NDArray[np.float64]
    """rows that it sends into each group"""
    got_P: NDArray[np.float64]
    saved_P: NDArray[np.float64]
    """what a node in each part saves, since the part has the row already"""
    saved_K: NDArray[np.float64]
    """the same for groups"""
    one_P: NDArray[np.float64]
    touched_P: NDArray[np.int64]
    is_touched_P: NDArray[np.bool_]


class State(NamedTuple):
    """What a move reads and changes: nets, parts of nodes, loads of links, weights of parts."""

    pins: Pins
    part_X: NDArray[np.int32]
    links: Links
    limits: Limits
    scratch: Scratch


@njit(cache=True, nogil=True)
def fill_slots(pins: Pins, part_X: Any, links: Links, begin: Any, end: Any) -> None:
    """Fill heads and slots of nets `begin` to `end`, and add their rows to `rows_PL`; BEGIN and WEIGHT are there.

    The loads of links are left as they are: `set_rows` sets them when all nets are counted.
    """
    num_parts = len(links.rows_PL)
    found = np.empty(num_parts, np.int64)
    for net in range(begin, end):
        head = pins.head_M4[net]
        head[HOME] = part_X[pins.root_M[net]]
        is_dense = pins.pin_ptr[net + 1] - pins.pin_ptr[net] >= num_parts
        head[USED] = DENSE if is_dense else 0
        if is_dense:
            pins.slots[head[BEGIN] : head[BEGIN] + num_parts] = 0
        for i in range(pins.pin_ptr[net], pins.pin_ptr[net + 1]):
            _put(head, pins.slots, np.int64(part_X[pins.pins[i]]))
        home, weight = np.int64(head[HOME]), np.int64(head[WEIGHT])
        count = _parts_of(head, pins.slots, found)
        for i in range(count):
            if found[i] != home:
                row, column = leg_of(links, home, found[i], found[:i])
                links.rows_PL[row, column] += weight


@njit(cache=True, nogil=True)
def _put(head: Any, slots: Any, part: Any) -> Any:
    """One pin more in a part; whether it is the first one there."""
    begin = head[BEGIN]
    if head[USED] == DENSE:
        slots[begin + part] += 1
        return slots[begin + part] == 1
    end = begin + head[USED]
    for slot in range(begin, end):
        if slots[slot] >> COUNT_BITS == part:
            slots[slot] += 1
            return False
    slots[end] = part << COUNT_BITS | 1
    head[USED] += 1
    return True


@njit(cache=True, nogil=True)
def _take(head: Any, slots: Any, part: Any) -> Any:
    """One pin fewer in a part; whether it was the last one there."""
    begin = head[BEGIN]
    if head[USED] == DENSE:
        slots[begin + part] -= 1
        return slots[begin + part] == 0
    end = begin + head[USED]
    for slot in range(begin, end):
        if slots[slot] >> COUNT_BITS == part:
            slots[slot] -= 1
            if slots[slot] & COUNT_MASK:
                return False
            slots[slot] = slots[end - 1]
            head[USED] -= 1
            return True
    return False


@njit(cache=True, nogil=True)
def _count(head: Any, slots: Any, part: Any) -> Any:
    """The pins of a net in a part."""
    begin = head[BEGIN]
    if head[USED] == DENSE:
        return np.int64(slots[begin + part])
    for slot in range(begin, begin + head[USED]):
        if slots[slot] >> COUNT_BITS == part:
            return np.int64(slots[slot] & COUNT_MASK)
    return np.int64(0)


@njit(cache=True, nogil=True)
def _parts_of(head: Any, slots: Any, found: Any) -> Any:
    """Fill `found` with the parts that hold pins of a net; how many there are."""
    begin, used = head[BEGIN], head[USED]
    if used != DENSE:
        for i in range(used):
            found[i] = slots[begin + i] >> COUNT_BITS
        return used
    count = 0
    for part in range(len(found)):
        if slots[begin + part] > 0:
            found[count] = part
            count += 1
    return count


@njit(cache=True, nogil=True)
def change(links: Links, p: Any, q: Any, rows: Any) -> None:
    """Add rows to a leg, and so to the loads of links."""
    if p == q:
        return
    before = links.rows_PL[p, q]
    after = before + rows
    links.rows_PL[p, q] = after
    links.total[0] += rows
    leg = p * links.rows_PL.shape[1] + q
    messages = (np.int64(after > 0) - np.int64(before > 0)) * links.pairs[leg]
    for i in range(links.route_ptr[leg], links.route_ptr[leg + 1]):
        d = links.route[i]
        links.load_D[d] += links.share[i] * (rows * links.second_D[d] + messages * links.latency_D[d])


@njit(cache=True, nogil=True)
def set_loads(links: Links, rows_PP: Any, rank_P: Any) -> None:
    """Set the loads of links from what the parts send each other, without relays; part p is on rank rank_P[p]."""
    clear_loads(links)
    for p in range(len(rank_P)):
        for q in range(len(rank_P)):
            if rows_PP[p, q] > 0:
                change(links, np.int64(rank_P[p]), np.int64(rank_P[q]), rows_PP[p, q])


@njit(cache=True, nogil=True)
def clear_loads(links: Links) -> None:
    """No rows on any leg."""
    links.rows_PL[:] = 0
    links.load_D[:] = 0.0
    links.total[0] = 0


@njit(cache=True, nogil=True)
def leg_of(links: Links, home: Any, part: Any, others: Any) -> Any:
    """The leg, as row and column, by which a row of `home` gets to `part` if it gets to the parts `others` as well."""
    deepest = 0
    if links.first_PG.shape[1] > 0:
        for other in others:
            if other != part and links.depth_PP[other, part] > deepest:
                deepest = links.depth_PP[other, part]
    if deepest > links.depth_PP[home, part]:
        return links.first_PG[part, deepest - 1], len(links.rows_PL) + deepest - 1
    return home, links.enter_PP[home, part]


@njit(cache=True, nogil=True)
def add_legs(links: Links, home: Any, parts: Any, rows: Any) -> None:
    """Add rows of `home` that all these parts need."""
    for i in range(len(parts)):
        if parts[i] != home:
            row, column = leg_of(links, home, parts[i], parts[:i])
            change(links, np.int64(row), np.int64(column), rows)


@njit(cache=True, nogil=True)
def set_rows(links: Links, rows_PL: Any) -> None:
    """Set the loads of links from the rows of all legs."""
    clear_loads(links)
    for p in range(rows_PL.shape[0]):
        for q in range(rows_PL.shape[1]):
            if rows_PL[p, q] > 0:
                change(links, p, q, rows_PL[p, q])


@njit(cache=True, nogil=True)
def cost_of(links: Links) -> Any:
    """The objective."""
    reference, steps = links.scale[0], int(links.scale[1])
    total = links.scale[2] * links.total[0]
    for load in links.load_D:
        ratio = load / reference
        power = ratio
        for _ in range(steps):
            power *= power
        total += power + FLAT * ratio
    return total


@njit(cache=True, nogil=True)
def price(links: Links) -> None:
    """Compute the cost of one more row on each leg."""
    reference, steps = links.scale[0], int(links.scale[1])
    num_parts, num_columns = links.rows_PL.shape
    exponent = 2.0**steps
    slope_D = np.empty(len(links.load_D), np.float64)
    for d in range(len(slope_D)):
        ratio = links.load_D[d] / reference
        power = 1.0
        square = ratio
        for _ in range(steps):  # ratio ** (2 ** steps - 1) is the product of ratio ** (2 ** i)
            power *= square
            square *= square
        slope_D[d] = links.second_D[d] / reference * (exponent * power + FLAT)
    for p in range(num_parts):
        for q in range(num_columns):
            total = links.scale[2] if p != q else 0.0
            for i in range(links.route_ptr[p * num_columns + q], links.route_ptr[p * num_columns + q + 1]):
                total += links.share[i] * slope_D[links.route[i]]
            links.price_PL[p, q] = total


@njit(cache=True, nogil=True)
def price_moves(links: Links) -> None:
    """Compute prices, and from them what a row costs part by part and group by group.

    A row that gets to a set of parts costs the sum of `last_PP` over the parts and of `enter_PK` over all groups that
    have one of them: whichever part of a group it enters first, each further one adds a leg inside the group.
    """
    price(links)
    num_parts, depths = links.group_PG.shape
    price_PL = links.price_PL
    for p in range(num_parts):
        for q in range(num_parts):
            shared = depths if p == q else links.depth_PP[p, q]
            links.first_leg_PP[q, p] = price_PL[p, links.enter_PP[p, q]]
            links.last_PP[p, q] = price_PL[p, q]
            for d in range(depths):
                first, group = links.first_PG[q, d], links.group_PG[q, d]
                if d < shared:
                    links.enter_PK[p, group] = 0.0
                    continue
                inside = price_PL[first, num_parts + d]
                before = price_PL[p, first] if d == shared else price_PL[links.first_PG[q, d - 1], num_parts + d - 1]
                links.enter_PK[p, group] = before - inside
                links.last_PP[p, q] = inside


@njit(cache=True, nogil=True)
def fits(limits: Limits, node: Any, source: Any, target: Any) -> Any:
    """Whether a move exceeds no limit, or exceeds one by less than the source part did before.

    The first limit is on nodes; no part gives its last one away.
    """
    if limits.held_PC[source, 0] <= limits.weight_XC[node, 0]:
        return False
    for c in range(limits.most_PC.shape[1]):
        weight = limits.weight_XC[node, c]
        if weight > 0.0:
            over = limits.held_PC[target, c] + weight - limits.most_PC[target, c]
            if over > 0.0:
                excess = (limits.held_PC[source, c] - limits.most_PC[source, c]) / limits.most_PC[source, c]
                if over / limits.most_PC[target, c] >= excess:
                    return False
    return True


@njit(cache=True, nogil=True)
def eases(limits: Limits, node: Any, source: Any, target: Any) -> Any:
    """Whether a move reduces the sum of all relative excesses."""
    if limits.held_PC[source, 0] <= limits.weight_XC[node, 0]:
        return False
    change = 0.0
    for c in range(limits.most_PC.shape[1]):
        weight = limits.weight_XC[node, c]
        if weight > 0.0:
            most = limits.most_PC[source, c]
            over = limits.held_PC[source, c] - most
            change += (max(0.0, over - weight) - max(0.0, over)) / most
            most = limits.most_PC[target, c]
            over = limits.held_PC[target, c] - most
            change += (max(0.0, over + weight) - max(0.0, over)) / most
    return change < -1e-12


@njit(cache=True, nogil=True)
def _groups_of(head: Any, slots: Any, bits_P: Any, leaving: Any) -> Any:
    """The groups that have a pin of a net, as bits; without the last pin in the part `leaving`."""
    begin, used = head[BEGIN], head[USED]
    bits = np.uint64(0)
    for i in range(len(bits_P) if used == DENSE else used):
        slot = slots[begin + i]
        if slot > 0:
            q, count = (i, slot) if used == DENSE else (slot >> COUNT_BITS, slot & COUNT_MASK)
            if q != leaving or count > 1:
                bits |= bits_P[q]
    return bits


@njit(cache=True, nogil=True)
def _add_where_held(total_P: Any, weight: Any, each_P: Any, count_P: Any) -> None:
    """Add `weight` times `each_P` where a net has pins; without a branch, so that several parts are done at once."""
    for part in range(len(total_P)):
        total_P[part] += weight * each_P[part] * (count_P[part] > 0)


@njit(cache=True, nogil=True)
def best_move(node: Any, state: State, anywhere: Any, easing: Any) -> Any:
    """The target part with the greatest gain by prices, and that gain; -1 if no move is allowed.

    Args:
        anywhere: whether parts without neighbours of the node are targets too.
        easing: whether a move must reduce the excess over limits, not just exceed none.
    """
    pins, part_X, links, limits, scratch = state
    num_parts, depths = links.group_PG.shape
    num_groups, words = links.enter_PK.shape[1], links.group_bits_PW.shape[1]
    source = np.int64(part_X[node])
    sent_P, got_P, saved_P = scratch.sent_P, scratch.got_P, scratch.saved_P
    sent_K, saved_K = scratch.sent_K, scratch.saved_K
    touched_P, is_touched_P = scratch.touched_P, scratch.is_touched_P
    slots, last_PP, enter_PK = pins.slots, links.last_PP, links.enter_PK
    touched, base, is_dense = np.int64(0), 0.0, False
    for net in range(pins.first_X[node], pins.first_X[node + 1]):
        head = pins.head_M4[net]
        begin, used, weight = head[BEGIN], head[USED], head[WEIGHT]
        if used == DENSE:
            _add_where_held(sent_P, np.float64(weight), scratch.one_P, slots[begin : begin + num_parts])
            is_dense = True
        for i in range(used):  # none if DENSE
            q = slots[begin + i] >> COUNT_BITS
            if not is_touched_P[q]:
                is_touched_P[q] = True
                touched_P[touched] = q
                touched += 1
            sent_P[q] += weight
        for word in range(words):
            bits = _groups_of(head, slots, links.group_bits_PW[:, word], np.int64(-1))
            for group in range(WORD * word, min(WORD * (word + 1), num_groups)):
                sent_K[group] += weight * np.float64(bits & np.uint64(1))
                bits >>= np.uint64(1)
    for q in range(num_parts if is_dense else 0):
        if sent_P[q] > 0.0 and not is_touched_P[q]:
            is_touched_P[q] = True
            touched_P[touched] = q
            touched += 1
    for k in range(pins.inc_ptr[node], pins.inc_ptr[node + 1]):
        head = pins.head_M4[pins.inc[k]]
        begin, used, p, weight = head[BEGIN], head[USED], head[HOME], head[WEIGHT]
        if not is_touched_P[p]:
            is_touched_P[p] = True
            touched_P[touched] = p
            touched += 1
        got_P[p] += weight
        leaves = False
        if used == DENSE:
            _add_where_held(saved_P, np.float64(weight), last_PP[p], slots[begin : begin + num_parts])
            leaves = p != source and slots[begin + source] == 1
        for i in range(used):  # none if DENSE
            q, count = slots[begin + i] >> COUNT_BITS, slots[begin + i] & COUNT_MASK
            saved_P[q] += weight * last_PP[p, q]
            leaves = leaves or (q == source and count == 1 and p != source)
        leg = links.first_leg_PP[source, p]
        for word in range(words):
            bits = _groups_of(head, slots, links.group_bits_PW[:, word], source)
            if leaves:
                for depth in range(links.depth_PP[p, source], depths):
                    group = links.group_PG[source, depth] - WORD * word
                    if 0 <= group < WORD and bits >> np.uint64(group) & np.uint64(1):
                        leg = links.price_PL[links.first_PG[source, depth], num_parts + depth]
            for group in range(WORD * word, min(WORD * (word + 1), num_groups)):
                saved_K[group] += weight * enter_PK[p, group] * np.float64(bits & np.uint64(1))
                bits >>= np.uint64(1)
        if leaves:
            base += weight * leg
    base += _sending_cost(state, source, touched)
    best, best_gain = -1, -np.inf
    for k in range(num_parts if anywhere else touched):
        target = k if anywhere else touched_P[k]
        if target == source:
            continue
        if not (eases(limits, node, source, target) if easing else fits(limits, node, source, target)):
            continue
        gain = base + saved_P[target] - _sending_cost(state, target, touched)
        for depth in range(depths):
            gain += saved_K[links.group_PG[target, depth]]
        for i in range(touched):
            p = touched_P[i]
            gain -= got_P[p] * links.first_leg_PP[target, p]
        if gain > best_gain:
            best, best_gain = target, gain
    for i in range(touched):
        part = touched_P[i]
        got_P[part] = 0.0
        sent_P[part] = 0.0
        is_touched_P[part] = False
    saved_P[:] = 0.0
    sent_K[:] = 0.0
    saved_K[:] = 0.0
    return best, best_gain


@njit(cache=True, nogil=True)
def _sending_cost(state: State, home: Any, touched: Any) -> Any:
    """The cost of the rows that a node sends if it lies in `home`."""
    links, scratch = state.links, state.scratch
    total = 0.0
    for i in range(touched):
        part = scratch.touched_P[i]
        total += scratch.sent_P[part] * links.last_PP[home, part]
    for group in range(len(scratch.sent_K)):
        total += scratch.sent_K[group] * links.enter_PK[home, group]
    return total


@njit(cache=True, nogil=True)
def move(node: Any, target: Any, state: State) -> None:
    """Move a node to another part, and update slots, rows, seconds and weights of parts."""
    pins, part_X, links, limits, scratch = state
    source = np.int64(part_X[node])
    found = scratch.touched_P
    for net in range(pins.first_X[node], pins.first_X[node + 1]):
        head = pins.head_M4[net]
        count, weight = _parts_of(head, pins.slots, found), np.int64(head[WEIGHT])
        add_legs(links, source, found[:count], -weight)
        add_legs(links, target, found[:count], weight)
        head[HOME] = target
    for i in range(pins.inc_ptr[node], pins.inc_ptr[node + 1]):
        head = pins.head_M4[pins.inc[i]]
        home, weight = np.int64(head[HOME]), np.int64(head[WEIGHT])
        left, entered = _take(head, pins.slots, source), _put(head, pins.slots, target)
        if not left and not entered:
            continue
        count = _parts_of(head, pins.slots, found)
        if entered and target != home:
            row, column = leg_of(links, home, target, found[:count])
            change(links, np.int64(row), np.int64(column), weight)
        if left and source != home:
            if entered:  # after `source` is taken from the parts that need the row, `target` is added to the others
                count = _without(found, count, target)
            row, column = leg_of(links, home, source, found[:count])
            change(links, np.int64(row), np.int64(column), -weight)
    part_X[node] = target
    for c in range(limits.held_PC.shape[1]):
        limits.held_PC[source, c] -= limits.weight_XC[node, c]
        limits.held_PC[target, c] += limits.weight_XC[node, c]


@njit(cache=True, nogil=True)
def _without(found: Any, count: Any, part: Any) -> Any:
    """Take a part out of the first `count` of `found`; how many are left."""
    for i in range(count):
        if found[i] == part:
            found[i] = found[count - 1]
            return count - 1
    return count


@njit(cache=True, nogil=True)
def find_boundary(pins: Pins, part_X: Any, num_parts: Any, active_X: Any) -> None:
    """Mark the nodes that a net joins to another part."""
    found = np.empty(num_parts, np.int64)
    for net in range(len(pins.root_M)):
        head = pins.head_M4[net]
        home, cut = head[HOME], False
        for i in range(_parts_of(head, pins.slots, found)):
            cut = cut or found[i] != home
        if cut:
            active_X[pins.root_M[net]] = True
            for i in range(pins.pin_ptr[net], pins.pin_ptr[net + 1]):
                if part_X[pins.pins[i]] != home:
                    active_X[pins.pins[i]] = True


@njit(cache=True, nogil=True)
def _wake(node: Any, source: Any, target: Any, pins: Pins, part_X: Any, active_X: Any) -> None:
    """Mark the neighbours whose gains may have risen by a move from `source` to `target` that has been made.

    Of a net of the node's own, these are the pins that are alone in their parts, whose row has another price now, and
    all pins if none was in `target`, where no row has to go any more. The root of a net that has the node as a pin
    gains only if the net has left `source` or is new in `target`. In dense graphs most nets have several pins in each
    part, and so few nodes are visited again.
    """
    for net in range(pins.first_X[node], pins.first_X[node + 1]):
        head = pins.head_M4[net]
        is_new = _count(head, pins.slots, target) == 0
        for i in range(pins.pin_ptr[net], pins.pin_ptr[net + 1]):
            pin = pins.pins[i]
            if not active_X[pin] and (is_new or _count(head, pins.slots, np.int64(part_X[pin])) == 1):
                active_X[pin] = True
    for i in range(pins.inc_ptr[node], pins.inc_ptr[node + 1]):
        net = pins.inc[i]
        head = pins.head_M4[net]
        if _count(head, pins.slots, source) == 0 or _count(head, pins.slots, target) == 1:
            active_X[pins.root_M[net]] = True


@njit(cache=True, nogil=True)
def _uniform() -> Any:
    return np.random.random()  # noqa: NPY002


@njit(cache=True, nogil=True)
def improve(order: Any, state: State, active_X: Any, temperature: Any, seed: Any) -> Any:
    """Visit nodes and make the moves that lower the cost; how many were made. `active_X` gets those to visit next.

    Args:
        temperature: above 0, a move that raises the cost by x is made too, with the probability exp(-x / temperature)
            (Kirkpatrick, Gelatt, Vecchi: Optimization by simulated annealing, 1983).
        seed: of the acceptance.
    """
    np.random.seed(seed)  # noqa: NPY002  of the kernel's own generator
    pins, part_X, links = state.pins, state.part_X, state.links
    moves, since = 0, 0
    price_moves(links)
    cost = cost_of(links)
    for node in order:
        slack = -temperature * np.log(1.0 - _uniform()) if temperature > 0.0 else 0.0
        target, gain = best_move(node, state, NO, NO)
        if target < 0 or gain <= -slack:
            continue
        source = np.int64(part_X[node])
        move(node, target, state)
        found = cost_of(links)
        if found >= cost + slack:
            move(node, source, state)
            continue
        cost = found
        moves += 1
        since += 1
        _wake(node, source, target, pins, part_X, active_X)
        if since == MOVES_A_PRICE:
            since = 0
            price_moves(links)
    return moves


@njit(cache=True, nogil=True)
def find_movable(nodes: Any, state: State, is_movable: Any) -> None:
    """Mark the nodes that have a move of positive gain, by the prices that are set."""
    for i in range(len(nodes)):
        target, gain = best_move(nodes[i], state, NO, NO)
        is_movable[i] = target >= 0 and gain > 0.0


@njit(cache=True, nogil=True)
def move_gains(nodes: Any, state: State, gain: Any, easing: Any) -> None:
    """The gain of the best move of each node to any part, by the prices that are set; -inf where no move is allowed.

    `easing`: a node with no move within the limits may make one that reduces the excess over them.
    """
    for i in range(len(nodes)):
        target, gain[i] = best_move(nodes[i], state, YES, NO)
        if target < 0 and easing:
            _, gain[i] = best_move(nodes[i], state, YES, YES)


@njit(cache=True, nogil=True)
def relieve(order: Any, state: State) -> Any:
    """Move nodes in this order out of parts that exceed a limit, until they do not; returns how many moved."""
    part_X, links, limits = state.part_X, state.links, state.limits
    num_limits = limits.most_PC.shape[1]
    moves, since = 0, 0
    price_moves(links)
    for node in order:
        source, helps = part_X[node], False
        for c in range(num_limits):
            if limits.weight_XC[node, c] > 0.0 and limits.held_PC[source, c] > limits.most_PC[source, c]:
                helps = True
        if not helps:
            continue
        target, _ = best_move(node, state, YES, NO)
        if target < 0:
            target, _ = best_move(node, state, YES, YES)
        if target < 0:
            continue
        move(node, target, state)
        moves += 1
        since += 1
        if since == MOVES_A_PRICE:
            since = 0
            price_moves(links)
    return moves
