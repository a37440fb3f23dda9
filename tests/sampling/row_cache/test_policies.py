"""The policies by their names: each keeps the rows that it is for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, EdgeChunk
from graphprep.sampling.neighbour_source import WholeGraph
from graphprep.sampling.row_cache.fixed import FixedCache
from graphprep.sampling.row_cache.lru import LruCache
from graphprep.sampling.row_cache.policies import POLICIES, make_row_cache, miss_share, scores_of
from graphprep.sampling.row_cache.scores import presampled_counts
from tests.graphs import csr_of
from tests.sampling.row_cache.replayed import NODES, batches_of_nodes, fetched_rows
from tests.sampling.samplers.test_neighbour import graph_of


def as_arrays(*batches: list[int]) -> list[NDArray[np.int64]]:
    return [np.array(each, np.int64) for each in batches]


def test_lru_keeps_what_was_used_last() -> None:
    """Guards against the first row in being the first out, and rows of a batch that displace each other."""
    batches = as_arrays([0, 1], [2], [1], [3], [1, 2], [4, 5, 6, 7], [4, 5])
    fetched = fetched_rows(LruCache(8, 2), 2, batches)
    assert fetched == [[0, 1], [2], [], [3], [2], [4, 5, 6, 7], []]


@pytest.mark.slow
@given(batches_of_nodes, st.integers(0, NODES))
@settings(deadline=None)
def test_lru_is_as_one_would_write_it(batches: list[NDArray[np.int64]], num_slots: int) -> None:
    """Guards against a wrong order of use."""
    kept: list[int] = []
    expected = []
    for ids_n in batches:
        ids = ids_n.tolist()
        expected.append([node for node in ids if node not in kept])
        hits = [node for node in ids if node in kept]
        rest = [node for node in kept if node not in hits]
        stored = expected[-1][: num_slots - len(hits)]
        kept = (rest + hits + stored)[-num_slots:] if num_slots else []
    assert fetched_rows(LruCache(NODES, num_slots), num_slots, batches) == expected


def test_fixed_rows_are_those_of_the_highest_scores() -> None:
    """Guards against rows of no score that take a slot, and against a hit on a row that never came."""
    batches = as_arrays([0, 1, 2, 3], [0, 1, 2, 3], [3])
    assert fetched_rows(FixedCache(np.array([1, 0, 3, 2]), 2), 2, batches) == [[0, 1, 2, 3], [0, 1], []]
    assert fetched_rows(FixedCache(np.array([0, 0, 0, 2]), 3), 3, batches) == [[0, 1, 2, 3], [0, 1, 2], []]


def test_expected_misses_are_what_the_best_scores_leave() -> None:
    """Guards against the share of rows in place of that of needs, where the scores say how often rows are needed."""
    scores = np.array([0.1, 0.6, 0.1, 0.2])
    assert miss_share("vip", [(scores, 2), (np.array([1.0]), 0)]) == pytest.approx((0.2 + 1) / 2)
    assert miss_share("degree", [(scores, 1)]) == miss_share("lru", [(np.zeros(4), 1)]) == 0.75
    assert miss_share("belady", [(scores, 0)]) == miss_share("belady", [(np.zeros(2), 1)]) == 1.0


@pytest.mark.parametrize("policy", POLICIES)
def test_by_name(policy: str) -> None:
    """Guards against a policy that keeps rows of the rank itself, or those of lower scores. Edges begin at 1, 2, 3."""
    graph = graph_of(csr_of(EdgeChunk(np.array([1, 1, 1, 2, 2, 3]), np.array([0, 2, 3, 0, 1, 1])), 4))
    scores = scores_of(
        policy,
        WholeGraph(graph),
        fanouts={HOMOGENEOUS_EDGE: (1,)},
        seed_probability={HOMOGENEOUS_NODE: np.array([0, 0.5, 0, 0])},
        presampled=lambda: {HOMOGENEOUS_NODE: presampled_counts(4, as_arrays([2, 3], [3], [3]))},
    )[HOMOGENEOUS_NODE]
    is_remote_N = np.array([True, False, True, True])
    cache = make_row_cache(policy, 1, score_N=scores, is_remote_N=is_remote_N, look_ahead=3)
    fetched = fetched_rows(cache, 1, as_arrays([2, 3], [3], [2, 3]))
    assert fetched[1] == ([] if policy in ("belady", "presampled") else [3])
    assert len(fetched[2]) == 1
