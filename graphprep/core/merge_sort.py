"""A stable sort for kernels: insertion within short runs, which are then merged.

numba's own `np.argsort(kind="mergesort")` takes seconds to compile, for each type and in each kernel that calls it, and
needs the order applied to keys and payloads afterwards.
"""

from __future__ import annotations

import numpy as np
from numba import njit

RUN = 48
"""Runs up to this length are sorted by insertion."""


@njit(cache=True, nogil=True)
def sort_stably(keys, payloads):  # type: ignore[no-untyped-def]
    """Sort keys [n] in place, and payloads [n] with them unless there are none; equal keys keep their order."""
    count = len(keys)
    for start in range(0, count, RUN):
        _sort_run(keys, payloads, start, min(start + RUN, count))
    if count <= RUN:
        return
    has_payload = len(payloads) > 0
    keys_in, payloads_in = keys, payloads
    keys_out, payloads_out = np.empty_like(keys), np.empty_like(payloads)
    width, is_in_place = RUN, True
    while width < count:
        for start in range(0, count, 2 * width):
            middle, stop = min(start + width, count), min(start + 2 * width, count)
            left, right = start, middle
            for at in range(start, stop):
                if left < middle and (right == stop or keys_in[left] <= keys_in[right]):
                    chosen = left
                    left += 1
                else:
                    chosen = right
                    right += 1
                keys_out[at] = keys_in[chosen]
                if has_payload:
                    payloads_out[at] = payloads_in[chosen]
        keys_in, keys_out = keys_out, keys_in
        payloads_in, payloads_out = payloads_out, payloads_in
        width, is_in_place = 2 * width, not is_in_place
    if not is_in_place:
        keys[:] = keys_in
        payloads[:] = payloads_in


@njit(cache=True, nogil=True)
def _sort_run(keys, payloads, start, stop):  # type: ignore[no-untyped-def]
    has_payload = len(payloads) > 0
    for i in range(start + 1, stop):
        key = keys[i]
        j = i
        while j > start and keys[j - 1] > key:
            j -= 1
        if j == i:
            continue
        for k in range(i, j, -1):
            keys[k] = keys[k - 1]
        keys[j] = key
        if has_payload:
            payload = payloads[i]
            for k in range(i, j, -1):
                payloads[k] = payloads[k - 1]
            payloads[j] = payload
