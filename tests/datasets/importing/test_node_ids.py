"""What ids mean, one way at a time."""

from __future__ import annotations

import numpy as np
import pytest

from graphprep.datasets.importing.edges.edge_file import Words
from graphprep.datasets.importing.node_ids import FoundIds, Ids, ListedIds, NodeIds, RowNumbers
from graphprep.errors import DatasetError


def numbers(*ids: int) -> Ids:
    return np.array(ids, np.int64)


def words(*ids: str) -> Ids:
    return Words(np.arange(len(ids))[::-1], list(ids)[::-1])


@pytest.mark.parametrize(
    ("ids", "runs", "count", "original", "rows"),
    [
        (RowNumbers(5), [numbers(4, 0), numbers(1)], 5, None, [[4, 0], [1]]),
        (FoundIds(), [numbers(2, 0), numbers(1)], 3, None, [[2, 0], [1]]),
        (FoundIds(), [numbers(7, 0), numbers(3)], 3, [0, 3, 7], [[2, 0], [1]]),
        (FoundIds(), [words("b", "a"), words("b", "b", "c")], 3, ["a", "b", "c"], [[1, 0], [1, 1, 2]]),
        (ListedIds(np.array([7, 3, 5]), "t"), [numbers(3, 7)], 3, [7, 3, 5], [[1, 0]]),
        (ListedIds(np.array([0, 1]), "t"), [numbers(1, 0)], 2, None, [[1, 0]]),
        (ListedIds(np.array(["z", "a"]), "t"), [words("a", "z")], 2, ["z", "a"], [[1, 0]]),
        (FoundIds(), [], 0, None, []),
    ],
)
def test_rows(ids: NodeIds, runs: list[Ids], count: int, original: object, rows: list[list[int]]) -> None:
    """Guards against codes that are not kept apart from rows: a row is known only when all ids have been seen."""
    codes = [ids.codes(run) for run in runs]
    found, by_row = ids.close()
    assert found == count
    assert (None if by_row is None else by_row.tolist()) == original
    for code, expected in zip(codes, rows, strict=True):
        made = ids.rows(code.astype(np.int32))
        assert made.dtype in (np.int32, np.int64)
        assert made.tolist() == expected


@pytest.mark.parametrize(
    ("ids", "run", "message"),
    [
        (RowNumbers(5), numbers(0, 5), "the node id 5 does not fit 5 nodes"),
        (RowNumbers(5), numbers(-1, 9), "the node id -1"),
        (RowNumbers(5), words("a"), "its ids are words, but nodes are rows"),
        (FoundIds(), numbers(4, -2), "the node id -2 is negative"),
        (ListedIds(np.array([3, 5]), "t.csv"), numbers(3, 4), r"the node 4 has no row in t\.csv"),
        (ListedIds(np.array([3, 5]), "t.csv"), numbers(9), r"the node 9 has no row in t\.csv"),
        (ListedIds(np.array(["a"]), "t.csv"), words("a", "b"), r"the node 'b' has no row in t\.csv"),
        (ListedIds(np.array(["a"]), "t.csv"), numbers(0), r"its ids are numbers, but those of t\.csv are words"),
        (ListedIds(np.array([3]), "t.csv"), words("3"), r"its ids are words, but those of t\.csv are numbers"),
    ],
)
def test_ids_that_cannot_be(ids: NodeIds, run: Ids, message: str) -> None:
    """Guards against an id that is given the row of its neighbour in the order."""
    with pytest.raises(DatasetError, match=message):
        ids.codes(run)
