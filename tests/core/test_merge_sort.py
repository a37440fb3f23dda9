"""The stable sort of kernels."""

from __future__ import annotations

import numpy as np
import pytest

from graphprep.core.merge_sort import RUN, sort_stably


@pytest.mark.parametrize("count", [0, 1, 2, RUN, RUN + 1, 2 * RUN, 2 * RUN + 1, 4 * RUN + 3, 1000])
@pytest.mark.parametrize("kinds", [1, 7, 1 << 30])
def test_keys_ascend_and_equal_ones_keep_their_order(count: int, kinds: int) -> None:
    """Guards against runs that are merged in the wrong order, and results that are left in the second array."""
    keys = np.random.default_rng(count).integers(0, kinds, count)
    payloads = np.arange(count, dtype=np.int32)
    found, alone = keys.copy(), keys.copy()
    sort_stably(found, payloads)
    sort_stably(alone, payloads[:0])
    order = np.argsort(keys, kind="stable")
    assert payloads.tolist() == order.tolist()
    assert found.tolist() == alone.tolist() == keys[order].tolist()
