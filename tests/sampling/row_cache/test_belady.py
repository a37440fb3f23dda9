"""Belady's policy: what it says can be done, and with all batches known nothing fetches fewer rows."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from graphprep.sampling.row_cache.belady import BeladyCache
from graphprep.sampling.row_cache.fixed import FixedCache
from graphprep.sampling.row_cache.lru import LruCache
from tests.conftest import BoundsChecked
from tests.sampling.row_cache.replayed import NODES, Batches, batches_of_nodes, count, fetched_rows


def fewest_fetched(num_slots: int, batches: Batches) -> int:
    """By trying all that a cache can keep after each batch."""
    fewest: dict[frozenset[int], int] = {frozenset(): 0}
    for ids_n in batches:
        needed = frozenset(ids_n.tolist())
        after: dict[frozenset[int], int] = {}
        for kept, fetched in fewest.items():
            available = sorted(kept | needed)
            for size in range(min(num_slots, len(available)) + 1):
                for chosen in map(frozenset, combinations(available, size)):
                    after[chosen] = min(after.get(chosen, 2**31), fetched + len(needed - kept))
        fewest = after
    return min(fewest.values())


small_batches = st.lists(
    st.lists(st.integers(0, 5), unique=True, max_size=4).map(lambda ids: np.array(ids, np.int64)), max_size=7
)


@given(small_batches, st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_nothing_fetches_fewer_rows(batches: list[NDArray[np.int64]], num_slots: int) -> None:
    """Guards against a row kept that is needed after one that is not kept."""
    cache = BeladyCache(6, num_slots, len(batches) + 1)
    assert count(fetched_rows(cache, num_slots, batches)) == fewest_fetched(num_slots, batches)


@given(batches_of_nodes, st.integers(0, NODES), st.integers(1, 30), st.booleans())
@settings(deadline=None)
def test_what_it_says_can_be_done(
    batches: list[NDArray[np.int64]], num_slots: int, look_ahead: int, has_scores: bool
) -> None:
    """Guards against rows said to be in slots that have others, with any window; and the bound is one for all."""
    score_N = np.arange(NODES) % 5 if has_scores else None
    fetched = fetched_rows(BeladyCache(NODES, num_slots, look_ahead, score_N), num_slots, batches)
    bound = count(fetched_rows(BeladyCache(NODES, num_slots, len(batches) + 1), num_slots, batches))
    others = (LruCache(NODES, num_slots), FixedCache(np.arange(NODES) + 1, num_slots))
    for other in (fetched, *(fetched_rows(each, num_slots, batches) for each in others)):
        assert bound <= count(other)


def test_rows_of_no_known_use_are_kept_by_their_scores() -> None:
    """Guards against scores that are not used, and against their use for rows whose next use is known."""
    batches = [np.array([0, 1, 2, 3]), np.array([4]), np.array([4, 0]), np.array([2, 3, 1, 0])]
    score_N = np.array([0.0, 0.1, 0.3, 0.2, 0.0])
    assert fetched_rows(BeladyCache(5, 2, 1, score_N), 2, batches) == [[0, 1, 2, 3], [4], [4, 0], [1, 0]]
    assert fetched_rows(BeladyCache(5, 2, 2, score_N), 2, batches) == [[0, 1, 2, 3], [4], [0], [3, 1]]


@pytest.mark.parametrize("look_ahead", [1, 7, 40])
def test_long_sequences(look_ahead: int) -> None:
    """Guards against a ring of announced rows that is too short, or wrong where it begins again."""
    rng = np.random.default_rng(5)
    batches = [rng.choice(5000, 900, replace=False) for _ in range(40)]
    cache = BeladyCache(5000, 800, look_ahead, rng.random(5000))
    assert count(fetched_rows(cache, 800, batches)) < sum(map(len, batches))


@pytest.mark.slow
def test_kernels_stay_within_bounds(bounds_checked: BoundsChecked) -> None:
    """Guards against slots, lists and rows behind the end of their arrays, in all policies."""
    bounds_checked(
        "import numpy as np\n"
        "from graphprep.sampling.row_cache.belady import BeladyCache\n"
        "from graphprep.sampling.row_cache.lru import LruCache\n"
        "from graphprep.traffic.visits import visit_probabilities\n"
        "from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE\n"
        "from tests.sampling.row_cache.replayed import fetched_rows\n"
        "from tests.sampling.samplers.test_neighbour import random_graph\n"
        "rng = np.random.default_rng(2)\n"
        "batches = [rng.choice(3000, count, replace=False) for count in [700, 0, 5, *[600] * 20]]\n"
        "for slots in (0, 1, 500, 3000):\n"
        "    for look_ahead in (1, 3, 40):\n"
        "        fetched_rows(BeladyCache(3000, slots, look_ahead, rng.random(3000)), slots, batches)\n"
        "    fetched_rows(LruCache(3000, slots), slots, batches)\n"
        "graph = random_graph()\n"
        "seeds = {HOMOGENEOUS_NODE: np.full(200, 0.1)}\n"
        "visit_probabilities(graph.edges, graph.num_nodes, {HOMOGENEOUS_EDGE: (3, -1)}, seeds)\n"
    )
