"""Small graphs in the files of every published source, and the same graphs as PyTorch Geometric reads them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graphprep.core.csr import from_edges
from graphprep.core.types import EdgeTable, RawGraph
from graphprep.datasets.entry import DatasetEntry
from graphprep.datasets.registry import load_registry
from tests.datasets import published_files
from tests.datasets.entries import entry
from tests.datasets.published_files import Files, as_bytes, zipped


@dataclass(frozen=True, kw_only=True)
class Published:
    """One source: its files, which tests then spoil, and the class of PyTorch Geometric that reads the same."""

    like: str
    """the registry's entry whose reader, options and treatment are used"""
    files: Callable[[], Files]
    packed: Callable[[Files], Files] = dict
    """how the files lie where they are fetched from: in zip archives"""
    pyg: str
    """name of the class in torch_geometric.datasets"""
    pyg_arguments: Mapping[str, Any]
    pyg_raw: str = "raw"
    """where below its root that class looks for the files"""

    def entry(self, names: list[str]) -> DatasetEntry:
        known = load_registry()[self.like]
        copied = known.model_dump(include={"source", "options", "treatment", "protocol"})
        return entry(**copied, files=[{"url": f"https://example.org/{name}"} for name in names])

    def write(self, folder: Path, files: Files | None = None) -> DatasetEntry:
        """Write the files as they are fetched; returns their entry."""
        whole = self.packed(self.files() if files is None else files)
        write_files(folder, whole)
        return self.entry(list(whole))

    def from_pyg(self, root: Path) -> Any:
        """What PyTorch Geometric makes of the files, downloading nothing."""
        import torch_geometric.datasets as datasets

        write_files(root / self.pyg_raw, self.files())
        return getattr(datasets, self.pyg)(str(root), **self.pyg_arguments)


def write_files(folder: Path, files: Files) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(as_bytes(name, content))


def treated(raw: RawGraph, table: EdgeTable) -> np.ndarray[Any, Any]:
    """The edges of one type after the graph's treatment: (source, destination) rows in ascending order."""
    sizes = {name: nodes.num_nodes for name, nodes in raw.nodes.items()}
    csr, _ = from_edges(
        table.chunks(),
        num_rows=sizes[table.type.destination],
        num_sources=sizes[table.type.source],
        treatment=raw.treatment,
        name=table.type.key,
        square=table.type.source == table.type.destination,
    )
    rows = np.repeat(np.arange(csr.num_rows), np.diff(csr.indptr))
    return ordered(np.column_stack([csr.indices, rows]))


def ordered(pairs: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(pairs, np.int64).reshape(-1, 2)
    return array[np.lexsort((array[:, 1], array[:, 0]))]


def same(raw: RawGraph, data: Any) -> None:
    """Nodes, labels, masks and every edge of a graph of one node type are those of PyTorch Geometric's `data`."""
    (table,) = raw.nodes.values()
    assert np.array_equal(treated(raw, raw.edges[0]), ordered(data.edge_index.t().numpy()))
    assert table.x is not None
    assert np.array_equal(table.x.astype(np.float32), data.x.float().numpy())
    assert np.array_equal(np.asarray(table.y), data.y.numpy())
    for name in ("train_mask", "val_mask", "test_mask"):
        if name in data:
            found, wanted = getattr(table, name), data[name].numpy().reshape(table.num_nodes, -1)
            assert np.array_equal(found, np.broadcast_to(wanted, found.shape))


def _one_zip(name: str) -> Callable[[Files], Files]:
    return lambda files: {name: zipped(files)}


def _aminer_zips(files: Files) -> Files:
    parts = {"net_aminer.zip": "net_aminer/", "label.zip": "label/"}
    return {
        archive: zipped({name: content for name, content in files.items() if name.startswith(folder)})
        for archive, folder in parts.items()
    }


def _none() -> Files:
    return {}


PUBLISHED: dict[str, Published] = {
    "gnn_benchmark": Published(
        like="amazon-photo",
        files=published_files.gnn_benchmark,
        pyg="Amazon",
        pyg_arguments={"name": "Photo"},
        pyg_raw="Photo/raw",
    ),
    "heterophilous": Published(
        like="minesweeper",
        files=published_files.heterophilous,
        pyg="HeterophilousGraphDataset",
        pyg_arguments={"name": "Minesweeper"},
        pyg_raw="minesweeper/raw",
    ),
    "musae": Published(
        like="facebook-page-page", files=published_files.musae, pyg="FacebookPagePage", pyg_arguments={}
    ),
    "wikics": Published(
        like="wikics", files=published_files.wikics, pyg="WikiCS", pyg_arguments={"is_undirected": True}
    ),
    "graphsaint": Published(like="flickr", files=published_files.graphsaint, pyg="Flickr", pyg_arguments={}),
    "graphsaint_labels": Published(like="yelp", files=published_files.several_labels, pyg="Yelp", pyg_arguments={}),
    "reddit": Published(
        like="reddit", files=published_files.reddit, packed=_one_zip("reddit.zip"), pyg="Reddit", pyg_arguments={}
    ),
    "ppi": Published(like="ppi", files=published_files.ppi, packed=_one_zip("ppi.zip"), pyg="PPI", pyg_arguments={}),
    "geom_gcn": Published(like="actor", files=published_files.geom_gcn, pyg="Actor", pyg_arguments={}),
    "magnn": Published(like="dblp", files=published_files.dblp, packed=_one_zip("d.zip"), pyg="DBLP", pyg_arguments={}),
    "magnn_imdb": Published(
        like="imdb", files=published_files.imdb, packed=_one_zip("i.zip"), pyg="IMDB", pyg_arguments={}
    ),
    "aminer": Published(
        like="aminer", files=published_files.aminer, packed=_aminer_zips, pyg="AMiner", pyg_arguments={}
    ),
    "karate": Published(like="karate", files=_none, pyg="KarateClub", pyg_arguments={}),
}


def spoiled(kind: str, folder: Path, spoil: Callable[[Files], None]) -> DatasetEntry:
    """Write a source's files after `spoil` has changed them."""
    files = PUBLISHED[kind].files()
    spoil(files)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return PUBLISHED[kind].write(folder, files)
