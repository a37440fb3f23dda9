"""The formats by name, and what each says before it starts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphprep.errors import UsageError
from graphprep.interop.export.format import ExportSizes
from graphprep.interop.export.formats import FORMATS, export_format
from graphprep.topology import Topology
from tests.graphs import labelled_graph
from tests.stores import make_cache, make_store


def test_an_unknown_format_is_named() -> None:
    """Guards against a KeyError."""
    with pytest.raises(UsageError, match="--format 'csv' is unknown; use one of dgl, pyg, npz"):
        export_format("csv")


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_the_disk_that_is_announced_is_taken(tmp_path: Path, name: str, weighted: bool) -> None:
    """Guards against an estimate that forgets the halo, the weights or the map of edges."""
    store = make_store(labelled_graph(np.random.default_rng(1), 4000, 60_000, num_features=20, weighted=weighted))
    cache = make_cache(store, Topology.flat(4), tmp_path / "cache")
    folder = tmp_path / "out"
    folder.mkdir()
    done = []
    export_format(name).write(cache, folder, lambda: done.append(1))
    taken = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert len(done) == 4
    assert 0.95 < export_format(name).expected_bytes(ExportSizes.of(cache)) / taken < 1.05
