"""What the ids of one node type mean, and which row each of them is.

If the number of nodes is known (said by a file or a person, or by rows of features or labels), ids are row numbers and
must be below it. If a table has a column of ids, they are looked up in it. Otherwise the nodes are the ids that occur,
in ascending order; numbers that are 0 .. N-1 stay as they are.

All edges are seen once, by `codes`, which checks ids and gives numbers to keep; then `close` says how many nodes there
are; then `rows` turns the kept numbers to rows. For numbers the codes are the ids themselves, so an array that can be
read again need not be kept. For words they count distinct words in the order of their first occurrence.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import Ids
from graphprep.datasets.importing.edges.edge_file import Words
from graphprep.datasets.importing.ids import DistinctIds, IdSet, Renumbering
from graphprep.datasets.importing.table_files import word_array
from graphprep.errors import DatasetError

Original = NDArray[Any]
"""int64, or words in NumPy's StringDType"""


def require_same_kind(ids: Ids | Words | Original, known: Original, whose: str) -> None:
    """Raises:
    DatasetError: these ids are words and the known ones numbers, or the other way round; the end of a sentence.
    """
    is_words = isinstance(ids, Words) or ids.dtype.kind in "UT"
    if is_words != (known.dtype.kind in "UT"):
        kind, other = ("words", "numbers") if is_words else ("numbers", "words")
        raise DatasetError(f"its ids are {kind}, but those of {whose} are {other}")


class UnknownNodeError(DatasetError):
    """An id that no table lists; the end of a sentence that begins with the file."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position
        """in the run of ids"""


class NodeIds(Protocol):
    """The ids of one node type."""

    def codes(self, ids: Ids | Words) -> Ids:
        """Take in a run of ids and give the numbers to keep for them.

        Raises:
            DatasetError: an id that cannot be; the end of a sentence that begins with the file.
        """
        ...

    def empty(self) -> NodeIds:
        """One that takes in ids in another process, in place of this one."""
        ...

    def id_set(self) -> IdSet | None:
        """Which numbers it has taken in; None where that does not matter. There are no words among them."""
        ...

    def join(self, ids: IdSet) -> None:
        """Take in the numbers of one that was in another process.

        Raises:
            DatasetError: as `codes`.
        """
        ...

    def close(self) -> tuple[int, Original | None]:
        """The number of nodes, and their ids by row unless these are the row numbers."""
        ...

    def rows(self, codes: Ids) -> Ids:
        """The rows of kept numbers."""
        ...


class RowNumbers:
    """Ids that are rows of a known number of nodes."""

    def __init__(self, num_nodes: int) -> None:
        self.num_nodes = num_nodes

    def codes(self, ids: Ids | Words) -> Ids:
        if isinstance(ids, Words):
            raise DatasetError(
                f"its ids are words, but nodes are rows 0 .. {self.num_nodes - 1:,}; name the column that has the "
                "words of the rows (--id-column)"
            )
        if len(ids):
            low, high = int(ids.min()), int(ids.max())
            if low < 0 or high >= self.num_nodes:
                bad = low if low < 0 else high
                raise UnknownNodeError(
                    int(np.argmax(ids == bad)),
                    f"the node id {bad} does not fit {self.num_nodes:,} nodes, whose ids are 0 .. N-1",
                )
        return ids

    def empty(self) -> RowNumbers:
        return self

    def id_set(self) -> None:
        return None

    def join(self, ids: IdSet) -> None:
        """All ids were compared where they were read."""

    def close(self) -> tuple[int, None]:
        return self.num_nodes, None

    def rows(self, codes: Ids) -> Ids:
        return codes


class FoundIds:
    """Ids that are the nodes because they occur; numbers or words, as the first run has them."""

    def __init__(self) -> None:
        self._numbers: DistinctIds | None = None
        self._words: WordCodes | None = None
        self._rows: NDArray[np.int64] | Renumbering | None = None

    def codes(self, ids: Ids | Words) -> Ids:
        self._require(words=isinstance(ids, Words))
        if isinstance(ids, Words):
            self._words = self._words or WordCodes()
            return self._words.take(ids)
        self._numbers = self._numbers or DistinctIds()
        if len(ids):
            if (low := int(ids.min())) < 0:
                raise DatasetError(f"the node id {low} is negative")
            self._numbers.add(ids)
        return ids

    def empty(self) -> FoundIds:
        return FoundIds()

    def id_set(self) -> IdSet | None:
        return self._numbers.id_set() if self._numbers else None

    def join(self, ids: IdSet) -> None:
        self._require(words=False)
        self._numbers = self._numbers or DistinctIds()
        self._numbers.join(ids)

    def close(self) -> tuple[int, Original | None]:
        if self._words is not None:
            original, self._rows = self._words.ascending()
            return len(original), original
        ids = self._numbers.ascending() if self._numbers else np.zeros(0, np.int64)
        if not len(ids) or int(ids[-1]) == len(ids) - 1:
            return len(ids), None
        self._rows = Renumbering(ids)
        return len(ids), ids

    def _require(self, *, words: bool) -> None:
        if (self._numbers if words else self._words) is not None:
            raise DatasetError(
                "its ids are words where others are numbers, or the other way round; they cannot be joined"
            )

    def rows(self, codes: Ids) -> Ids:
        if self._rows is None:
            return codes
        return self._rows.rows(codes) if isinstance(self._rows, Renumbering) else self._rows[codes]


class ListedIds:
    """Ids that a table lists, in its order."""

    def __init__(self, ids: Original, table: str) -> None:
        """`ids` none twice; `table` names them in errors."""
        self.ids, self.table = ids, table
        self._order = np.argsort(ids, kind="stable")
        self._ascending = ids[self._order]
        self._words = WordCodes() if ids.dtype.kind in "UT" else None
        if self._words is not None:
            self._words.take(Words(np.arange(len(ids)), ids.tolist()))

    def codes(self, ids: Ids | Words) -> Ids:
        require_same_kind(ids, self.ids, self.table)
        if isinstance(ids, Words):
            words = self._words
            assert words is not None
            codes = words.take(ids)
            if (unknown := codes >= len(self.ids)).any():
                position = int(np.argmax(unknown))
                self._unknown(repr(words.word(int(codes[position]))), position)
            return codes
        if len(ids):
            place = self._place(ids)
            if (wrong := self._ascending[place] != ids).any():
                position = int(np.argmax(wrong))
                self._unknown(str(ids[position]), position)
        return ids

    def empty(self) -> FoundIds:
        return FoundIds()

    def id_set(self) -> None:
        return None

    def join(self, ids: IdSet) -> None:
        self.codes(ids.ascending())

    def close(self) -> tuple[int, Original | None]:
        rows = np.arange(len(self.ids))
        as_they_are = self._words is None and np.array_equal(self.ids, rows)
        return len(self.ids), None if as_they_are else self.ids

    def rows(self, codes: Ids) -> Ids:
        if self._words is not None:
            return codes
        rows: NDArray[np.int64] = self._order[self._place(codes)]
        return rows

    def _place(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        return np.minimum(np.searchsorted(self._ascending, ids), len(self._ascending) - 1).astype(np.int64, copy=False)

    def _unknown(self, shown: str, position: int) -> None:
        raise UnknownNodeError(position, f"the node {shown} has no row in {self.table}")


class WordCodes:
    """Distinct words, numbered as they are first seen."""

    def __init__(self) -> None:
        self._code: dict[str, int] = {}

    def take(self, run: Words) -> NDArray[np.int64]:
        """The code of each word of a run; new words get the next ones."""
        code = self._code
        known = np.fromiter((code.setdefault(word, len(code)) for word in run.words), np.int64, len(run.words))
        codes: NDArray[np.int64] = known[run.codes]
        return codes

    def word(self, number: int) -> str:
        """The word with this code."""
        return next(word for word, code in self._code.items() if code == number)

    def ascending(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """All words in ascending order of their code points, and the row of each code.

        Raises:
            DatasetError: a word is too long to be an id.
        """
        words = list(self._code)
        order = sorted(range(len(words)), key=words.__getitem__)
        rows = np.empty(len(words), np.int64)
        rows[order] = np.arange(len(words))
        return word_array([words[code] for code in order]), rows
