"""The policies by their names. Letters: N nodes of a type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import EdgeType
from graphprep.sampling.neighbour_source import NeighbourSource
from graphprep.sampling.row_cache.belady import BeladyCache
from graphprep.sampling.row_cache.fixed import FixedCache
from graphprep.sampling.row_cache.lru import LruCache
from graphprep.sampling.row_cache.plan import RowCache

POLICIES = {
    "belady": "the rows that known batches need soonest",
    "vip": "those that a batch needs most probably, by the fanouts (SALIENT++)",
    "degree": "those of nodes with most neighbours (PaGraph)",
    "presampled": "those that most batches of an epoch drawn beforehand need (GNNLab)",
    "lru": "those that were used last",
}


def scores_of(
    policy: str,
    neighbours: NeighbourSource,
    *,
    fanouts: Mapping[EdgeType, Sequence[int]],
    seed_probability: Mapping[str, NDArray[np.float64]],
    presampled: Callable[[], Mapping[str, NDArray[Any]]],
) -> Mapping[str, NDArray[Any]]:
    """What a policy orders rows by, by node type: a number for each node.

    Args:
        policy: one of POLICIES.
        neighbours: the topology.
        fanouts, seed_probability: as for `visit_probabilities`, the seeds being those of the rank with the cache.
        presampled: draws an epoch's batches and counts for each node how many need it.
    """
    match policy:
        case "belady" | "vip":
            return neighbours.visit_probabilities(fanouts, seed_probability)
        case "degree":
            return neighbours.out_degrees()
        case "presampled":
            return presampled()
    return {name: np.zeros(count) for name, count in neighbours.graph.num_nodes.items()}


def miss_share(policy: str, of_types: Sequence[tuple[NDArray[Any], int]]) -> float:
    """The share of needed rows that would not be kept if the rows with the best scores were, from the first batch on.

    Belady's policy, which knows batches, misses fewer. Scores that say nothing of needs make all rows alike.

    Args:
        policy: one of POLICIES.
        of_types: of each node type the scores of all rows that may be kept, and how many are.
    """
    needed = missed = 0.0
    for scores, num_kept in of_types:
        expected = scores if policy in ("belady", "vip", "presampled") else np.ones(len(scores))
        needed += float(expected.sum())
        missed += float(np.sort(expected)[: len(expected) - num_kept].sum())
    return missed / needed if needed else 1.0


def make_row_cache(
    policy: str, num_slots: int, *, score_N: NDArray[Any], is_remote_N: NDArray[np.bool_], look_ahead: int
) -> RowCache:
    """An empty cache of the rows of one node type.

    Args:
        policy: one of POLICIES.
        num_slots: rows that it can hold.
        score_N: of `scores_of`.
        is_remote_N: which rows may be cached.
        look_ahead: batches that can be known ahead, that which is used included.
    """
    match policy:
        case "belady":
            return BeladyCache(len(score_N), num_slots, look_ahead, score_N)
        case "lru":
            return LruCache(len(score_N), num_slots)
    return FixedCache(np.where(is_remote_N, score_N, 0), num_slots)
