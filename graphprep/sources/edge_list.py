"""Edge lists in text, as SNAP and everyone else publishes them, with optional features, labels and splits.

What an id means: when the number of nodes is known (given, or from the rows of features or labels), ids are row numbers
and must be below it. Otherwise the nodes are the ids that occur. If these are 0 .. N-1 they stay; if there are gaps, or
they begin at 1, they are numbered anew in ascending order, and `original_id` keeps what they were.

The file is read once to learn the ids, count the edges and find the first bad line, and again whenever the edges are
asked for; edges are never held here. A graph without a split but with labels gets the seeded one, and `notes` says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from graphprep import progress
from graphprep.errors import DatasetError, UsageError
from graphprep.graph import (
    HOMOGENEOUS_EDGE,
    HOMOGENEOUS_NODE,
    Duplicates,
    EdgeChunk,
    EdgeTable,
    NodeTable,
    RawGraph,
    SelfLoops,
    Treatment,
)
from graphprep.sources import tables
from graphprep.sources.edge_text import EdgeText
from graphprep.sources.ids import DistinctIds, Renumbering
from graphprep.sources.options import ReaderOptions, options_of
from graphprep.split import seeded_split
from graphprep.whole_file import FileCheck

if TYPE_CHECKING:
    from graphprep.registry import DatasetEntry

PARTS = ("features", "labels", "train", "val", "test")


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeListOptions:
    """The files of a graph and how to read them.

    `undirected`, `duplicates` and `self_loops` are those of `graphprep.graph.Treatment`; the last three are of the
    split that is drawn where there are labels and no masks.
    """

    edges: tuple[Path, ...]
    """text, .gz or not; several files are read one after the other as one list"""
    features: Path | None = None
    """.npy, .npz, .csv or .parquet, one row a node"""
    labels: Path | None = None
    """.npy, .csv or .txt, one class a node, -1 for none"""
    train: Path | None = None
    """.npy with a mask or node numbers, as are the two below"""
    val: Path | None = None
    test: Path | None = None
    num_nodes: int | None = None
    """None: as many as there are rows of features or labels, else as many as there are ids"""
    weights: bool = False
    """whether a third column is the edges' weight; it is ignored otherwise"""
    header: bool | None = None
    """whether the first line names the columns; None: in .csv and .tsv, where no field of it is a number"""
    undirected: bool = False
    duplicates: Duplicates = "keep"
    self_loops: SelfLoops = "keep"
    train_per_class: int = 20
    val_per_class: int = 30
    seed: int = 0

    @property
    def treatment(self) -> Treatment:
        return Treatment(undirected=self.undirected, duplicates=self.duplicates, self_loops=self.self_loops)

    def files(self) -> list[tuple[str, Path]]:
        """Every file with its role, in a fixed order."""
        parts = [(name, getattr(self, name)) for name in PARTS]
        return [("edges", path) for path in self.edges] + [(name, path) for name, path in parts if path is not None]

    def inputs(self) -> list[dict[str, object]]:
        """Every file as it is now: role, name, bytes, sha256.

        Raises:
            DatasetError: one cannot be read.
        """
        found: list[dict[str, object]] = []
        for role, path in self.files():
            try:
                with path.open("rb") as stream:
                    digest = hashlib.file_digest(stream, "sha256").hexdigest()
                    found.append({"role": role, "name": path.name, "bytes": stream.tell(), "sha256": digest})
            except OSError as problem:
                raise DatasetError(f"{path} cannot be read ({problem.strerror})") from problem
        return found

    def to_json(self) -> dict[str, object]:
        """All but the files' places, which do not change the graph: their roles stand for them."""
        options = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value for name, value in options.items() if name not in ("edges", *PARTS)} | {
            "roles": [role for role, _ in self.files()]
        }


class EntryOptions(ReaderOptions):
    """The same in the registry, with the names of files."""

    edges: tuple[str, ...] | None = None
    """all files of the entry that are not named below, unless given"""
    features: str | None = None
    labels: str | None = None
    train: str | None = None
    val: str | None = None
    test: str | None = None
    num_nodes: PositiveInt | None = None
    weights: bool = False
    header: bool | None = None


def file_check(entry: DatasetEntry, name: str) -> FileCheck | None:
    """Reads a file as what the entry says that it is. Splits are read when the number of nodes is known."""
    options = options_of(entry, EntryOptions)
    roles = {getattr(options, part): part for part in PARTS}
    match roles.get(name, "edges" if options.edges is None or name in options.edges else None):
        case "edges":
            return partial(_check_edges, options)
        case "features":
            return _check_features
        case "labels":
            return _check_labels
        case _:
            return None


def read(folder: Path, entry: DatasetEntry) -> RawGraph:
    """The graph of a registry entry."""
    from graphprep.registry import SplitEntry

    options = options_of(entry, EntryOptions)
    names = {part: name for part in PARTS if (name := getattr(options, part)) is not None}
    edges = options.edges or tuple(file.file_name for file in entry.files if file.file_name not in names.values())
    split = entry.split or SplitEntry()
    return read_edge_list(
        EdgeListOptions(
            edges=tuple(folder / name for name in edges),
            **{part: folder / name for part, name in names.items()},
            num_nodes=options.num_nodes,
            weights=options.weights,
            header=options.header,
            undirected=entry.treatment.undirected,
            duplicates=entry.treatment.duplicates,
            self_loops=entry.treatment.self_loops,
            train_per_class=split.train,
            val_per_class=split.val,
            seed=split.seed,
        )
    )


def read_edge_list(options: EdgeListOptions) -> RawGraph:
    """The graph of a user's own files.

    Returns:
        x [N, F] in the file's dtype, y int64 [N] or [N, C], masks bool [N, S]; a stream of edges.

    Raises:
        DatasetError: a file is not what it should be (with its line or row), or two do not fit together.
        UsageError: no file of edges is named, or masks without labels.
    """
    if not options.edges:
        raise UsageError("an edge list needs at least one file of edges")
    x = tables.load_features(options.features) if options.features else None
    y = tables.load_labels(options.labels) if options.labels else None
    known = _known_count(options, x, y)
    texts = [EdgeText(path, weights=options.weights, header=options.header, num_nodes=known) for path in options.edges]
    ids, num_edges = _scan(texts, known)
    num_nodes = len(ids) if ids is not None else known or 0
    renumbered = None if ids is None or ids[-1] == len(ids) - 1 else Renumbering(ids)
    original = None if renumbered is None else ids
    masks, split_note = _masks(options, y, num_nodes)
    notes: dict[str, object] = {"ids": "kept" if original is None else "numbered anew in ascending order", **split_note}
    if not options.weights and any(text.layout.columns == 3 for text in texts):
        notes["third_column"] = "ignored"
    return RawGraph(
        nodes={HOMOGENEOUS_NODE: NodeTable(num_nodes=num_nodes, x=x, y=y, original_id=original, **masks)},
        edges=(EdgeTable(type=HOMOGENEOUS_EDGE, chunks=partial(_chunks, texts, renumbered), num_edges=num_edges),),
        treatment=options.treatment,
        notes=notes,
    )


def _check_edges(options: EntryOptions, path: Path) -> None:
    for _ in EdgeText(path, weights=options.weights, header=options.header, num_nodes=options.num_nodes).chunks():
        pass


def _check_features(path: Path) -> None:
    tables.load_features(path)


def _check_labels(path: Path) -> None:
    tables.load_labels(path)


def _known_count(options: EdgeListOptions, x: NDArray[Any] | None, y: NDArray[Any] | None) -> int | None:
    """N, if anything but the edges says it."""
    said = [("num_nodes", options.num_nodes)]
    said += [(str(path), len(rows)) for path, rows in ((options.features, x), (options.labels, y)) if rows is not None]
    known = [(name, count) for name, count in said if count is not None]
    for name, count in known[1:]:
        if count != known[0][1]:
            raise DatasetError(f"{name} has {count:,} nodes but {known[0][0]} has {known[0][1]:,}; they must agree")
    if known and known[0][1] < 1:
        raise DatasetError(f"{known[0][0]} has no nodes")
    return known[0][1] if known else None


def _scan(texts: Sequence[EdgeText], count: int | None) -> tuple[NDArray[np.int64] | None, int]:
    """The distinct ids in ascending order, None if N is known already; and the number of edges."""
    found = DistinctIds() if count is None else None
    num_edges = 0
    with progress.task("reading the edges", unit="edges") as task:
        for text in texts:
            for chunk in text.chunks():
                if found is not None:
                    found.add(chunk.src)
                    found.add(chunk.dst)
                num_edges += len(chunk.src)
                task.advance(len(chunk.src))
    return (None if found is None else found.ascending()), num_edges


def _chunks(texts: Sequence[EdgeText], renumbered: Renumbering | None) -> Iterator[EdgeChunk]:
    """The edges, with ids as row numbers."""
    for text in texts:
        for chunk in text.chunks():
            if renumbered is None:
                yield chunk
            else:
                yield EdgeChunk(renumbered.rows(chunk.src), renumbered.rows(chunk.dst), chunk.weight)


def _masks(
    options: EdgeListOptions, y: NDArray[Any] | None, num_nodes: int
) -> tuple[dict[str, NDArray[np.bool_]], dict[str, object]]:
    """The masks by their name in NodeTable, and a note if they were drawn."""
    given = {"train_mask": options.train, "val_mask": options.val, "test_mask": options.test}
    paths = {name: path for name, path in given.items() if path is not None}
    if not paths:
        if y is None or y.ndim != 1:
            return {}, {}
        drawn = seeded_split(y, options.train_per_class, options.val_per_class, options.seed)
        note = {"train": options.train_per_class, "val": options.val_per_class, "seed": options.seed}
        return drawn._asdict(), {"seeded_split": note}
    if y is None:
        raise UsageError(f"{next(iter(paths.values()))} splits the nodes, but there are no labels; name their file too")
    masks = {name: tables.load_mask(path, num_nodes) for name, path in paths.items()}
    tables.require_disjoint({str(paths[name]): mask for name, mask in masks.items()})
    if "train_mask" in masks and y.ndim == 1:
        blank = np.flatnonzero(masks["train_mask"].any(axis=1) & (y < 0))
        if len(blank):
            raise DatasetError(f"{options.train} trains on the node {blank[0]}, which has no label in {options.labels}")
    return masks, {}
