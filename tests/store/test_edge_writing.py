"""Edges are written by ranges that can be done again, and what a worker leaves behind or leaves out is seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphprep.core.types import RawGraph
from graphprep.errors import DatasetError
from graphprep.store import sort
from graphprep.system.executor import Executor
from tests.elsewhere import Elsewhere
from tests.graphs import labelled_graph
from tests.stores import make_store
from tests.system.test_executor import everything_in, many_files


@pytest.fixture
def raw(monkeypatch: pytest.MonkeyPatch) -> RawGraph:
    """A graph whose store has many files, and whose edges do not fit in memory; in its first rows all is zero."""
    many_files(monkeypatch)
    monkeypatch.setattr(sort, "BYTES_PER_EDGE", 1 << 60)
    raw = labelled_graph(np.random.default_rng(3), num_nodes=300, num_edges=2000)
    [table] = raw.edges
    [chunk] = table.chunks()
    chunk.dst[chunk.dst < 200] = 299
    chunk.src[:1500] = 0
    return raw


@pytest.mark.slow
def test_a_range_done_again_changes_nothing(raw: RawGraph, tmp_path: Path) -> None:
    """Guards against ranges that share a file, that merge with what is there, and against files of zeros left out."""
    expected = everything_in(make_store(raw, target=tmp_path / "expected"))
    twice = Elsewhere(lambda _: 2)
    assert everything_in(make_store(raw, target=tmp_path / "found", executor=twice)) == expected
    assert len(twice.done) > 60


@pytest.mark.slow
def test_what_a_dead_worker_had_begun_is_removed(raw: RawGraph, tmp_path: Path) -> None:
    """Guards against stores with files that Zarr does not know."""
    expected = everything_in(make_store(raw, target=tmp_path / "expected"))

    def beginning(_: Any) -> int:
        for folder in tmp_path.glob(".partial-found/edges/*/indices/c"):
            (folder / "1.0123.partial").write_bytes(b"half")
        return 1

    assert everything_in(make_store(raw, target=tmp_path / "found", executor=Elsewhere(beginning))) == expected


@pytest.mark.slow
def test_workers_that_wrote_somewhere_else(raw: RawGraph, tmp_path: Path) -> None:
    """Guards against a store whose edges lie on another machine: absent files would read as zeros."""
    left_out: Executor = Elsewhere(lambda piece: 0 if getattr(piece, "start", None) == 0 else 1)
    with pytest.raises(DatasetError, match=r"1 of the \d+ files of edges/node__to__node/indptr that"):
        make_store(raw, target=tmp_path / "found", executor=left_out)
    assert not (tmp_path / "found").exists()
