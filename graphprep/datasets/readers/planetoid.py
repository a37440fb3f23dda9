"""Planetoid's citation graphs: seven pickles and a list of test nodes, checked against each other before use.

    x, y          features (sparse) and one-hot classes of the training nodes
    allx, ally    the same of all nodes but the test nodes; x and y are their first rows
    tx, ty        the same of the test nodes, in the order of test.index
    test.index    the node number of each row of tx, as text
    graph         node -> list of its neighbours; both directions are listed, some twice, some nodes beside themselves

Nodes are numbered allx first, then the test nodes from the lowest number in test.index. In CiteSeer 15 numbers of that
range are missing: nodes without features, class or edges, which become rows of zeros, unlabelled. That is allowed by
the option `isolated_test_nodes` alone, since elsewhere a gap means that test.index lost lines, and rows would be taken
for those of other nodes without a word.

The split is the public one: the rows of y train, the next 500 validate, those of test.index test.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt

from graphprep.core.types import RawGraph
from graphprep.datasets.assemble import one_type
from graphprep.datasets.entry import DatasetEntry
from graphprep.datasets.formats import pickles
from graphprep.datasets.formats.checks import node_mask, reading
from graphprep.datasets.reader_options import ReaderOptions, options_of
from graphprep.errors import DatasetError
from graphprep.system.files.regular_file import regular_file
from graphprep.system.files.verify import FileCheck

FEATURES, CLASSES = ("x", "tx", "allx"), ("y", "ty", "ally")
PARTS = (*FEATURES, *CLASSES, "graph", "test.index")


class PlanetoidOptions(ReaderOptions):
    """What differs between the datasets of this source."""

    isolated_test_nodes: bool = False
    """whether test.index may skip nodes, which are then isolated and have no label"""
    val_nodes: NonNegativeInt = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The eight files, each right in itself."""

    x: NDArray[np.float32]
    tx: NDArray[np.float32]
    allx: NDArray[np.float32]
    y: NDArray[np.int64]
    ty: NDArray[np.int64]
    ally: NDArray[np.int64]
    lists: Mapping[int, list[int]]
    test_index: NDArray[np.int64]


def file_check(entry: DatasetEntry, name: str) -> FileCheck | None:  # noqa: ARG001
    """Reads ind.NAME.PART as the part that its name says."""
    part = next((part for part in PARTS if name.startswith("ind.") and name.endswith(f".{part}")), None)
    return partial(_load_part, part) if part else None


def read(folder: Path, entry: DatasetEntry) -> RawGraph:
    """The graph in ind.NAME.* of `folder`; x float32 [N, F], y int64 [N], edges as the lists have them."""
    options = options_of(entry, PlanetoidOptions)
    paths = {part: folder / f"ind.{entry.name}.{part}" for part in PARTS}
    parts = _load(paths)
    first_test = len(parts.allx)
    num_nodes = _num_nodes(parts, paths, options)
    x = np.zeros((num_nodes, parts.allx.shape[1]), np.float32)
    y = np.full(num_nodes, -1, np.int64)
    x[:first_test], y[:first_test] = parts.allx, parts.ally
    x[parts.test_index], y[parts.test_index] = parts.tx, parts.ty
    first_val = len(parts.y)
    split = {
        "train_mask": np.arange(first_val),
        "val_mask": np.arange(first_val, first_val + options.val_nodes),
        "test_mask": parts.test_index,
    }
    return one_type(
        entry,
        num_nodes=num_nodes,
        x=x,
        y=y,
        edges=_edges(parts.lists, num_nodes, paths["graph"]),
        masks={name: node_mask(nodes, num_nodes, f"its {name}") for name, nodes in split.items()},
        notes={"split": f"the public split of Planetoid, validation on {options.val_nodes} nodes"},
    )


def _load_part(part: str, path: Path) -> Any:
    """One file: float32 [rows, F] for features, integers [rows, C] for classes, a mapping, or int64 [rows]."""
    if part == "test.index":
        return _test_index(path)
    value = pickles.load(path)
    if part in FEATURES:
        if not isinstance(value, pickles.PickledCsr):
            raise DatasetError(f"it holds {_kind(value)} instead of a sparse matrix")
        return value.dense()
    if part in CLASSES:
        if not isinstance(value, np.ndarray) or value.ndim != 2 or value.dtype.kind not in "biu" or not value.shape[1]:
            raise DatasetError(f"it holds {_kind(value)} instead of a table of integers, one column a class")
        if ((value != 0) & (value != 1)).any() or (value.sum(axis=1) > 1).any():
            raise DatasetError("it has a row that does not mark one class with a 1")
        return value
    if not isinstance(value, dict):
        raise DatasetError(f"it holds {_kind(value)} instead of a mapping from nodes to lists of neighbours")
    if not all(type(node) is int and isinstance(near, list) for node, near in value.items()):
        raise DatasetError("it maps something that is no node, or to something that is no list")
    if not set(map(type, itertools.chain.from_iterable(value.values()))) <= {int}:
        raise DatasetError("it lists a neighbour that is not an integer")
    return value


def _kind(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    return "a sparse matrix" if isinstance(value, pickles.PickledCsr) else f"a {type(value).__name__}"


def _test_index(path: Path) -> NDArray[np.int64]:
    try:
        words = regular_file(path).read_text(encoding="ascii").split("\n")
    except UnicodeDecodeError as problem:
        raise DatasetError("it is not a text of node numbers") from problem
    numbers = []
    for line, word in enumerate(words, 1):
        text = word.strip()
        if text.isdecimal() and len(text) < 19:
            numbers.append(int(text))
        elif text:
            raise DatasetError(f"line {line} is {text[:40]!r} instead of a node number")
    if not numbers:
        raise DatasetError("it is empty")
    return np.array(numbers, np.int64)


def _load(paths: Mapping[str, Path]) -> _Parts:
    loaded: dict[str, Any] = {}
    for part, path in paths.items():
        with reading(path):
            loaded[part] = _load_part(part, path)
    for names in (FEATURES, CLASSES):
        if len({loaded[name].shape[1] for name in names}) > 1:
            widths = ", ".join(f"{loaded[name].shape[1]:,} in {paths[name].name}" for name in names)
            raise DatasetError(f"{paths[names[0]].parent}: the numbers of columns differ: {widths}; fetch again")
    pairs = [("x", "y"), ("tx", "ty"), ("allx", "ally"), ("tx", "test.index")]
    for one, other in pairs:
        if len(loaded[one]) != len(loaded[other]):
            raise DatasetError(
                f"{paths[other]} has {len(loaded[other]):,} rows but {paths[one].name} has {len(loaded[one]):,}: "
                "one of them is not whole; remove both and fetch again"
            )
    loaded |= {part: _classes(loaded[part]) for part in CLASSES}
    return _Parts(lists=loaded.pop("graph"), test_index=loaded.pop("test.index"), **loaded)


def _classes(one_hot: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """The class of each row, -1 where none is marked."""
    return np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1).astype(np.int64)


def _num_nodes(parts: _Parts, paths: Mapping[str, Path], options: PlanetoidOptions) -> int:
    """N, after making sure that every node is in its place."""
    index_path, first_test = paths["test.index"], len(parts.allx)
    present = np.unique(parts.test_index)
    if len(present) != len(parts.test_index):
        raise DatasetError(f"{index_path} lists a node twice; remove it and fetch again")
    if present[0] != first_test:
        raise DatasetError(
            f"{index_path} begins at node {present[0]:,}, but {paths['allx'].name} has the nodes below {first_test:,}; "
            "remove both and fetch again"
        )
    num_nodes = int(present[-1]) + 1
    missing = num_nodes - first_test - len(present)
    if missing and not options.isolated_test_nodes:
        raise DatasetError(f"{index_path} skips {missing:,} nodes: it is not whole; remove it and fetch again")
    if num_nodes - 1 > max(parts.lists, default=-1):
        raise DatasetError(
            f"{index_path} names the node {num_nodes - 1:,}, which {paths['graph'].name} does not have; "
            "remove both and fetch again"
        )
    if len(parts.y) + options.val_nodes > first_test:
        raise DatasetError(
            f"{paths['allx']} has {first_test:,} rows, fewer than the {len(parts.y):,} training nodes and "
            f"{options.val_nodes:,} validation nodes; remove it and fetch again"
        )
    if (parts.ally[: len(parts.y)] < 0).any():
        raise DatasetError(f"{paths['ally']} has a training node without a class; remove it and fetch again")
    return num_nodes


def _edges(lists: Mapping[int, list[int]], num_nodes: int, path: Path) -> NDArray[np.int64]:
    """Each list's node as source, its entries as destinations, int64 [E, 2]."""
    neighbours = list(itertools.chain.from_iterable(lists.values()))
    ends = itertools.chain(lists, neighbours)
    wrong = next((node for node in ends if not 0 <= node < num_nodes), None)
    if wrong is not None:
        raise DatasetError(
            f"{path} names the node {wrong}, but there are only the nodes 0 .. {num_nodes - 1:,}; fetch again"
        )
    src = np.repeat(np.fromiter(lists, np.int64, len(lists)), [len(near) for near in lists.values()])
    return np.column_stack([src, np.array(neighbours, np.int64)])
