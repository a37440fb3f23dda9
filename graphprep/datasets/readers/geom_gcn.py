"""Geom-GCN's graph of actors: two tab-separated texts and ten splits in .npz files.

    out1_node_feature_label.txt    a heading, then node, the numbers of its features with commas, its class
    out1_graph_edges.txt           a heading, then source and destination
    *_split_0.6_0.2_<k>.npz        train_mask, val_mask, test_mask [N]

Edges are directed; the registry's treatment drops repeated ones, as PyTorch Geometric does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import RawGraph
from graphprep.datasets.assemble import one_type
from graphprep.datasets.entry import DatasetEntry
from graphprep.datasets.formats.arrays import Npz, check_npz
from graphprep.datasets.formats.checks import classes, disjoint, flags, node_ids, reading
from graphprep.datasets.reader_options import ReaderOptions, options_of
from graphprep.errors import DatasetError
from graphprep.system.files.archive import Archive
from graphprep.system.files.regular_file import regular_file
from graphprep.system.files.verify import HEAD_BYTES, FileCheck, substitute

NODES, EDGES = "out1_node_feature_label.txt", "out1_graph_edges.txt"
PARTS = ("train", "val", "test")


def file_check(entry: DatasetEntry, name: str) -> FileCheck | None:  # noqa: ARG001
    """Reads a file as what its name says."""
    return {NODES: _nodes, EDGES: _edges}.get(name, check_npz)


def read(folder: Path, entry: DatasetEntry) -> RawGraph:
    """The graph; x float32 [N, F] of 0 and 1, y int64 [N], masks bool [N, S], edges as listed."""
    options_of(entry, ReaderOptions)
    with reading(folder / NODES):
        x, y = _nodes(folder / NODES)
    with reading(folder / EDGES):
        edges = node_ids(_edges(folder / EDGES), len(x), "it")
    columns: dict[str, list[NDArray[np.bool_]]] = {part: [] for part in PARTS}
    for file in entry.files:
        if file.file_name.endswith(".npz"):
            with reading(folder / file.file_name), Archive(folder / file.file_name) as archive:
                split = {part: flags(Npz(archive).array(f"{part}_mask", "biuf", (len(x),))[:, None]) for part in PARTS}
                for part, mask in disjoint(split).items():
                    columns[part].append(mask)
    masks = {f"{part}_mask": np.hstack(of_part) for part, of_part in columns.items() if of_part} or None
    return one_type(entry, num_nodes=len(x), x=x, y=y, edges=edges, masks=masks)


def _rows(path: Path, fields: int) -> list[tuple[int, list[bytes]]]:
    """The lines after the heading with their numbers, each split into so many fields."""
    text = regular_file(path).read_bytes()
    if suspect := substitute(text[:HEAD_BYTES]):
        raise DatasetError(suspect)
    if not text.endswith(b"\n"):
        raise DatasetError("it is cut short: its last line has no end")
    lines = text.splitlines()
    rows = [(number, line.split(b"\t")) for number, line in enumerate(lines, 1) if number > 1 and line.strip()]
    for number, row in rows:
        if len(row) != fields:
            raise DatasetError(f"line {number} has {len(row)} fields, not {fields}")
    if not rows:
        raise DatasetError("it has no lines after its heading")
    return rows


def _integer(word: bytes, number: int) -> int:
    if not word.strip().isdigit() or len(word) > 18:
        raise DatasetError(f"line {number} has {word[:40].decode('utf-8', 'replace')!r} where a number should be")
    return int(word)


def _nodes(path: Path) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rows = _rows(path, 3)
    nodes = [_integer(row[0], number) for number, row in rows]
    if sorted(nodes) != list(range(len(nodes))):
        raise DatasetError(f"its {len(nodes):,} lines do not name each of the nodes 0 .. {len(nodes) - 1:,} once")
    words = [[_integer(word, number) for word in row[1].split(b",")] for number, row in rows]
    width = max(map(max, words)) + 1
    if width > len(nodes) * 100:
        raise DatasetError(f"it names the feature {width - 1:,}, which cannot be one of {len(nodes):,} nodes")
    x = np.zeros((len(nodes), width), np.float32)
    y = np.zeros(len(nodes), np.int64)
    for node, near, (number, row) in zip(nodes, words, rows, strict=True):
        x[node, near] = 1
        y[node] = _integer(row[2], number)
    return x, classes(y)


def _edges(path: Path) -> NDArray[Any]:
    return np.array([[_integer(word, number) for word in row] for number, row in _rows(path, 2)], np.int64)
