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
COUNT_BITS = 16
COUNT_MASK = (1 << COUNT_BITS) - 1


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


class Limits(NamedTuple):
    """What each node weighs, what each part holds, and what it may hold."""

    weight_XC: NDArray[np.float64]
    held_PC: NDArray[np.float64]
    most_PC: NDArray[np.float64]


class Scratch(NamedTuple):
    """Work arrays for the gains of one node; G is the depth of the groups that relays pass rows on in."""

    sent_PG: NDArray[np.float64]
    """[P, G + 1]: rows that the node sends into each group, by its first rank and depth; into each part in the last
    column"""
    got_P: NDArray[np.float64]
    saved_PG: NDArray[np.float64]
    """[P, G + 1]: what targets inside each group save, since the group, or the part, has the row already"""
    seen_PG: NDArray[np.int64]
    """[P, G + 1]: the last visit that met the group"""
    visits: NDArray[np.int64]
    """[1]: the number of visits that `seen_PG` counts"""
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
def fill_slots(pins: Pins, part_X: Any, num_parts: Any) -> None:
    """Fill heads and slots; WEIGHT is there already."""
    at = 0
    for net in range(len(pins.root_M)):
        head = pins.head_M4[net]
        size = pins.pin_ptr[net + 1] - pins.pin_ptr[net]
        head[BEGIN], head[HOME] = at, part_X[pins.root_M[net]]
        if size >= num_parts:
            head[USED] = DENSE
            pins.slots[at : at + num_parts] = 0
            at += num_parts
        else:
            head[USED] = 0
            at += size
        for i in range(pins.pin_ptr[net], pins.pin_ptr[net + 1]):
            _put(head, pins.slots, part_X[pins.pins[i]])


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
                change(links, rank_P[p], rank_P[q], rows_PP[p, q])


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
            change(links, row, column, rows)


@njit(cache=True, nogil=True)
def count_rows(pins: Pins, links: Links) -> None:
    """Set the loads of links from the slots."""
    found = np.empty(len(links.rows_PL), np.int64)
    clear_loads(links)
    for net in range(len(pins.root_M)):
        head = pins.head_M4[net]
        count = _parts_of(head, pins.slots, found)
        add_legs(links, head[HOME], found[:count], head[WEIGHT])


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
def _save(state: State, home: Any, part: Any, weight: Any) -> None:
    """Record that `part` has a row of `home`: what a node that needs it saves there, and elsewhere in its groups."""
    links, scratch = state.links, state.scratch
    num_parts, groups = len(links.rows_PL), links.first_PG.shape[1]
    cost = links.price_PL[home, links.enter_PP[home, part]]
    for depth in range(links.depth_PP[home, part] + 1, groups + 1):
        first = links.first_PG[part, depth - 1]
        inside = links.price_PL[first, num_parts + depth - 1]
        if scratch.seen_PG[first, depth - 1] != scratch.visits[0]:
            scratch.seen_PG[first, depth - 1] = scratch.visits[0]
            scratch.saved_PG[first, depth - 1] += weight * (cost - inside)
        cost = inside
    scratch.saved_PG[part, groups] += weight * cost


@njit(cache=True, nogil=True)
def _send(state: State, part: Any, weight: Any) -> None:
    """Record that a row of the node goes to `part`, and so into its groups."""
    links, scratch = state.links, state.scratch
    groups = links.first_PG.shape[1]
    for depth in range(1, groups + 1):
        first = links.first_PG[part, depth - 1]
        if scratch.seen_PG[first, depth - 1] != scratch.visits[0]:
            scratch.seen_PG[first, depth - 1] = scratch.visits[0]
            scratch.sent_PG[first, depth - 1] += weight
    scratch.sent_PG[part, groups] += weight


@njit(cache=True, nogil=True)
def _sending_cost(state: State, home: Any, touched: Any) -> Any:
    """The cost of the rows that `_send` recorded if the node lies in `home`."""
    links, scratch = state.links, state.scratch
    num_parts, groups = len(links.rows_PL), links.first_PG.shape[1]
    sent_PG, seen_PG = scratch.sent_PG, scratch.seen_PG
    scratch.visits[0] += 1
    total = 0.0
    for i in range(touched):
        part = scratch.touched_P[i]
        if part == home or sent_PG[part, groups] == 0.0:
            continue
        column, depth = links.enter_PP[home, part], links.depth_PP[home, part]
        cost = links.price_PL[home, column]
        for d in range(depth, groups):  # its groups of depth d + 1, none of which has `home`
            first = links.first_PG[part, d]
            if seen_PG[first, d] != scratch.visits[0]:
                seen_PG[first, d] = scratch.visits[0]
                total += sent_PG[first, d] * (cost - links.price_PL[first, num_parts + d])
            cost = links.price_PL[first, num_parts + d]
        total += sent_PG[part, groups] * cost
    return total


@njit(cache=True, nogil=True)
def best_move(node: Any, state: State, anywhere: Any, easing: Any) -> Any:
    """The target part with the greatest gain by prices, and that gain; -1 if no move is allowed.

    Args:
        anywhere: whether parts without neighbours of the node are targets too.
        easing: whether a move must reduce the excess over limits, not just exceed none.
    """
    pins, part_X, links, limits, scratch = state
    num_parts, groups = len(links.rows_PL), links.first_PG.shape[1]
    source = part_X[node]
    sent_PG, got_P, saved_PG = scratch.sent_PG, scratch.got_P, scratch.saved_PG
    touched_P, is_touched_P = scratch.touched_P, scratch.is_touched_P
    slots = pins.slots
    touched, base = 0, 0.0
    for net in range(pins.first_X[node], pins.first_X[node + 1]):
        head = pins.head_M4[net]
        begin, used, weight = head[BEGIN], head[USED], head[WEIGHT]
        scratch.visits[0] += 1
        for i in range(num_parts if used == DENSE else used):
            slot = slots[begin + i]
            if slot > 0:
                q = i if used == DENSE else slot >> COUNT_BITS
                if not is_touched_P[q]:
                    is_touched_P[q] = True
                    touched_P[touched] = q
                    touched += 1
                _send(state, q, weight)
    for k in range(pins.inc_ptr[node], pins.inc_ptr[node + 1]):
        head = pins.head_M4[pins.inc[k]]
        begin, used, p, weight = head[BEGIN], head[USED], head[HOME], head[WEIGHT]
        if not is_touched_P[p]:
            is_touched_P[p] = True
            touched_P[touched] = p
            touched += 1
        got_P[p] += weight
        scratch.visits[0] += 1
        leaves, deepest = False, 0
        for i in range(num_parts if used == DENSE else used):
            slot = slots[begin + i]
            if slot > 0:
                q, count = (i, slot) if used == DENSE else (slot >> COUNT_BITS, slot & COUNT_MASK)
                if q == source and count == 1:
                    leaves = p != source
                elif q != p:
                    _save(state, p, q, weight)
                    if q != source:
                        deepest = max(deepest, links.depth_PP[q, source])
        if leaves and deepest > links.depth_PP[p, source]:
            base += weight * links.price_PL[links.first_PG[source, deepest - 1], num_parts + deepest - 1]
        elif leaves:
            base += weight * links.price_PL[p, links.enter_PP[p, source]]
    base += _sending_cost(state, source, touched)
    best, best_gain = -1, -np.inf
    for k in range(num_parts if anywhere else touched):
        target = k if anywhere else touched_P[k]
        if target == source:
            continue
        if not (eases(limits, node, source, target) if easing else fits(limits, node, source, target)):
            continue
        gain = base + saved_PG[target, groups] - _sending_cost(state, target, touched)
        for depth in range(groups):
            gain += saved_PG[links.first_PG[target, depth], depth]
        for i in range(touched):
            p = touched_P[i]
            gain -= got_P[p] * links.price_PL[p, links.enter_PP[p, target]]
        if gain > best_gain:
            best, best_gain = target, gain
    for i in range(touched):
        part = touched_P[i]
        got_P[part] = 0.0
        is_touched_P[part] = False
    sent_PG[:] = 0.0
    saved_PG[:] = 0.0
    return best, best_gain


@njit(cache=True, nogil=True)
def move(node: Any, target: Any, state: State) -> None:
    """Move a node to another part, and update slots, rows, seconds and weights of parts."""
    pins, part_X, links, limits, scratch = state
    source = part_X[node]
    found = scratch.touched_P
    for net in range(pins.first_X[node], pins.first_X[node + 1]):
        head = pins.head_M4[net]
        count = _parts_of(head, pins.slots, found)
        add_legs(links, source, found[:count], -head[WEIGHT])
        add_legs(links, target, found[:count], head[WEIGHT])
        head[HOME] = target
    for i in range(pins.inc_ptr[node], pins.inc_ptr[node + 1]):
        head = pins.head_M4[pins.inc[i]]
        home = head[HOME]
        left, entered = _take(head, pins.slots, source), _put(head, pins.slots, target)
        if not left and not entered:
            continue
        count = _parts_of(head, pins.slots, found)
        if entered and target != home:
            row, column = leg_of(links, home, target, found[:count])
            change(links, row, column, head[WEIGHT])
        if left and source != home:
            if entered:  # after `source` is taken from the parts that need the row, `target` is added to the others
                count = _without(found, count, target)
            row, column = leg_of(links, home, source, found[:count])
            change(links, row, column, -head[WEIGHT])
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
def _wake(node: Any, pins: Pins, active_X: Any) -> None:
    """Mark a node's neighbours, whose gains have changed."""
    for net in range(pins.first_X[node], pins.first_X[node + 1]):
        for i in range(pins.pin_ptr[net], pins.pin_ptr[net + 1]):
            active_X[pins.pins[i]] = True
    for i in range(pins.inc_ptr[node], pins.inc_ptr[node + 1]):
        active_X[pins.root_M[pins.inc[i]]] = True


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
    price(links)
    cost = cost_of(links)
    for node in order:
        slack = -temperature * np.log(1.0 - _uniform()) if temperature > 0.0 else 0.0
        target, gain = best_move(node, state, False, False)
        if target < 0 or gain <= -slack:
            continue
        source = part_X[node]
        move(node, target, state)
        found = cost_of(links)
        if found >= cost + slack:
            move(node, source, state)
            continue
        cost = found
        moves += 1
        since += 1
        _wake(node, pins, active_X)
        if since == MOVES_A_PRICE:
            since = 0
            price(links)
    return moves


@njit(cache=True, nogil=True)
def move_gains(nodes: Any, state: State, gain: Any, easing: Any) -> None:
    """The gain of the best move of each node to any part, by prices; -inf where no move is allowed.

    `easing`: a node with no move within the limits may make one that reduces the excess over them.
    """
    price(state.links)
    for i in range(len(nodes)):
        target, gain[i] = best_move(nodes[i], state, True, False)
        if target < 0 and easing:
            _, gain[i] = best_move(nodes[i], state, True, True)


@njit(cache=True, nogil=True)
def relieve(order: Any, state: State) -> Any:
    """Move nodes in this order out of parts that exceed a limit, until they do not; returns how many moved."""
    part_X, links, limits = state.part_X, state.links, state.limits
    num_limits = limits.most_PC.shape[1]
    moves, since = 0, 0
    price(links)
    for node in order:
        source, helps = part_X[node], False
        for c in range(num_limits):
            if limits.weight_XC[node, c] > 0.0 and limits.held_PC[source, c] > limits.most_PC[source, c]:
                helps = True
        if not helps:
            continue
        target, _ = best_move(node, state, True, False)
        if target < 0:
            target, _ = best_move(node, state, True, True)
        if target < 0:
            continue
        move(node, target, state)
        moves += 1
        since += 1
        if since == MOVES_A_PRICE:
            since = 0
            price(links)
    return moves
