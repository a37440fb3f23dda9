"""Ids of nodes that are known already, by row, and of the new ones that occur beside them.

Known nodes keep their rows; new ones follow in ascending order of their ids. Where a table lists the new nodes, its
order counts, and `node_ids.ListedIds` of both is enough.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import Ids
from graphprep.datasets.importing.edges.edge_file import Words
from graphprep.datasets.importing.ids import DistinctIds, IdSet
from graphprep.datasets.importing.node_ids import FoundIds, ListedIds, Original, require_same_kind
from graphprep.datasets.importing.table_files import word_array
from graphprep.errors import DatasetError


class AddedIds:
    """A `NodeIds` of known nodes and of new ones, which are those that occur."""

    def __init__(self, known: Original, whose: str) -> None:
        """`known` by row, none twice; `whose` names them in errors."""
        self._known, self._whose = known, whose
        self._numbers: DistinctIds | None = None
        self._code: dict[str, int] | None = None
        if known.dtype.kind in "UT":
            self._code = {word: row for row, word in enumerate(known.tolist())}
        else:
            self._numbers = DistinctIds()
        self._rows: ListedIds | NDArray[np.int64] | None = None
        """None: numbers that are their rows"""

    def codes(self, ids: Ids | Words) -> Ids:
        require_same_kind(ids, self._known, self._whose)
        if isinstance(ids, Words):
            code = self._code
            assert code is not None
            words = np.fromiter((code.setdefault(word, len(code)) for word in ids.words), np.int64, len(ids.words))
            codes: NDArray[np.int64] = words[ids.codes]
            return codes
        if len(ids):
            assert self._numbers is not None
            if (low := int(ids.min())) < 0:
                raise DatasetError(f"the node id {low} is negative")
            self._numbers.add(ids)
        return ids

    def empty(self) -> FoundIds:
        return FoundIds()

    def id_set(self) -> None:
        return None

    def join(self, ids: IdSet) -> None:
        self.codes(ids.ascending())

    def close(self) -> tuple[int, Original | None]:
        if self._code is not None:
            return self._close_words(list(self._code))
        assert self._numbers is not None
        new = np.setdiff1d(self._numbers.ascending(), self._known, assume_unique=True)
        listed = ListedIds(np.concatenate([self._known, new]), self._whose)
        num_nodes, original = listed.close()
        self._rows = None if original is None else listed
        return num_nodes, original

    def _close_words(self, words: list[str]) -> tuple[int, Original]:
        first = len(self._known)
        order = sorted(range(first, len(words)), key=words.__getitem__)
        rows = np.arange(len(words))
        rows[order] = np.arange(first, len(words))
        self._rows = rows
        return len(words), word_array([*words[:first], *(words[code] for code in order)])

    def rows(self, codes: Ids) -> Ids:
        if self._rows is None:
            return codes
        return self._rows.rows(codes) if isinstance(self._rows, ListedIds) else self._rows[codes]
