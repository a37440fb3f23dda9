"""The registry's reader of plain edge lists, with optional features, labels and splits in files of their own.

It reads what `graphprep import` reads, by the same code; here the files are named by the entry.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pydantic import PositiveInt

from graphprep.core.choices import LabelTask
from graphprep.core.splits import SplitRule
from graphprep.core.types import RawGraph
from graphprep.datasets.entry import DatasetEntry
from graphprep.datasets.importing import tables
from graphprep.datasets.importing.edges.edge_file import EdgeOptions
from graphprep.datasets.importing.edges.edge_formats import open_edges
from graphprep.datasets.importing.import_request import ImportRequest
from graphprep.datasets.importing.node_files import PARTS
from graphprep.datasets.importing.user_files import read_files
from graphprep.datasets.reader_options import ReaderOptions, options_of
from graphprep.system.files.verify import FileCheck


class EntryOptions(ReaderOptions):
    """Names of files, and how to read them."""

    edges: tuple[str, ...] | None = None
    """all files of the entry that are not named below, unless given"""
    features: str | None = None
    labels: str | None = None
    times: str | None = None
    train: str | None = None
    val: str | None = None
    test: str | None = None
    num_nodes: PositiveInt | None = None
    weights: bool = False
    edge_times: bool = False
    header: bool | None = None
    task: LabelTask = "auto"
    """what the labels are for"""


def file_check(entry: DatasetEntry, name: str) -> FileCheck | None:
    """Reads a file as what the entry says that it is. Splits are read when the number of nodes is known."""
    options = options_of(entry, EntryOptions)
    roles = {getattr(options, part): part for part in PARTS}
    match roles.get(name, "edges" if options.edges is None or name in options.edges else None):
        case "edges":
            return partial(_check_edges, options)
        case "features":
            return tables.load_features
        case "labels":
            return partial(tables.load_labels, task=options.task)
        case _:
            return None


def read(folder: Path, entry: DatasetEntry) -> RawGraph:
    """The graph of a registry entry."""
    options = options_of(entry, EntryOptions)
    names = {part: name for part in PARTS if (name := getattr(options, part)) is not None}
    edges = options.edges or tuple(file.file_name for file in entry.files if file.file_name not in names.values())
    return read_files(
        ImportRequest.of_one_type(
            tuple(folder / name for name in edges),
            weights=options.weights,
            edge_times=options.edge_times,
            header=options.header,
            undirected=entry.treatment.undirected,
            duplicates=entry.treatment.duplicates,
            self_loops=entry.treatment.self_loops,
            split=entry.split or SplitRule(),
            num_nodes=options.num_nodes,
            task=options.task,
            **{"node_times" if part == "times" else part: folder / name for part, name in names.items()},
        )
    )


def _check_edges(options: EntryOptions, path: Path) -> None:
    count = options.num_nodes
    edge_options = EdgeOptions(
        weights=options.weights,
        times=options.edge_times,
        header=options.header,
        num_sources=count,
        num_destinations=count,
    )
    for _ in open_edges(path, "auto", edge_options).rows():
        pass
