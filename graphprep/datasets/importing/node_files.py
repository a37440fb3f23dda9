"""The nodes of one type from a user's files: features, labels, masks and times, matched by row or by id.

With an id column, each table (.csv, .parquet) says in that column to which node a row belongs. The first of features,
labels and times that is a table lists the nodes, in its order; the rows of the others are put into that order, and must
have the same ids. Rows of a file without ids (.npy) are taken in the order of the tables, which is said, and refused if
the tables have different orders. A split is a mask of that order, or names nodes by their ids: a table, in which a
column beside the ids says 0 or 1 for each, or a list of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.choices import LabelTask
from graphprep.datasets.formats.labels import checked_labels
from graphprep.datasets.importing import tables
from graphprep.datasets.importing.columns.node_table import NodeColumns, read_nodes
from graphprep.datasets.importing.edges.edge_file import Words
from graphprep.datasets.importing.node_ids import ListedIds, Original
from graphprep.datasets.importing.table_files import (
    TABLES,
    TEXT,
    TableOptions,
    kind_of_table,
    read_identified,
    read_table,
    reading,
)
from graphprep.errors import DatasetError, UsageError
from graphprep.system import progress

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
    """whether the first line of tables in text names the columns; None: as `text_dialect` finds"""
    delimiter: str | None = None
    """of tables in text; None: likewise"""
    label: tuple[str, ...] = ()
    """the columns of `labels`, or of `features` if there is no such file, that are the labels; none: all"""
    feature: tuple[str, ...] = ()
    """the columns of `features` that are features; none: all that are nothing else"""
    split_column: str | None = None
    """the column of `labels` or `features` that has train, val, test or nothing for each node"""

    task: LabelTask = "auto"
    """what the labels are for"""
    table: NodeColumns | None = None
    """a table that has all of it, in place of these files"""

    def options(self, *, words: bool, read_as: list[str]) -> TableOptions:
        """How its tables are read; see `TableOptions`."""
        return TableOptions(header=self.header, delimiter=self.delimiter, words=words, read_as=read_as)

    def reading(self) -> dict[str, object]:
        """How the files are read, for the key of a store."""
        names = ("num_nodes", "id_column", "header", "delimiter", "label", "feature", "split_column", "task")
        values = {name: getattr(self, name) for name in names}
        table = {} if self.table is None else {"table": self.table.to_json()}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()} | table

    def files(self) -> list[tuple[str, Path]]:
        """Every file with its role, in a fixed order."""
        tables = [] if self.table is None else [("table", path) for path in self.table.source.files()]
        return [(part, path) for part in PARTS if (path := getattr(self, part)) is not None] + tables


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
    task: LabelTask = "auto"
    """what labels that come with the edges are for"""
    reordered: str | None = None
    """a table whose rows are in another order than those of the table that lists the nodes"""
    options: TableOptions = field(default_factory=TableOptions)
    """how tables are read"""
    read_as: Sequence[str] = ()
    """what was taken as what, for people"""
    original: Original | None = None
    """the nodes' ids by row, where the edges name rows already"""
    described: Mapping[str, object] = field(default_factory=dict)
    """what the store's attributes say of labels and features: `classes` and `features`"""

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
    if files.table is not None:
        return _from_table(files.table, files.task, words=words)
    load: dict[str, Callable[[Path, TableOptions], Array]] = {
        "features": tables.load_features,
        "labels": partial(tables.load_labels, task=files.task),
        "times": tables.load_times,
    }
    names = {"features": "x", "labels": "y", "times": "time"}
    arrays: dict[str, Array] = {}
    origin: dict[str, str] = {}
    read_as: list[str] = []
    ids: ListedIds | None = None
    counts = {} if files.num_nodes is None else {"num_nodes": files.num_nodes}
    without_ids: list[Path] = []
    reordered: str | None = None
    plain = files.options(words=words, read_as=read_as)
    for part, path, options in _to_read(files, plain):
        options = replace(options, rows=next(iter(counts.values()), None))
        table = kind_of_table(path) in TABLES
        if files.id_column is not None and table:
            array, ids, split, in_order = _matched(path, files, part, ids, options)
            reordered = reordered if in_order else str(path)
        else:
            array = load[part](path, options)
            split = _split_of(path, options) if options.split_column is not None and table else None
            without_ids.append(path)
        arrays[names[part]], origin[names[part]] = array, str(path)
        counts[str(path)] = len(array)
        if split is not None:
            arrays |= _masks_of(split)
            origin |= dict.fromkeys(_masks_of(split), str(path))
    if files.id_column is not None and ids is None:
        raise UsageError(
            f"the id column {files.id_column!r} needs a table of features or labels that has it (.csv or .parquet)"
        )
    if ids is not None:
        for path in without_ids:
            _say_order(path, ids, reordered)
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
        read_as=read_as,
        task=files.task,
        reordered=reordered,
    )


def _from_table(columns: NodeColumns, task: LabelTask, *, words: bool) -> NodeData:
    rows = read_nodes(columns, task=task, words=words)
    called = columns.source.called
    return NodeData(
        arrays=rows.arrays,
        counts={called: rows.num_nodes},
        ids=None if rows.ids is None else ListedIds(rows.ids, called),
        id_column=columns.id,
        origin=dict.fromkeys(rows.arrays, called),
        read_as=[rows.line],
        task=task,
        described=rows.described,
    )


def load_mask(path: Path, num_nodes: int, data: NodeData) -> NDArray[np.bool_]:
    """One mask, bool [N, S]; where nodes have ids, a table or a list names them by these.

    Raises:
        DatasetError: the file is no split of these nodes.
    """
    if data.ids is None or data.id_column is None:
        return tables.load_mask(path, num_nodes, data.options)
    if kind_of_table(path) not in TABLES or kind_of_table(path) == ".txt":
        return _mask_without_table(path, num_nodes, data, data.ids)
    listed = read_identified(path, data.id_column, data.options)
    with reading(path):
        values = listed.rows if listed.rows.shape[1] else np.ones((len(listed.ids), 1), np.bool_)
        if (odd := ~((values == 0) | (values == 1))).any():
            row, column = (int(place) for place in np.argwhere(odd)[0])
            raise DatasetError(
                f"the node {listed.ids[row]} has the value {values[row, column]:g} beside its id, where 1 is in the "
                "split and 0 is not; leave other columns out"
            )
        mask = np.zeros((num_nodes, values.shape[1]), np.bool_)
        mask[_rows_of(data.ids, listed.ids)] = values == 1
    return mask


def _mask_without_table(path: Path, num_nodes: int, data: NodeData, ids: ListedIds) -> NDArray[np.bool_]:
    """A mask in the order of the tables, or the mask of a list of ids."""
    array = tables.load_mask_array(path, replace(data.options, rows=num_nodes))
    if tables.is_mask(array, num_nodes):
        _say_order(path, ids, data.reordered)
        with reading(path):
            return tables.checked_mask(array, num_nodes)
    with reading(path):
        if array.dtype.kind not in "iu" or array.ndim != 1:
            raise DatasetError(f"it holds shape {array.shape} and dtype {array.dtype}, neither a mask nor node ids")
        if ids.ids.dtype.kind in "UT":
            raise DatasetError(
                f"it lists nodes by numbers, but their ids in {ids.table} are words; give a table with the column "
                f"{data.id_column!r}, or a mask"
            )
        mask = np.zeros((num_nodes, 1), np.bool_)
        mask[_rows_of(ids, array)] = True
        if int(mask.sum()) != len(array):
            raise DatasetError("it names a node twice")
    progress.say(f"{path}: its numbers are taken for ids of the column {data.id_column!r}, not for row numbers")
    return mask


def _say_order(path: Path, ids: ListedIds, reordered: str | None) -> None:
    """Say in which order the rows of a file without ids are taken.

    Raises:
        DatasetError: the tables have two orders.
    """
    if reordered is not None:
        raise DatasetError(
            f"{path} has rows without ids, and {ids.table} and {reordered} have the nodes in two orders, so no row "
            "can be told to belong to a node; give a table with the id column in its place, or sort the tables alike"
        )
    progress.say(f"{path}: it has no ids, so its rows are taken in the order of {ids.table}")


def _to_read(files: NodeFiles, plain: TableOptions) -> list[tuple[str, Path, TableOptions]]:
    """Which part comes from which file, and which columns of it."""
    reads: list[tuple[str, Path, TableOptions]] = []
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
        reads.append(("features", features, options))
        if same:
            reads.append(("labels", features, replace(plain, columns=files.label)))
    if labels is not None:
        reads.append(("labels", labels, replace(plain, columns=files.label)))
    if files.times is not None:
        reads.append(("times", files.times, plain))
    if files.split_column is None:
        return reads
    part = "labels" if split_file == labels else "features"
    split = files.split_column
    return [
        (name, path, replace(options, split_column=split) if path == split_file and name == part else options)
        if name == part or path != split_file
        else (name, path, replace(options, left_out=(*options.left_out, split)))
        for name, path, options in reads
    ]


def _split_of(path: Path, options: TableOptions) -> list[str] | None:
    """The split in a table's column."""
    with reading(path):
        return read_table(path, replace(options, read_as=[])).split


def _masks_of(split: Sequence[str]) -> dict[str, Array]:
    """Masks [N, 1] by their name in NodeTable."""
    parts = np.array(split)
    return {f"{part}_mask": (parts == part)[:, None] for part in SPLITS}


def _matched(
    path: Path, files: NodeFiles, part: str, known: ListedIds | None, options: TableOptions
) -> tuple[Array, ListedIds, list[str] | None, bool]:
    """A table's rows in the order of the ids known so far, or the first to list them; whether they had that order."""
    assert files.id_column is not None
    listed = read_identified(path, files.id_column, options)
    rows: Array = listed.rows
    split = listed.split
    in_order = True
    with reading(path):
        if known is None:
            known = ListedIds(listed.ids, str(path))
        else:
            places = _rows_of(known, listed.ids)
            if len(places) != len(known.ids):
                missing = np.ones(len(known.ids), np.bool_)
                missing[places] = False
                odd = known.ids[int(np.argmax(missing))]
                raise DatasetError(f"it has no row for the node {odd!s}, which {known.table} lists")
            in_order = bool((places[1:] > places[:-1]).all())
            ordered = np.empty_like(rows)
            ordered[places] = rows
            rows = ordered
            if split is not None:
                split = np.array(split)[np.argsort(places, kind="stable")].tolist()
        return _checked(rows, part, path, files), known, split, in_order


def _checked(rows: Array, part: str, path: Path, files: NodeFiles) -> Array:
    """A table's rows as what they are."""
    match part:
        case "features":
            text = kind_of_table(path) in TEXT
            return tables.checked_features(rows.astype(np.float32) if text else rows, str(path))
        case "labels":
            return checked_labels(rows, task=files.task, origin=str(path), is_table=True)
        case _:
            return tables.checked_times(rows)


def _rows_of(known: ListedIds, ids: Original) -> NDArray[np.int64]:
    """The row of each id; none may be unknown."""
    run = Words(np.arange(len(ids)), ids.tolist()) if ids.dtype.kind in "UT" else ids.astype(np.int64)
    return known.rows(known.codes(run))
