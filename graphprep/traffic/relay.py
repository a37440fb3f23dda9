"""Relayed exchange: a row crosses the slow links once for each group of ranks behind them, and is passed on inside.

A row of part p that several ranks of another group need is sent to one of them, its relay, which passes it on to the
others over the links inside the group. Groups are nested (ranks of a machine, machines of a rack), so a row may take
several hops; those of the first hop are stage 1. A relay is always a rank that needs the row itself, so no rank
holds a row that it would not hold anyway, and every rank receives each row of its halo once. Backward the partial sums
take the same way in the other direction, and each relay adds its own to what it passes on.

Relays are chosen to make the seconds of the exchange small: the sum over the stages of the slowest link direction's
seconds, since a relay has a row to pass on only when it has arrived. All rows begin as direct sends. Then every row is
chosen anew, some passes long: at each level of groups the relay whose hops are the cheapest, or no relay there. The
price of a hop is the derivative of the p-norm of the links' seconds, which is updated after every block of rows; so
rows move to the links that have room. Rows are walked in one order by one thread: the result depends on nothing else.

DGCL (Cai et al., EuroSys 2021) plans such trees over GPUs too, with relays that need not use the row, and stages that
all ranks begin together. Here a row takes no further memory, and a relay passes on the rows of a group of owners as
soon as it has them: owners that share links arrive at about the same time.

Letters: P parts, R rows that one part sends, a row that two parts need counted twice; L levels of groups, S stages,
D link directions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.topology import Topology
from graphprep.topology.groups import group_levels, rank_groups
from graphprep.traffic.counts import Assignments, Matrices, RelayedRows, Traffic, check_assignments
from graphprep.traffic.links import LinkModel, link_seconds

PASSES = 3
BLOCKS = 128
"""Times that prices are updated in each pass."""
POWER = 8.0
"""of the norm that stands for the maximum"""
LEAST_WEIGHT = 1e-3
"""of a link direction that carries little, so that no hop is free"""
MOST_CANDIDATES = 16
"""Ranks of a group that are tried as the relay of one row."""
LEAST_GAIN = 0.1
"""Share of the seconds without relays that relays have to save: the model errs by as much on a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SentRows:
    """What one part sends in one exchange: for each other part the rows that it needs."""

    row_R: NDArray[np.int64]
    """part after part; the numbers of the rows ascend for each part"""
    counts_P: NDArray[np.int64]
    """how many go to each part"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Relays:
    """The way of every row."""

    traffic: RelayedRows
    batch_P: NDArray[np.int32]
    """The top group of each owner: a relay passes on the rows of all owners of one such group in one message."""
    via: Sequence[NDArray[np.int16]]
    """by owner, in the order of its `SentRows`: the rank from which the row arrives"""
    stage: Sequence[NDArray[np.uint8]]
    """likewise: the hops that it has made then, from 1"""


SentRowsOf = Callable[[int], SentRows]
Allocate = Callable[[str, int, Any], NDArray[Any]]
"""(name, length, dtype) -> an array that need not be in memory"""


def choose_relays(
    sent_rows: SentRowsOf,
    topology: Topology,
    row_bytes: int,
    *,
    allocate: Allocate = lambda _name, length, dtype: np.empty(length, dtype),
) -> Relays | None:
    """The relays of all rows; None where the exchange is as fast, or faster, without any.

    Args:
        sent_rows: what each part sends; called several times for each.
        topology: ranks, links and routes; part p is on rank p.
        row_bytes: bytes of one row in one exchange.
        allocate: makes the arrays of the result, 3 bytes a row sent.
    """
    level_LP = group_levels(rank_groups(topology))
    if not len(level_LP):
        return None
    model = LinkModel.of(topology)
    num_ranks = topology.num_ranks
    place_P = np.empty(num_ranks, np.int64)
    place_P[np.lexsort(level_LP[::-1])] = np.arange(num_ranks)
    rows_SPP = np.zeros((len(level_LP) + 1, num_ranks, num_ranks), np.int64)
    via, stage = [], []
    for owner in range(num_ranks):
        counts_P = sent_rows(owner).counts_P
        rows_SPP[0, owner] = counts_P
        via.append(allocate(f"via-{owner}", int(counts_P.sum()), np.dtype(np.int16)))
        stage.append(allocate(f"stage-{owner}", int(counts_P.sum()), np.dtype(np.uint8)))
        via[owner][:], stage[owner][:] = owner, 1
    direct_PP = rows_SPP[0].copy()
    prices = _Prices(model, row_bytes, rows_SPP)
    for _ in range(PASSES):
        for owner in range(num_ranks):
            target_R, order_R, first_M = _by_row(sent_rows(owner), place_P)
            begin = 0
            while begin < len(first_M) - 1:
                end = prices.end_of_block(first_M, begin)
                by_row = (first_M, order_R, target_R)
                _choose(owner, begin, end, *by_row, level_LP, prices.price_SPP, via[owner], stage[owner], rows_SPP)
                begin = end
    batch_P = level_LP[0]
    messages_SPP = count_messages(sent_rows, rows_SPP, batch_P, via, stage)
    used = max((int(number) for number in np.flatnonzero(rows_SPP.any(axis=(1, 2)))), default=0) + 1
    traffic = RelayedRows(rows_SPP=rows_SPP[:used], messages_SPP=messages_SPP[:used])
    if not _is_faster(traffic, direct_PP, model, row_bytes):
        return None
    return Relays(traffic=traffic, batch_P=batch_P, via=via, stage=stage)


def sent_rows_of(csrs: Matrices, assignments: Assignments, num_parts: int) -> SentRowsOf:
    """What each part sends, from a graph in memory; nodes of all types are counted type after type.

    Raises:
        PartitionError: as `count_traffic`.
    """
    check_assignments(csrs, assignments, num_parts)
    owners, numbers, targets, first = [], [], [], 0
    for node_type, part_N in assignments.items():
        pairs = [np.empty(0, np.int64)]
        for kind, csr in csrs.items():
            if kind.source == node_type:
                into_E = np.repeat(assignments[kind.destination], np.diff(csr.indptr)).astype(np.int64)
                pairs.append(np.unique(csr.indices.astype(np.int64) * num_parts + into_E))
        node, into = np.divmod(np.unique(np.concatenate(pairs)), num_parts)
        leaves = part_N[node] != into
        owners.append(part_N[node[leaves]].astype(np.int64))
        numbers.append(first + node[leaves])
        targets.append(into[leaves])
        first += len(part_N)
    owner, number, target = (np.concatenate([np.empty(0, np.int64), *found]) for found in (owners, numbers, targets))
    order = np.lexsort((number, target, owner))
    bounds = np.searchsorted(owner[order], np.arange(num_parts + 1))

    def of(part: int) -> SentRows:
        chosen = order[bounds[part] : bounds[part + 1]]
        return SentRows(row_R=number[chosen], counts_P=np.bincount(target[chosen], minlength=num_parts))

    return of


def fault(relays: Relays, sent_rows: SentRowsOf) -> str | None:
    """Why the ways of some rows are none, or are counted wrongly; None if all is well.

    A row arrives from its owner in stage 1, or from a rank that it had reached in the stage before.
    """
    rows_SPP = np.zeros(relays.traffic.rows_SPP.shape, np.int64)
    for owner, (via_R, stage_R) in enumerate(zip(relays.via, relays.stage, strict=True)):
        rows = sent_rows(owner)
        target_R = np.repeat(np.arange(len(rows.counts_P)), rows.counts_P)
        np.add.at(rows_SPP, (stage_R.astype(np.int64) - 1, via_R, target_R), 1)
        if ((stage_R == 1) != (via_R == owner)).any():
            return f"a row of part {owner} arrives in stage 1 from another part, or later from its owner"
        span = int(rows.row_R.max(initial=0)) + 1
        key_R, passed_on = target_R * span + rows.row_R, np.flatnonzero(stage_R > 1)
        wanted = via_R[passed_on].astype(np.int64) * span + rows.row_R[passed_on]
        place = np.minimum(np.searchsorted(key_R, wanted), len(key_R) - 1)
        if (key_R[place] != wanted).any() or (stage_R[place] + 1 != stage_R[passed_on]).any():
            return f"a row of part {owner} is passed on by a part that does not have it in the stage before"
    if not np.array_equal(rows_SPP, relays.traffic.rows_SPP):
        return "the rows of relayed exchange are not those that are counted"
    messages_SPP = count_messages(sent_rows, rows_SPP, relays.batch_P, relays.via, relays.stage)
    if not np.array_equal(messages_SPP, relays.traffic.messages_SPP):
        return "the messages of relayed exchange are not those that are counted"
    return None


def with_relays(traffic: Traffic, relays: Relays | None) -> Traffic:
    """The same traffic with relays, or without any."""
    return replace(traffic, relayed=None if relays is None else relays.traffic)


def _by_row(
    rows: SentRows, place_P: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """For each place of `rows` its target, int32 [R]; the places row by row, those of a group side by side, int64 [R];
    and where each row begins among them, int64 [rows + 1]."""
    target_R = np.repeat(np.arange(len(rows.counts_P), dtype=np.int32), rows.counts_P)
    by_place = np.argsort(place_P[target_R], kind="stable")  # the rows of a part ascend, so this is a merge
    order_R = by_place[np.argsort(rows.row_R[by_place], kind="stable")]
    begins_R = np.diff(rows.row_R[order_R], prepend=-1) != 0
    return target_R, order_R, np.append(np.flatnonzero(begins_R), len(order_R))


class _Prices:
    """What one more row from rank to rank adds to the norm of the links' seconds, by stage."""

    def __init__(self, model: LinkModel, row_bytes: int, rows_SPP: NDArray[np.int64]) -> None:
        """`rows_SPP`: what is sent now; looked at again whenever the prices are updated."""
        self._model, self._row_bytes, self._rows_SPP = model, row_bytes, rows_SPP
        self._block = max(1, int(rows_SPP.sum()) // BLOCKS)
        self._left = 0
        """rows until the next update"""
        self.price_SPP = np.zeros(rows_SPP.shape)

    def end_of_block(self, first_M: NDArray[np.int64], begin: int) -> int:
        """Up to which row of an owner, from `begin` on, the same prices hold; they are updated first if it is time."""
        if self._left <= 0:
            self._update()
            self._left = self._block
        end = max(begin + 1, int(np.searchsorted(first_M, first_M[begin] + self._left, side="right")) - 1)
        self._left -= int(first_M[end] - first_M[begin])
        return end

    def _update(self) -> None:
        model = self._model
        for rows_PP, price_PP in zip(self._rows_SPP, self.price_SPP, strict=True):
            seconds_D = model.carried(rows_PP) * self._row_bytes / model.bytes_per_s_D
            largest = seconds_D.max(initial=0.0)
            share_D = seconds_D / largest if largest else np.ones(len(seconds_D))
            weight_D = np.maximum((share_D / np.linalg.norm(share_D, POWER)) ** (POWER - 1), LEAST_WEIGHT)
            price_D = weight_D * self._row_bytes / model.bytes_per_s_D
            price_PP[:] = (model.crossed.T @ price_D).reshape(price_PP.shape)


def count_messages(
    sent_rows: SentRowsOf,
    rows_SPP: NDArray[np.int64],
    batch_P: NDArray[np.int32],
    via: Sequence[NDArray[np.int16]],
    stage: Sequence[NDArray[np.uint8]],
) -> NDArray[np.int64]:
    """int64 [S, P, P]: messages from rank to rank in each stage."""
    messages_SPP = np.zeros(rows_SPP.shape, np.int64)
    for batch in np.unique(batch_P):
        has_rows_SPP = np.zeros(rows_SPP.shape, np.bool_)
        for owner in np.flatnonzero(batch_P == batch).tolist():
            counts_P = sent_rows(owner).counts_P
            has_rows_SPP[stage[owner] - 1, via[owner], np.repeat(np.arange(len(counts_P)), counts_P)] = True
        messages_SPP += has_rows_SPP
    messages_SPP[0] = rows_SPP[0] > 0
    return messages_SPP


def _is_faster(relayed: RelayedRows, direct_PP: NDArray[np.int64], model: LinkModel, row_bytes: int) -> bool:
    """Whether neither the exchange nor its reverse is slower than without relays, and both together are faster."""
    if len(relayed.rows_SPP) < 2:
        return False
    nothing_P = np.zeros(len(direct_PP), np.int64)
    direct = Traffic(rows_PP=direct_PP, edges_PP=direct_PP, local_edges_P=nothing_P)
    both = Traffic(rows_PP=direct_PP, edges_PP=direct_PP, local_edges_P=nothing_P, relayed=relayed)
    before, after = (
        [link_seconds(one, model, row_bytes).bottleneck_seconds for one in (traffic, traffic.reversed())]
        for traffic in (direct, both)
    )
    return after[0] <= before[0] and after[1] <= before[1] and sum(after) <= (1 - LEAST_GAIN) * sum(before)


@njit(cache=True, nogil=True)
def _best_relay(
    source: Any, stage: Any, member_M: Any, begin: Any, end: Any, offset: Any, price_SPP: Any
) -> tuple[float, int]:
    """The cheapest relay of members begin .. end-1: the price of its hops, and its place among them."""
    best, best_price, step = begin, np.inf, (end - begin + MOST_CANDIDATES - 1) // MOST_CANDIDATES
    for candidate in range(begin + offset % step, end, step):
        relay = member_M[candidate]
        price = price_SPP[stage, source, relay]
        for m in range(begin, end):
            if m != candidate:
                price += price_SPP[stage + 1, relay, member_M[m]]
        if price < best_price:
            best, best_price = candidate, price
    return best_price, best


@njit(cache=True, nogil=True)
def _direct_price(source: Any, stage: Any, member_M: Any, begin: Any, end: Any, price_SPP: Any) -> float:
    price = 0.0
    for m in range(begin, end):
        price += price_SPP[stage, source, member_M[m]]
    return price


@njit(cache=True, nogil=True)
def _end_of_group(level: Any, member_M: Any, begin: Any, end: Any, level_LP: Any) -> int:
    """Where the group of member `begin` on a level ends."""
    for m in range(begin + 1, end):
        if level_LP[level, member_M[m]] != level_LP[level, member_M[begin]]:
            return m
    return int(end)


@njit(cache=True, nogil=True)
def _choose(
    owner: Any,
    first: Any,
    last: Any,
    first_M: Any,
    order_R: Any,
    target_R: Any,
    level_LP: Any,
    price_SPP: Any,
    via_R: Any,
    stage_R: Any,
    rows_SPP: Any,
) -> None:
    """Choose the way of rows first .. last-1 of one owner anew, at fixed prices.

    Ranges of members that still have no way are on a stack: members[begin:end] get the row from `source`, which has it
    after `stage` hops less 1, and which is in one group with them on every level above `level`.
    """
    num_levels, num_parts = level_LP.shape
    member_M, place_M = np.empty(num_parts, np.int64), np.empty(num_parts, np.int64)
    stack = np.empty((2 * num_parts + num_levels + 2, 5), np.int64)
    for row in range(first, last):
        count = first_M[row + 1] - first_M[row]
        if count < 2:
            continue
        for m in range(count):
            place = order_R[first_M[row] + m]
            place_M[m], member_M[m] = place, target_R[place]
            rows_SPP[stage_R[place] - 1, via_R[place], target_R[place]] -= 1
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3], stack[0, 4] = owner, 0, 1, 0, count
        depth = 1
        while depth:
            depth -= 1
            source, level, stage = stack[depth, 0], stack[depth, 1], stack[depth, 2]
            begin, stop = stack[depth, 3], stack[depth, 4]
            while begin < stop:
                if level == num_levels:
                    via_R[place_M[begin]], stage_R[place_M[begin]] = source, stage
                    begin += 1
                    continue
                end = _end_of_group(level, member_M, begin, stop, level_LP)
                next_source, next_level, next_stage, next_begin = source, level + 1, stage, begin
                if level_LP[level, source] != level_LP[level, member_M[begin]] and end - begin > 1:
                    price, relay = _best_relay(source, stage - 1, member_M, begin, end, row, price_SPP)
                    without, m = 0.0, begin
                    while m < end:
                        m_end = end
                        if level + 1 < num_levels:
                            m_end = _end_of_group(level + 1, member_M, m, end, level_LP)
                        of_group = _direct_price(source, stage - 1, member_M, m, m_end, price_SPP)
                        if level + 1 < num_levels and m_end - m > 1:
                            of_group = min(
                                of_group, _best_relay(source, stage - 1, member_M, m, m_end, row, price_SPP)[0]
                            )
                        without += of_group
                        m = m_end
                    if price < without:
                        via_R[place_M[relay]], stage_R[place_M[relay]] = source, stage
                        chosen, place = member_M[relay], place_M[relay]
                        for m in range(relay, begin, -1):  # the others keep their order
                            member_M[m], place_M[m] = member_M[m - 1], place_M[m - 1]
                        member_M[begin], place_M[begin] = chosen, place
                        next_source, next_stage, next_begin = chosen, stage + 1, begin + 1
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = next_source, next_level, next_stage
                stack[depth, 3], stack[depth, 4] = next_begin, end
                depth += 1
                begin = end
        for m in range(count):
            place = order_R[first_M[row] + m]
            rows_SPP[stage_R[place] - 1, via_R[place], target_R[place]] += 1
