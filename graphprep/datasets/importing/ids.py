"""Which ids occur in a stream, and their row numbers.

Ids below 2^28 are flags in an array that grows to the largest of them, one byte each, so that a billion edges cost a
billion writes and no sort. Larger ones, which only hashes and packed keys reach, are kept as sorted arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.core.types import Ids

FLAGGED_IDS = 1 << 28
MERGE_AT = 1 << 20
"""so many larger ids may pile up, beside twice as many as are distinct, before they are merged"""
INT32_LIMIT = 2**31
TABLE_RATIO = 4
"""rows are looked up in a table while it has at most so many entries a node, else by bisection"""


class IdSet(NamedTuple):
    """A set of ids, as one process sends it to another."""

    flags: NDArray[np.uint8]
    """one bit an id, from 0 on"""
    large: NDArray[np.int64]
    """those beyond, ascending"""

    def ascending(self) -> NDArray[np.int64]:
        """All of them."""
        return np.concatenate([np.flatnonzero(np.unpackbits(self.flags)), self.large])


class DistinctIds:
    """A growing set of ids."""

    def __init__(self) -> None:
        self.flags = np.zeros(1 << 16, np.bool_)
        self.large: list[NDArray[np.int64]] = []
        self.merged = 0

    def add(self, ids: Ids) -> None:
        """Take in `ids`, at least one, none negative."""
        highest = int(ids.max())
        if highest >= FLAGGED_IDS:
            self._add_large(_ascending_set(ids[ids >= FLAGGED_IDS].astype(np.int64)))
            ids = ids[ids < FLAGGED_IDS]
            highest = int(ids.max()) if len(ids) else -1
        self._reach(highest)
        mark(self.flags, ids)

    def id_set(self) -> IdSet:
        """All of them, small."""
        return IdSet(np.packbits(self.flags), self._all_large())

    def join(self, other: IdSet) -> None:
        """Take in all of another set."""
        flags = np.unpackbits(other.flags).view(np.bool_)
        self._reach(len(flags) - 1)
        self.flags[: len(flags)] |= flags
        if len(other.large):
            self._add_large(other.large)

    def _reach(self, highest: int) -> None:
        """Have a flag for each id up to this one."""
        if highest >= len(self.flags):
            grown = np.zeros(min(max(2 * len(self.flags), highest + 1), FLAGGED_IDS), np.bool_)
            grown[: len(self.flags)] = self.flags
            self.flags = grown

    def _add_large(self, ids: NDArray[np.int64]) -> None:
        self.large.append(ids)
        if sum(map(len, self.large)) > 2 * self.merged + MERGE_AT:
            self.large = [_ascending_set(np.concatenate(self.large))]
            self.merged = len(self.large[0])

    def ascending(self) -> NDArray[np.int64]:
        """All of them, int64, each once."""
        small = np.flatnonzero(self.flags).astype(np.int64)
        return np.concatenate([small, self._all_large()]) if self.large else small

    def _all_large(self) -> NDArray[np.int64]:
        return _ascending_set(np.concatenate(self.large)) if self.large else np.zeros(0, np.int64)


@njit(cache=True)
def mark(flags: Any, ids: Any) -> None:
    """Set the flag of each id; all have one."""
    for at in ids:
        flags[at] = True


def _ascending_set(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """`np.unique`, by sorting: NumPy's own hashes first, which takes ten times as long on ids that mostly differ."""
    ordered = np.sort(ids)
    new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


class Renumbering:
    """From ids to row numbers 0 .. N-1, in ascending order of the ids."""

    def __init__(self, original: NDArray[np.int64]) -> None:
        """`original`: the ids, int64 [N], ascending."""
        self.original = original
        self.dtype = np.int32 if len(original) < INT32_LIMIT else np.int64
        self.table: Ids | None = None
        if int(original[-1]) < TABLE_RATIO * len(original):
            self.table = np.zeros(int(original[-1]) + 1, self.dtype)
            self.table[original] = np.arange(len(original))

    def rows(self, ids: Ids) -> Ids:
        """The row of each id, which must be one of `original`."""
        if self.table is not None:
            return self.table[ids]
        return np.searchsorted(self.original, ids).astype(self.dtype, copy=False)
