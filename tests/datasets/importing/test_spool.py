"""Columns kept in memory and on the disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphprep.datasets.importing.spool import Column, Spool


@pytest.mark.parametrize("kept_bytes", [0, 100, 10**6])
def test_runs_come_back(kept_bytes: int, graphprep_home: Path) -> None:
    """Guards against pieces that are mixed up between two columns that share a file, and against files left over."""
    spool = Spool(kept_bytes)
    ids, values = Column(spool), Column(spool)
    pieces = [np.arange(start, start + 7) for start in (0, 2**31 - 3, 5)]
    for piece in pieces:
        ids.add_ids(piece)
        values.add(piece * 0.5)
    for _ in range(2):
        assert [run.tolist() for run in ids.runs()] == [piece.tolist() for piece in pieces]
        assert [run.tolist() for run in values.runs()] == [(piece * 0.5).tolist() for piece in pieces]
    assert [run.dtype.itemsize for run in ids.runs()] == [4, 8, 4]
    assert ids.whole().tolist() == np.concatenate(pieces).tolist()
    assert ids.whole().dtype == np.int64
    assert list(graphprep_home.iterdir()) == []


def test_a_view_is_not_kept() -> None:
    """Guards against a whole parsed block that stays in memory behind one of its columns."""
    column = Column(Spool())
    table = np.arange(20).reshape(10, 2)
    column.add(table[:, 0])
    table[:] = -1
    assert next(column.runs()).tolist() == list(range(0, 20, 2))


def test_integers_and_floats_together() -> None:
    """Guards against times that are cut to whole numbers when a later block has fractions."""
    column = Column(Spool())
    column.add(np.array([1, 2]))
    column.add(np.array([2.5]))
    assert column.whole().tolist() == [1, 2, 2.5]
    assert Column(Spool()).whole().tolist() == []


def test_released_columns_give_their_room_back() -> None:
    """What is not wanted any more must not push later columns to the disk."""
    spool = Spool(kept_bytes=100)
    first = Column(spool)
    first.add(np.arange(10, dtype=np.int64))
    (kept,) = first.runs()
    first.release()
    assert list(first.runs()) == []
    second = Column(spool)
    second.add(np.arange(12, dtype=np.int64))
    assert isinstance(second.pieces[0], np.ndarray)  # in memory
    assert kept.tolist() == list(range(10))  # what had been read stays valid
