"""The nodes of one type from a user's files: features, labels, masks and times, matched by row or by id.

With an id column, each table (.csv, .parquet) says in that column to which node a row belongs. The first of features,
labels and times that is a table lists the nodes, in its order; the rows of the others are put into that order, and must
have the same ids. Files without ids (.npy) follow the same order. A split is then a mask of that order or a table with
the ids of its nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import DatasetError, UsageError
from graphprep.sources import tables
from graphprep.sources.node_ids import ListedIds, Original
from graphprep.sources.table_files import (
    TABLES,
    TEXT,
    TableOptions,
    kind_of_table,
    read_identified,
    read_table,
    reading,
)

Array = NDArray[Any]
SPLITS = ("train", "val", "test")
ROWS = ("features", "labels", "times")
PARTS = (*ROWS, *SPLITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFiles:
    """The files of one node type."""

    features: Path | None = None
    """.npy, .npz, .csv, .tsv, .txt or .parquet, one row a node"""
    labels: Path | None = None
    """likewise, one class a node, -1 for none"""
    times: Path | None = None
    """likewise, one number a node"""
    train: Path | None = None
    """a mask or node numbers, as are the two below"""
    val: Path | None = None
    test: Path | None = None
    num_nodes: int | None = None
    """None: as many as there are rows, else as many as there are ids"""
    id_column: str | None = None
    """of the tables, its name or number; None: rows are in the order of the ids 0 .. N-1"""
    header: bool | None = None
    """whether the first line of tables in text names the columns; None: told as `text_dialect` says"""
    delimiter: str | None = None
    """of tables in text; None: told likewise"""
    label: tuple[str, ...] = ()
    """the columns of `labels`, or of `features` if there is no such file, that are the labels; none: all"""
    feature: tuple[str, ...] = ()
    """the columns of `features` that are features; none: all that are nothing else"""
    split_column: str | None = None
    """the column of `labels` or `features` that has train, val, test or nothing for each node"""

    def options(self, *, words: bool, told: list[str]) -> TableOptions:
        """How its tables are read; see `TableOptions`."""
        return TableOptions(header=self.header, delimiter=self.delimiter, words=words, told=told)

    def reading(self) -> dict[str, object]:
        """How the files are read, for the key of a store."""
        return {
            "num_nodes": self.num_nodes,
            "id_column": self.id_column,
            "header": self.header,
            "delimiter": self.delimiter,
            "label": list(self.label),
            "feature": list(self.feature),
            "split_column": self.split_column,
        }

    def files(self) -> list[tuple[str, Path]]:
        """Every file with its role, in a fixed order."""
        return [(part, path) for part in PARTS if (path := getattr(self, part)) is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeData:
    """What is known about the nodes of one type before its edges are read."""

    arrays: Mapping[str, Array] = field(default_factory=dict)
    """by name in NodeTable; others go to `more`"""
    counts: Mapping[str, int] = field(default_factory=dict)
    """how many nodes there are, by who says so"""
    ids: ListedIds | None = None
    masks: Mapping[str, Path] = field(default_factory=dict)
    """files of masks that wait for the number of nodes, by name in NodeTable"""
    id_column: str | None = None
    origin: Mapping[str, str] = field(default_factory=dict)
    """the file of each array, for messages"""
    options: TableOptions = field(default_factory=TableOptions)
    """how tables are read"""
    told: Sequence[str] = ()
    """what was taken as what, for people"""

    def known_count(self) -> int | None:
        """N, if anything but the edges says it.

        Raises:
            DatasetError: two say different things.
        """
        known = list(self.counts.items())
        for name, count in known[1:]:
            if count != known[0][1]:
                raise DatasetError(f"{name} has {count:,} nodes but {known[0][0]} has {known[0][1]:,}; they must agree")
        if known and known[0][1] < 1:
            raise DatasetError(f"{known[0][0]} has no nodes")
        return known[0][1] if known else None


def load_nodes(files: NodeFiles, *, words: bool = False) -> NodeData:
    """The arrays of one node type, but for the masks.

    Args:
        files: of the type.
        words: whether ids are words, whatever they look like.

    Raises:
        DatasetError: a file is not what it should be, or two do not fit together.
        UsageError: an id column without a table, or columns of a file that is none.
    """
    load = {"features": tables.load_features, "labels": tables.load_labels, "times": tables.load_times}
    names = {"features": "x", "labels": "y", "times": "time"}
    arrays: dict[str, Array] = {}
    origin: dict[str, str] = {}
    told: list[str] = []
    ids: ListedIds | None = None
    counts = {} if files.num_nodes is None else {"num_nodes": files.num_nodes}
    plain = files.options(words=words, told=told)
    for part, path, options in _to_read(files, plain):
        options = replace(options, rows=next(iter(counts.values()), None))
        table = kind_of_table(path) in TABLES
        if files.id_column is not None and table:
            array, ids, split = _matched(path, files.id_column, part, ids, options)
        else:
            array = load[part](path, options)
            split = _split_of(path, options) if options.split_column is not None and table else None
        arrays[names[part]], origin[names[part]] = array, str(path)
        counts[str(path)] = len(array)
        if split is not None:
            arrays |= _masks_of(split)
            origin |= dict.fromkeys(_masks_of(split), str(path))
    if files.id_column is not None and ids is None:
        raise UsageError(
            f"the id column {files.id_column!r} needs a table of features or labels that has it (.csv or .parquet)"
        )
    masks = {f"{part}_mask": path for part in SPLITS if (path := getattr(files, part)) is not None}
    if masks and files.split_column is not None:
        raise UsageError(f"the split column {files.split_column!r} cannot be given beside files of masks")
    return NodeData(
        arrays=arrays,
        counts=counts,
        ids=ids,
        masks=masks,
        id_column=files.id_column,
        origin=origin,
        options=plain,
        told=told,
    )


def load_mask(path: Path, num_nodes: int, data: NodeData) -> NDArray[np.bool_]:
    """One mask, bool [N, S]; a table's nodes are found by their ids if there are any."""
    if data.ids is None or data.id_column is None or kind_of_table(path) not in TABLES:
        return tables.load_mask(path, num_nodes, data.options)
    listed = read_identified(path, data.id_column, data.options)
    with reading(path):
        mask = np.zeros((num_nodes, 1), np.bool_)
        mask[_rows_of(data.ids, listed.ids)] = True
    return mask


def _to_read(files: NodeFiles, plain: TableOptions) -> list[tuple[str, Path, TableOptions]]:
    """Which part comes from which file, and which columns of it."""
    found: list[tuple[str, Path, TableOptions]] = []
    features, labels = files.features, files.labels
    if files.label and labels is None and features is None:
        raise UsageError("columns of labels need a table that has them; name it with --labels or --features")
    if files.feature and features is None:
        raise UsageError("columns of features need a table that has them; name it with --features")
    split_file = labels if labels is not None and kind_of_table(labels) in TABLES else features
    if files.split_column is not None and (split_file is None or kind_of_table(split_file) not in TABLES):
        raise UsageError(f"the split column {files.split_column!r} needs a table of features or labels that has it")
    for path, columns, option in (
        (features, files.feature, "--feature"),
        (labels or features, files.label, "--label"),
    ):
        if columns and path is not None and kind_of_table(path) not in TABLES:
            raise UsageError(f"{path} has no columns with names or numbers, so {option} cannot be given")
    same = files.label if labels is None else ()
    if features is not None:
        options = replace(plain, columns=files.feature, left_out=() if files.feature else same)
        found.append(("features", features, options))
        if same:
            found.append(("labels", features, replace(plain, columns=files.label)))
    if labels is not None:
        found.append(("labels", labels, replace(plain, columns=files.label)))
    if files.times is not None:
        found.append(("times", files.times, plain))
    if files.split_column is None:
        return found
    part = "labels" if split_file == labels else "features"
    split = files.split_column
    return [
        (name, path, replace(options, split_column=split) if path == split_file and name == part else options)
        if name == part or path != split_file
        else (name, path, replace(options, left_out=(*options.left_out, split)))
        for name, path, options in found
    ]


def _split_of(path: Path, options: TableOptions) -> list[str] | None:
    """The split in a table's column."""
    with reading(path):
        return read_table(path, replace(options, told=[])).split


def _masks_of(split: Sequence[str]) -> dict[str, Array]:
    """Masks [N, 1] by their name in NodeTable."""
    parts = np.array(split)
    return {f"{part}_mask": (parts == part)[:, None] for part in SPLITS}


def _matched(
    path: Path, column: str, part: str, known: ListedIds | None, options: TableOptions
) -> tuple[Array, ListedIds, list[str] | None]:
    """A table's rows in the order of the ids known so far, or the first to list them."""
    found = read_identified(path, column, options)
    rows: Array = found.rows
    split = found.split
    with reading(path):
        if known is None:
            known = ListedIds(found.ids, str(path))
        else:
            places = _rows_of(known, found.ids)
            if len(places) != len(known.ids):
                missing = np.ones(len(known.ids), np.bool_)
                missing[places] = False
                odd = known.ids[int(np.argmax(missing))]
                raise DatasetError(f"it has no row for the node {odd!s}, which {known.table} lists")
            ordered = np.empty_like(rows)
            ordered[places] = rows
            rows = ordered
            if split is not None:
                split = np.array(split)[np.argsort(places, kind="stable")].tolist()
        match part:
            case "features":
                text = kind_of_table(path) in TEXT
                return tables.checked_features(rows.astype(np.float32) if text else rows), known, split
            case "labels":
                return tables.checked_labels(rows), known, split
            case _:
                return tables.checked_times(rows), known, split


def _rows_of(known: ListedIds, ids: Original) -> NDArray[np.int64]:
    """The row of each id; none may be unknown."""
    from graphprep.sources.edge_file import Words

    run = Words(np.arange(len(ids)), ids.tolist()) if ids.dtype.kind in "UT" else ids.astype(np.int64)
    return known.rows(known.codes(run))
