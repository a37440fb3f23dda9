"""What every reader promises, whatever it reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from graphprep.core.types import RawGraph
from graphprep.datasets import readers, registry
from tests.datasets import dgl_files, ogb_files, planetoid_files, published_files
from tests.datasets.entries import entry
from tests.datasets.published import PUBLISHED


def from_digits(folder: Path) -> RawGraph:
    return readers.read(folder, registry.entry("digits"))


def from_planetoid(folder: Path) -> RawGraph:
    planetoid_files.write(folder, planetoid_files.parts(skipped=(13,)))
    return readers.read(folder, entry("planetoid", options={"val_nodes": 3, "isolated_test_nodes": True}))


def from_edge_list(folder: Path) -> RawGraph:
    (folder / "e").write_text("7 9\n9 5\n5 5\n7 9\n")
    return readers.read(folder, entry("edge_list", files=[{"url": "https://h/e"}]))


def from_published(name: str) -> Callable[[Path], RawGraph]:
    return lambda folder: readers.read(folder, PUBLISHED[name].write(folder))


def from_ogb(folder: Path) -> RawGraph:
    ogb_files.write(folder, ogb_files.text())
    return readers.read(folder, ogb_files.mini(**ogb_files.FULL, inverse_edges=True))


def from_typed_ogb(folder: Path) -> RawGraph:
    ogb_files.write(folder, ogb_files.typed_text())
    return readers.read(folder, ogb_files.mini(typed=True, node_files=["node_year"]))


def from_binary_ogb(folder: Path) -> RawGraph:
    ogb_files.write(folder, ogb_files.binary())
    return readers.read(folder, ogb_files.mini(binary=True))


def from_fraud(folder: Path) -> RawGraph:
    return readers.read(folder, dgl_files.write_fraud(folder, dgl_files.fraud()))


def from_zipped(folder: Path) -> RawGraph:
    files = published_files.wikics()
    dgl_files.write(folder, files)
    return readers.read(folder, dgl_files.zip_entry("wikics", list(files)))


READERS: dict[str, Callable[[Path], RawGraph]] = {
    **{name: from_published(name) for name in PUBLISHED},
    "digits": from_digits,
    "planetoid": from_planetoid,
    "edge_list": from_edge_list,
    "ogb": from_ogb,
    "ogb, typed": from_typed_ogb,
    "ogb, binary": from_binary_ogb,
    "fraud": from_fraud,
    "zipped": from_zipped,
}


def test_every_reader_is_tested() -> None:
    """A new reader must be added here."""
    assert set(readers.READERS) <= set(READERS)


@pytest.mark.parametrize("name", READERS)
def test_contract(tmp_path: Path, name: str) -> None:
    """The converter trusts shapes, dtypes and ranges; a reader that breaks one breaks every store from it."""
    raw = READERS[name](tmp_path)
    for table in raw.nodes.values():
        for array in table.arrays().values():
            assert len(array) == table.num_nodes
        if table.x is not None:
            assert table.x.ndim == 2
            assert table.x.dtype.kind in "fiu"
        if table.y is not None and table.y.ndim == 1:
            assert table.y.dtype == np.int64
            assert table.y.min() >= -1
        masks = [mask for mask in (table.train_mask, table.val_mask, table.test_mask) if mask is not None]
        assert all(mask.dtype == np.bool_ and mask.ndim == 2 for mask in masks)
        assert len({mask.shape for mask in masks}) <= 1
        assert not masks or np.sum(masks, axis=0).max() <= 1
    for edges in raw.edges:
        first, second = list(edges.chunks()), list(edges.chunks())
        assert sum(len(chunk.src) for chunk in first) == edges.num_edges
        for chunk, again in zip(first, second, strict=True):
            assert chunk.src.dtype == chunk.dst.dtype in (np.int32, np.int64)
            assert np.array_equal(chunk.src, again.src)
            assert np.array_equal(chunk.dst, again.dst)
            for ids, node_type in ((chunk.src, edges.type.source), (chunk.dst, edges.type.destination)):
                assert ids.min() >= 0
                assert ids.max() < raw.nodes[node_type].num_nodes
