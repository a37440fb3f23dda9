"""Do what a policy says with a cache of rows, and see that it says nothing wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from graphprep.sampling.row_cache.plan import NO_SLOT, RowCache, plan_batches

NODES = 12
Batches = Sequence[NDArray[np.int64]]

batches_of_nodes = st.lists(
    st.lists(st.integers(0, NODES - 1), unique=True, max_size=8).map(lambda ids: np.array(ids, np.int64)), max_size=25
)


def fetched_rows(cache: RowCache, num_slots: int, batches: Batches) -> list[list[int]]:
    """The rows that each batch fetches, after checks that the others are in the slots that the policy names, and that
    it puts nothing anywhere but a fetched row into a slot that there is."""
    node_C = np.full(num_slots, -1)
    found = []
    for ids_n, plan in plan_batches(cache, batches, lambda ids_n: ids_n):
        is_hit, is_stored = plan.slot_n != NO_SLOT, plan.store_n != NO_SLOT
        np.testing.assert_array_equal(node_C[plan.slot_n[is_hit]], ids_n[is_hit])
        assert not (is_hit & is_stored).any()
        stored = plan.store_n[is_stored].tolist()
        assert len(set(stored)) == len(stored)
        assert all(0 <= slot < num_slots for slot in stored)
        node_C[stored] = ids_n[is_stored]
        kept = node_C[node_C >= 0]
        assert len(np.unique(kept)) == len(kept)
        found.append(ids_n[~is_hit].tolist())
        assert len(found[-1]) == plan.num_fetched
    assert len(found) == len(batches)
    return found


def count(fetched: list[list[int]]) -> int:
    """How many rows that are."""
    return sum(map(len, fetched))
