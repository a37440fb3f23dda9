"""The ids that nodes had in their source, where these are not the row numbers: numbers or words, by row and back.

A store and a cache hold numbers as the node array `original_id`, and words as UTF-8, one after another, with the place
where each begins (`words/<type>/offsets` and `bytes`), all in the dataset's node order.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import GraphprepError

BYTES_AT_A_TIME = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalIds:
    """Ids of the nodes of one type: `numbers`, or words."""

    numbers: NDArray[np.int64] | None = None
    """[N]"""
    offsets: NDArray[np.int64] | None = None
    """[N + 1]: where each word begins in `text`"""
    text: NDArray[np.uint8] | None = None

    @classmethod
    def of_words(
        cls, offsets: NDArray[Any], text: NDArray[Any], place: str, error: type[GraphprepError]
    ) -> OriginalIds:
        """Words as they lie in a store or cache at `place`.

        Raises:
            GraphprepError: `error`, since the offsets do not fit the bytes.
        """
        if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(text) or bool((np.diff(offsets) < 0).any()):
            raise error(f"{place}: the offsets of the nodes' ids do not fit their bytes; make it again with --replace")
        return cls(offsets=offsets, text=text)

    def __len__(self) -> int:
        if self.numbers is not None:
            return len(self.numbers)
        assert self.offsets is not None
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> int | str:
        """The id of one row."""
        if self.numbers is not None:
            return int(self.numbers[row])
        assert self.offsets is not None
        assert self.text is not None
        return self.text[int(self.offsets[row]) : int(self.offsets[row + 1])].tobytes().decode()

    def array(self) -> NDArray[Any]:
        """All of them: int64 [N], or an array of N Python strings."""
        if self.numbers is not None:
            return np.asarray(self.numbers)
        assert self.offsets is not None
        assert self.text is not None
        text = self.text.tobytes()
        found = np.empty(len(self), object)
        found[:] = [text[start:stop].decode() for start, stop in itertools.pairwise(self.offsets.tolist())]
        return found

    def row_of(self, original_id: int | str) -> int | None:
        """The row of the node with this id, None if there is none. Digits in a string are a number where ids are."""
        if self.numbers is not None:
            try:
                number = int(original_id)
            except ValueError:
                return None
            same = np.flatnonzero(self.numbers == number) if abs(number) < 2**63 else np.zeros(0, np.int64)
            return int(same[0]) if len(same) else None
        assert self.offsets is not None
        assert self.text is not None
        word = np.frombuffer(str(original_id).encode(), np.uint8)
        rows = np.flatnonzero(np.diff(self.offsets) == len(word))
        at_once = max(1, BYTES_AT_A_TIME // max(1, len(word)))
        for start in range(0, len(rows), at_once):
            some = rows[start : start + at_once]
            places = self.offsets[some][:, None] + np.arange(len(word))
            same = np.flatnonzero((self.text[places] == word).all(axis=1))
            if len(same):
                return int(some[same[0]])
        return None
