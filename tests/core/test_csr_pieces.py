"""Any range of a CSR's arrays, put together from pieces, is that of the whole."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphprep.core.csr_pieces import EdgePieces
from graphprep.core.types import HOMOGENEOUS_EDGE, Csr, EdgeTable, Treatment
from graphprep.store import external_sort, sort
from graphprep.store.sort import sort_table
from tests.graphs import random_edges


@given(
    rows=st.lists(st.integers(0, 4), min_size=1, max_size=6),
    seed=st.integers(0, 2**32 - 1),
    unweighted=st.sets(st.integers(0, 5)),
)
def test_every_range_is_that_of_the_whole(rows: list[int], seed: int, unweighted: set[int]) -> None:
    """Guards against entries lost or doubled between pieces, pieces without rows or edges, and lost weights of 1."""
    rng = np.random.default_rng(seed)
    pieces = []
    for number, count in enumerate(rows):
        indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 4, count))])
        edges = int(indptr[-1])
        data = None if number in unweighted else rng.random(edges, np.float32)
        pieces.append(Csr(indptr=indptr, indices=rng.integers(0, 9, edges, np.int32), data=data, num_sources=9))
    whole = {
        "indptr": np.concatenate([[0], np.cumsum(np.concatenate([np.diff(piece.indptr) for piece in pieces]))]),
        "indices": np.concatenate([piece.indices for piece in pieces]),
        "data": np.concatenate(
            [np.ones(piece.num_edges, np.float32) if piece.data is None else piece.data for piece in pieces]
        ),
    }
    found = EdgePieces.of(pieces.__getitem__, rows, [piece.num_edges for piece in pieces], in_files=False)
    for name, array in whole.items():
        for start in range(len(array)):
            for stop in range(start + 1, len(array) + 1):
                part = found.entries(name, start, stop)
                assert part.dtype == array.dtype
                assert np.array_equal(part, array[start:stop])


@pytest.mark.slow
def test_pieces_in_files_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against pieces that other processes cannot read, or that are sent to them whole."""
    edges = random_edges(np.random.default_rng(0), 3000, 40_000)
    table = EdgeTable(type=HOMOGENEOUS_EDGE, chunks=lambda: iter([edges]))

    def sorted_(name: str) -> EdgePieces:
        arguments = {"num_rows": 3000, "num_sources": 3000, "treatment": Treatment(), "limit": None}
        return sort_table(table, **arguments, work=tmp_path / name).arrays  # type: ignore[arg-type]

    expected = sorted_("memory")
    assert not expected.in_files
    monkeypatch.setattr(sort, "BYTES_PER_EDGE", 1 << 60)
    monkeypatch.setattr(external_sort, "MOST_RANGES", 6)
    found = sorted_("disk")
    assert found.in_files
    assert len(found.row_starts) == 4
    sent = pickle.dumps(found)
    assert len(sent) < 4000
    for name, count in (("indptr", 3001), ("indices", 40_000)):
        there: EdgePieces = pickle.loads(sent)
        assert np.array_equal(there.entries(name, 5, count), expected.entries(name, 5, count))
