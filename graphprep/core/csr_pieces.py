"""The arrays of a sorted CSR that lies in pieces: any range of entries is put together from those that it meets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import Csr


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgePieces:
    """Pieces that follow each other, each a range of rows."""

    piece: Callable[[int], Csr]
    """one of them by its number, its indptr from 0 on"""
    row_starts: NDArray[np.int64]
    """int64 [pieces + 1]: the first row of each, and how many there are"""
    edge_starts: NDArray[np.int64]
    """int64 [pieces + 1]: likewise of edges"""
    in_files: bool
    """whether `piece` can be pickled, for other processes that reach the files under the same path"""

    @classmethod
    def of(
        cls, piece: Callable[[int], Csr], rows: Sequence[int], edges: Sequence[int], *, in_files: bool
    ) -> EdgePieces:
        """From the numbers of rows and edges of each piece."""
        return cls(piece=piece, row_starts=_starts(rows), edge_starts=_starts(edges), in_files=in_files)

    def entries(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Entries `start` to `stop` of the whole CSR's indptr (int64), indices, or data (float32, 1 for none)."""
        if name == "indptr":
            return self._offsets(start, stop)
        starts = self.edge_starts
        found = []
        for number in np.flatnonzero((starts[:-1] < stop) & (starts[1:] > start)):
            first = int(starts[number])
            low, high = max(start, first) - first, min(stop, int(starts[number + 1])) - first
            array = getattr(self.piece(int(number)), name)
            found.append(np.ones(high - low, np.float32) if array is None else array[low:high])
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _offsets(self, start: int, stop: int) -> NDArray[np.int64]:
        """The last entry of a piece is the first one of the next."""
        starts = self.row_starts
        found = np.empty(stop - start, np.int64)
        for number in np.flatnonzero((starts[:-1] < stop) & (starts[1:] >= start)):
            first = int(starts[number])
            low, high = max(start, first), min(stop, int(starts[number + 1]) + 1)
            offsets = self.piece(int(number)).indptr[low - first : high - first]
            found[low - start : high - start] = offsets + self.edge_starts[number]
        return found


def _starts(counts: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
