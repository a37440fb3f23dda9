"""Datasets of the Open Graph Benchmark, from the zip archive that OGB publishes, without the ogb package.

The ogb package keeps the raw files, a pickle of the whole graph and a second copy in memory; it asks questions on the
terminal, and fails under torch 2.6 or later, where a pickle is no longer loaded unseen. Here the archive is read where
it lies, every member as a stream, in the memory of a few blocks and what `RawGraph` holds; features beyond 256 MB are
mapped from a scratch file.

Direction is OGB's: where its table says `add_inverse_edge`, each edge is followed by its reverse, self-loops and pairs
that are listed both ways included, and edge features are repeated with them. So the edges are those that `ogb` gives,
in the same order and number.

Labels of one task are classes, -1 where OGB has NaN; several tasks are a table of truth values (float32 with NaN where
some are unknown). Link datasets have no labels; their graph is that of the training edges, as OGB gives it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from graphprep.core.types import EdgeChunk, EdgeTable, EdgeType, NodeTable, RawGraph
from graphprep.datasets.entry import DatasetEntry
from graphprep.datasets.formats.checks import reading
from graphprep.datasets.formats.edge_weights import rounded_in, say_rounded
from graphprep.datasets.reader_options import ReaderOptions, options_of
from graphprep.datasets.readers.ogb.layout import FEATURES, Array, Layout
from graphprep.datasets.readers.ogb.split import Masks, read_split
from graphprep.errors import DatasetError
from graphprep.system.files.archive import Archive
from graphprep.system.files.verify import FileCheck

WEIGHT = "weight"
RELATION_NUMBER = "reltype"
ROWS_AT_ONCE = 1 << 20
RELEASE = re.compile(r"RELEASE_v(\d+)\.txt")


class OgbOptions(ReaderOptions):
    """One column of OGB's table."""

    folder: str
    """`download_name`: the folder in the archive"""
    version: PositiveInt = 1
    binary: bool = False
    typed: bool = False
    """`is hetero`: several types of nodes and edges"""
    inverse_edges: bool = False
    """`add_inverse_edge`"""
    node_features: bool = False
    edge_features: bool = False
    node_files: tuple[str, ...] = ()
    """the additional files: node_year ..."""
    edge_files: tuple[str, ...] = ()
    tasks: PositiveInt | None = None
    """columns of labels; None for a dataset of links, which has none"""
    classes: PositiveInt | None = None
    """of a dataset with one task; None if it predicts a number"""
    split: str | None = None
    """the folder of the split of nodes"""
    metric: str | None = None


def file_check(entry: DatasetEntry, name: str) -> FileCheck | None:  # noqa: ARG001
    """Reads all members to their ends, and finds the release."""
    return partial(_check, options_of(entry, OgbOptions))


def read(folder: Path, entry: DatasetEntry) -> RawGraph:
    """The graph of an OGB dataset.

    Returns:
        By node type x [N, F] (float32 or int64 from text, as stored from .npz), y int64 [N] or bool/float32 [N, tasks],
        masks bool [N, 1], `more` such as year [N]. By edge type a stream of edges, weighted where OGB has edge_weight,
        and attributes such as feat [E, F].

    Raises:
        DatasetError: the archive or a member is damaged, or the files contradict each other. What is wrong with the
            edges themselves is found when they are streamed.
        NoRoomError: the disk cannot hold the scratch files.
    """
    options = options_of(entry, OgbOptions)
    path = folder / entry.files[0].file_name
    with reading(path):
        with Archive(path) as archive:
            _require_release(archive, options)
        layout = _layout(path, options)
        nodes = {node_type: _node_table(layout, node_type, options) for node_type in layout.node_counts}
        if options.tasks and all(table.y is None for table in nodes.values()):
            raise DatasetError("it has no labels (no member node-label in raw/)")
        if options.node_features and all(table.x is None for table in nodes.values()):
            raise DatasetError("it has no features of nodes (no member node-feat in raw/)")
        if options.split:
            split = f"{options.folder}/split/{options.split}"
            masks = read_split(path, split, layout.node_counts, typed=options.typed)
            nodes |= {node_type: _split(nodes[node_type], of_type) for node_type, of_type in masks.items()}
        notes: dict[str, object] = {"split": f"OGB's own: {options.split}"} if options.split else {}
        notes |= {"metric": options.metric} if options.metric else {}
        edges = tuple(_edge_table(path, layout, edge_type, options, notes) for edge_type in layout.edge_counts)
        # A binary dataset has one file for all; of ogbl-vessel the table says more than is in it, and ogb goes on.
        if options.edge_features and not options.binary and not any(FEATURES in table.attributes for table in edges):
            raise DatasetError("it has no features of edges (no member edge-feat in raw/)")
    return RawGraph(nodes=nodes, edges=edges, treatment=entry.edge_treatment, notes=notes)


def _check(options: OgbOptions, path: Path) -> None:
    with Archive(path) as archive:
        _require_release(archive, options)
        archive.check()


def _require_release(archive: Archive, options: OgbOptions) -> None:
    """An old release under the same URL is another dataset; OGB would ask whether to remove it."""
    inside = [
        name.removeprefix(f"{options.folder}/") for name in archive.names if name.startswith(f"{options.folder}/")
    ]
    if not inside:
        raise DatasetError(
            f"it has no folder {options.folder} (it begins with {', '.join(archive.names[:3]) or 'none'})"
        )
    releases = [int(match[1]) for name in inside if (match := RELEASE.fullmatch(name))]
    if releases and options.version not in releases:
        raise DatasetError(f"it is release {max(releases)} of the dataset, where release {options.version} is wanted")


def _layout(path: Path, options: OgbOptions) -> Layout:
    if options.binary:
        from graphprep.datasets.readers.ogb.binary import BinaryLayout, TypedBinaryLayout

        return (TypedBinaryLayout if options.typed else BinaryLayout)(path, options.folder)
    from graphprep.datasets.readers.ogb.text import TextLayout, TypedTextLayout

    kind = TypedTextLayout if options.typed else TextLayout
    return kind(path, options.folder, options.node_files, options.edge_files)


def _node_table(layout: Layout, node_type: str, options: OgbOptions) -> NodeTable:
    names = layout.node_names(node_type)
    if not options.typed:
        _require_files(names, options.node_files, "node_")
    arrays = {name: layout.node_array(node_type, name) for name in names}
    labels = layout.labels(node_type) if options.tasks else None
    y = None if labels is None else _labels(labels, options)
    return NodeTable(
        num_nodes=layout.node_counts[node_type],
        x=arrays.pop(FEATURES, None),
        y=y,
        more={name: _column(array) for name, array in arrays.items()},
    )


def _split(table: NodeTable, masks: Masks) -> NodeTable:
    y: Any = table.y
    if y is not None and y.ndim == 1:
        blank = np.flatnonzero(masks["train_mask"][:, 0] & (y < 0))
        if len(blank):
            raise DatasetError(f"its split trains on the node {blank[0]:,}, which has no label")
    return replace(table, train_mask=masks["train_mask"], val_mask=masks["val_mask"], test_mask=masks["test_mask"])


def _edge_table(
    path: Path, layout: Layout, edge_type: EdgeType, options: OgbOptions, notes: dict[str, object]
) -> EdgeTable:
    if options.inverse_edges and edge_type.source != edge_type.destination:
        raise DatasetError(f"its edges {edge_type.key} cannot be reversed: their ends are of two types")
    names = layout.edge_names(edge_type)
    if not options.typed:
        _require_files(names, options.edge_files, "edge_")
    repeat = 2 if options.inverse_edges else 1
    weight = None
    attributes: dict[str, Array] = {}
    for name in names:
        if name == WEIGHT:
            weights = _column(layout.edge_array(edge_type, name, 1))
            weight = weights.astype(np.float32)
            say_rounded(path, [rounded_in(weights.astype(np.float64, copy=False))])
            if weight.ndim != 1:
                raise DatasetError(f"its edges {edge_type.key} have several weights each")
            continue
        array = (
            _column(layout.edge_array(edge_type, name, repeat))
            if name != FEATURES
            else layout.edge_array(edge_type, name, repeat)
        )
        if name == RELATION_NUMBER and options.typed and len(array) and array.ndim == 1 and (array == array[0]).all():
            notes.setdefault("relation_numbers", {})[edge_type.key] = int(array[0])  # type: ignore[index]
        else:
            attributes[name] = array
    return EdgeTable(
        type=edge_type,
        chunks=partial(_chunks, path, layout, edge_type, weight, options.inverse_edges),
        num_edges=layout.edge_counts[edge_type] * repeat,
        attributes=attributes,
    )


def _chunks(
    path: Path, layout: Layout, edge_type: EdgeType, weight: NDArray[np.float32] | None, both_ways: bool
) -> Iterator[EdgeChunk]:
    """The edges, in range and as many as were counted."""
    counted, seen = layout.edge_counts[edge_type], 0
    with reading(path):
        for src, dst in layout.endpoints(edge_type):
            for ids, end, node_type in (
                (src, "source", edge_type.source),
                (dst, "destination", edge_type.destination),
            ):
                count = layout.node_counts[node_type]
                if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < count:
                    odd = int(np.argmax((ids < 0) | (ids >= count)))
                    raise DatasetError(
                        f"edge {seen + odd:,} of {edge_type.key} has the {end} {ids[odd]:,}, "
                        f"but nodes of type {node_type} are 0 .. {count - 1:,}"
                    )
            start, seen = seen, seen + len(src)
            if seen > counted:
                break
            chunk = EdgeChunk(src, dst, None if weight is None else weight[start:seen])
            yield _with_reverses(chunk) if both_ways else chunk
        if seen != counted:
            listed = f"more than {counted:,}" if seen > counted else f"{seen:,}"
            raise DatasetError(f"it lists {listed} edges {edge_type.key} where its count says {counted:,}")


def _with_reverses(chunk: EdgeChunk) -> EdgeChunk:
    """Each edge, then its reverse."""
    src, dst = (np.empty(2 * len(chunk.src), np.int64) for _ in range(2))
    src[0::2] = dst[1::2] = chunk.src
    src[1::2] = dst[0::2] = chunk.dst
    return EdgeChunk(src, dst, None if chunk.weight is None else np.repeat(chunk.weight, 2))


def _labels(labels: Array, options: OgbOptions) -> Array:
    """Classes int64 [N], or a table [N, tasks]."""
    if labels.shape[1] != options.tasks:
        raise DatasetError(f"its labels have {labels.shape[1]} columns instead of {options.tasks}")
    if options.tasks == 1 and options.classes:
        return _classes(labels[:, 0], options.classes)
    if options.classes is None:
        if np.isinf(labels).any():
            raise DatasetError("its labels hold an infinity")
        return labels.astype(np.float32)
    unknown = np.isnan(labels)
    if not (fine := (unknown | (labels == 0) | (labels == 1)).all(axis=1)).all():
        raise DatasetError(f"row {int(np.argmin(fine)):,} of its labels holds something else than 0, 1 and NaN")
    return labels.astype(np.float32) if unknown.any() else labels.astype(np.bool_)


def _classes(column: Array, classes: int) -> NDArray[np.int64]:
    y = np.empty(len(column), np.int64)
    for start in range(0, len(column), ROWS_AT_ONCE):
        piece = column[start : start + ROWS_AT_ONCE].astype(np.float64)
        piece = np.where(np.isnan(piece), -1, piece)
        fine = (piece == np.floor(piece)) & (piece >= -1) & (piece < classes)
        if not fine.all():
            odd = int(np.argmin(fine))
            raise DatasetError(
                f"row {start + odd:,} of its labels is {piece[odd]:g}, where classes are 0 .. {classes - 1}"
            )
        y[start : start + len(piece)] = piece
    return y


def _require_files(names: tuple[str, ...], files: tuple[str, ...], prefix: str) -> None:
    for file in files:
        if file.removeprefix(prefix) not in names:
            raise DatasetError(f"it has no member {file} in raw/")


def _column(array: Any) -> Array:
    """[N] for [N, 1]."""
    flat: Array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    return flat
