"""Sets of ids and their row numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphprep.datasets.importing import ids
from graphprep.datasets.importing.ids import DistinctIds, Renumbering

ANY_ID = st.integers(0, 50) | st.integers(0, 10_000) | st.integers(0, 2**63 - 2)


@settings(deadline=None)
@given(
    chunks=st.lists(st.lists(ANY_ID, min_size=1, max_size=30), min_size=1, max_size=8), limit=st.integers(1, 200_000)
)
def test_distinct_ids_are_a_set(chunks: list[list[int]], limit: int) -> None:
    """Flags and sorted arrays meet at a limit; no id may fall between, and the row of each must be its rank."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ids, "FLAGGED_IDS", limit)
        found = DistinctIds()
        for chunk in chunks:
            found.add(np.array(chunk, np.int64))
        ascending = found.ascending()
    everything = sorted({number for chunk in chunks for number in chunk})
    assert ascending.dtype == np.int64
    assert ascending.tolist() == everything
    rows = Renumbering(ascending).rows(np.array(chunks[0], np.int64))
    assert rows.dtype in (np.int32, np.int64)
    assert rows.tolist() == [everything.index(number) for number in chunks[0]]


def test_many_large_ids_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes as ids must not pile up once a chunk."""
    monkeypatch.setattr(ids, "MERGE_AT", 1000)
    found = DistinctIds()
    large = np.arange(ids.FLAGGED_IDS, ids.FLAGGED_IDS + 600, dtype=np.int64)
    for _ in range(60):
        found.add(large)
    assert sum(map(len, found.large)) < 3000
    assert np.array_equal(found.ascending(), large)
