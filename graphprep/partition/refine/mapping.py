"""Map parts to ranks so that the traffic between parts takes the slowest link the fewest seconds.

Up to `EXACT_RANKS` ranks all permutations are enumerated (by swaps: Heap 1963, so each step costs the pairs of two
ranks); above that, local search swaps ranks from several initial permutations until no swap helps, as process
mappers do (quadratic assignment: Walshaw, Cross: Multilevel mesh partitioning for heterogeneous communication
networks, 2001). Ranks with target shares of different size never swap.

Letters: P parts and ranks, D link directions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.partition.refine import refine_kernels as kernels
from graphprep.partition.refine.refine_kernels import Links

EXACT_RANKS = 8
STARTS = 8
MOST_CHANGES = 100_000_000
"""Pairs of ranks whose rows may be taken off links or put on them, in all: some seconds. A swap that is tried and
taken back changes 8 P of them, so hundreds of ranks get one start and as many sweeps as that allows."""
STEEP = 16.0
"""K of the norm that swaps minimise"""


def best_mapping(
    rows_PP: NDArray[np.int64],
    links: Links,
    shares_P: NDArray[np.float64],
    *,
    seed: int,
    by_total: bool = False,
) -> NDArray[np.int32]:
    """The rank of each part.

    Args:
        rows_PP: int64 [P, P], what part p sends to part q.
        links: of the ranks; their loads are overwritten.
        shares_P: float64 [P], the share of each rank, which part p was made for as rank p.
        seed: of the random starts.
        by_total: minimise the sum of all seconds, not those of the slowest link direction.

    Returns:
        int32 [P]: a permutation that is no worse than leaving each part where it is.
    """
    num_parts = len(rows_PP)
    group_P = np.unique(np.round(shares_P * 1e9).astype(np.int64), return_inverse=True)[1].astype(np.int64)
    identity = np.arange(num_parts, dtype=np.int32)
    if num_parts <= EXACT_RANKS:
        best: NDArray[np.int32] = _all_permutations(identity, rows_PP, group_P, links, by_total)
        return best
    rng = np.random.default_rng(seed)
    trials = MOST_CHANGES // (8 * num_parts)
    starts = [identity]
    for _ in range(min(STARTS, trials // num_parts**2) - 1):
        start = identity.copy()
        for group in np.unique(group_P):
            members = np.flatnonzero(group_P == group)
            start[members] = rng.permutation(members)
        starts.append(start)
    each = trials // len(starts)
    steep = 1.0 if by_total else STEEP
    found = [_local_search(start, rows_PP, group_P, links, each, steep) for start in starts]
    return min(found, key=lambda way: way[1][::-1] if by_total else way[1])[0]


def _local_search(
    start: NDArray[np.int32],
    rows_PP: NDArray[np.int64],
    group_P: NDArray[np.int64],
    links: Links,
    trials: int,
    steep: float,
) -> tuple[NDArray[np.int32], tuple[float, float]]:
    """Local search from one permutation: the result, and its seconds of the slowest link direction and of all."""
    rank_P = start.copy()
    _swap_until_none_helps(rank_P, rows_PP, group_P, links, trials, steep)
    return rank_P, (float(links.load_D.max(initial=0.0)), float(links.load_D.sum()))


@njit(cache=True, nogil=True)
def _swap(i: Any, j: Any, rank_P: Any, rows_PP: Any, links: Links) -> None:
    """Swap the ranks of parts i and j."""
    for sign in (-1, 1):
        for p in range(len(rank_P)):
            for q in (i, j):
                if p != i and p != j:
                    if rows_PP[p, q]:
                        kernels.change(links, np.int64(rank_P[p]), np.int64(rank_P[q]), sign * rows_PP[p, q])
                    if rows_PP[q, p]:
                        kernels.change(links, np.int64(rank_P[q]), np.int64(rank_P[p]), sign * rows_PP[q, p])
        if rows_PP[i, j]:
            kernels.change(links, np.int64(rank_P[i]), np.int64(rank_P[j]), sign * rows_PP[i, j])
        if rows_PP[j, i]:
            kernels.change(links, np.int64(rank_P[j]), np.int64(rank_P[i]), sign * rows_PP[j, i])
        if sign < 0:
            rank_P[i], rank_P[j] = rank_P[j], rank_P[i]


@njit(cache=True, nogil=True)
def _objective(links: Links, by_total: Any) -> Any:
    """The objective, and the tie-breaker."""
    most, total = links.load_D.max() if len(links.load_D) else 0.0, links.load_D.sum()
    return (total, most) if by_total else (most, total)


@njit(cache=True, nogil=True)
def _all_permutations(start: Any, rows_PP: Any, group_P: Any, links: Links, by_total: Any) -> Any:
    num_parts = len(start)
    rank_P, best_P = start.copy(), start.copy()
    kernels.set_loads(links, rows_PP, rank_P)
    best, second = _objective(links, by_total)
    counter = np.zeros(num_parts, np.int64)
    i: Any = np.int64(1)
    while i < num_parts:
        if counter[i] < i:
            _swap(np.int64(0) if i % 2 == 0 else counter[i], i, rank_P, rows_PP, links)
            allowed = True
            for p in range(num_parts):
                allowed = allowed and group_P[p] == group_P[rank_P[p]]
            if allowed:
                found, then = _objective(links, by_total)
                if found < best * (1 - 1e-9) or (found <= best * (1 + 1e-9) and then < second * (1 - 1e-9)):
                    best, second = found, then
                    best_P[:] = rank_P
            counter[i] += 1
            i = 1
        else:
            counter[i] = 0
            i += 1
    return best_P


@njit(cache=True, nogil=True)
def _norm(links: Links, reference: Any, steep: Any) -> Any:
    total = 0.0
    for load in links.load_D:
        ratio = load / reference
        total += ratio**steep + kernels.FLAT * ratio
    return total


@njit(cache=True, nogil=True)
def _swap_until_none_helps(rank_P: Any, rows_PP: Any, group_P: Any, links: Links, trials: Any, steep: Any) -> None:
    num_parts, tried = len(rank_P), 0
    kernels.set_loads(links, rows_PP, rank_P)
    better = True
    while better:
        better = False
        reference = links.load_D.max()
        if reference <= 0.0:
            return
        cost = _norm(links, reference, steep)
        for i in range(num_parts):
            for j in range(i + 1, num_parts):
                if group_P[i] != group_P[j]:
                    continue
                if tried == trials:
                    return
                tried += 1
                _swap(i, j, rank_P, rows_PP, links)
                found = _norm(links, reference, steep)
                if found < cost * (1 - 1e-12):
                    cost, better = found, True
                else:
                    _swap(i, j, rank_P, rows_PP, links)
