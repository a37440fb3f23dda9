"""A RawGraph from the nodes and the files of edges of any number of types.

First all that files say about nodes is gathered and compared. Then each file of edges is read once (`typed_edges`), to
learn which ids occur, to count, and to find what is wrong. Then the number of nodes of every type is known, and masks
and splits can be made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.choices import LabelTask
from graphprep.core.splits import SplitRule
from graphprep.core.types import EdgeType, NodeTable, RawGraph
from graphprep.datasets.formats.checks import require_disjoint
from graphprep.datasets.formats.labels import checked_labels
from graphprep.datasets.importing import tables
from graphprep.datasets.importing.edges.edge_file import EdgeFile
from graphprep.datasets.importing.import_request import ImportRequest
from graphprep.datasets.importing.node_files import NodeData, load_mask
from graphprep.datasets.importing.node_ids import FoundIds, NodeIds, Original, RowNumbers
from graphprep.datasets.importing.spool import KEPT_BYTES, Spool
from graphprep.datasets.importing.typed_edges import TypedEdges, scan
from graphprep.errors import DatasetError, UsageError
from graphprep.system import memory, progress
from graphprep.system.executor import Executor

Array = NDArray[Any]
BYTES_A_NODE = np.dtype(np.int64).itemsize
"""of a row pointer; sorting edges holds one a node"""
KEPT_SHARE = 4
"""parsed edges may take this part of the memory that is left; sorting needs more than that"""
TABLE_FIELDS = ("x", "y", "train_mask", "val_mask", "test_mask")


def build(
    request: ImportRequest,
    nodes: Mapping[str, NodeData],
    edges: Sequence[TypedEdges],
    *,
    notes: Mapping[str, object] | None = None,
    memory_limit: int | None = None,
    executor: Executor | None = None,
) -> RawGraph:
    """The graph.

    Args:
        request: its treatment is that of edges whose type has none, its split that of labels without masks.
        nodes: by type; all types that edges name.
        edges: by type.
        notes: for the store's attributes.
        memory_limit: bytes that the process may use; None for half of what is free.
        executor: reads edges that can be read by sections, if its workers are other processes; None to read here.

    Raises:
        DatasetError: a file is not what it should be (with its place), or two do not fit together.
        UsageError: masks without labels.
    """
    known = dict(nodes)
    for typed in edges:
        for file in typed.files:
            _take_counts(known, typed.type, file)
            _take_arrays(known, typed.type, file)
    ids = {name: ids_of(data) for name, data in known.items()}
    for name, data in known.items():
        for origin, count in data.counts.items():
            _require_room(origin, name, count, memory_limit)
    spool = Spool(min(KEPT_BYTES, memory.budget(memory_limit) // KEPT_SHARE))
    with progress.task("reading the edges", unit="edges") as task:
        scanned = [scan(typed, ids, spool, task, executor) for typed in edges]
    made: dict[str, NodeTable] = {}
    numbered: dict[str, str] = {}
    drawn: dict[str, object] = {}
    node_lines: list[str] = []
    for name, data in known.items():
        num_nodes, original = ids[name].close()
        original = original if data.original is None else data.original
        if num_nodes < 1:
            raise DatasetError(f"there are no nodes of the type {name!r}; say how many there are")
        names = ", ".join(str(file.path) for typed in edges if name in typed.type[::2] for file in typed.files)
        _require_room(names, name, num_nodes, memory_limit)
        masks, masks_from, rule = _masks(data, num_nodes, request.split)
        made[name] = _table(num_nodes, original, {**data.arrays, **masks}, data)
        numbered[name] = _numbered(data, original)
        drawn |= {} if rule is None else {name: rule}
        node_lines.append(_nodes_read_as(name, made[name], numbered[name], masks_from))
    ignored = {file.path.name: list(file.ignored) for typed in edges for file in typed.files if file.ignored}
    own = {
        typed.type.key: asdict(typed.treatment) for typed in edges if typed.treatment not in (None, request.treatment)
    }
    of_edges = {typed.type.key: file.described() for typed in edges for file in typed.files if file.described()}
    of_nodes = {name: data.described for name, data in known.items()}
    facts: dict[str, Mapping[str, object]] = {
        **{"ids": numbered, "seeded_split": drawn, "treatments": own, "classes": _of_each(of_nodes, "classes")},
        **{"features": _of_each(of_nodes, "features"), "edge_features": _of_each(of_edges, "features")},
        "edge_classes": _of_each(of_edges, "classes"),
    }
    return RawGraph(
        nodes=made,
        edges=tuple(table for part in scanned for table in part.tables(ids)),
        treatment=request.treatment,
        notes={
            **{name: _alone(fact) for name, fact in facts.items() if fact},
            **({"ignored": ignored} if ignored else {}),
            **(notes or {}),
            "read_as": [
                *(line for typed in edges for line in _read_as(typed)),
                *(line for data in known.values() for line in data.read_as),
                *node_lines,
            ],
        },
    )


def _of_each(described: Mapping[str, Mapping[str, object]], name: str) -> dict[str, object]:
    """One fact by the type that it is about."""
    return {kind: facts[name] for kind, facts in described.items() if name in facts}


def _read_as(typed: TypedEdges) -> Iterator[str]:
    """What was taken as what in the files of one edge type, for people."""
    for file in typed.files:
        left = f"; left out: {', '.join(file.ignored)}" if file.ignored else ""
        yield f"{file.path.name}: {file.read_as()}{left}"


def _nodes_read_as(name: str, table: NodeTable, numbered: str, masks: str) -> str:
    """How many nodes there are, what their ids are, and where their masks come from, for people."""
    words = "" if table.original_id is None else " of words" if table.original_id.dtype.kind in "UT" else " of numbers"
    has = [field for field in ("x", "y") if getattr(table, field) is not None]
    return f"nodes {name}: {table.num_nodes:,}, ids{words} {numbered}, {', '.join(has) or 'no x or y'}, {masks}"


def checked_arrays(
    origin: str, arrays: Mapping[str, Array], num_nodes: int | None, task: LabelTask = "auto"
) -> dict[str, Array]:
    """Arrays of nodes that came with edges, each checked as what its name says; `task` as for `checked_labels`.

    Raises:
        DatasetError: one is not what it should be.
    """
    rows = num_nodes if num_nodes is not None else next((len(arrays[name]) for name in ("x", "y") if name in arrays), 0)
    checked: dict[str, Array] = {}
    for name, array in arrays.items():
        try:
            match name:
                case "x":
                    checked[name] = tables.checked_features(array, origin)
                case "y":
                    checked[name] = checked_labels(array, task=task, origin=origin)
                case "time":
                    checked[name] = tables.checked_times(array)
                case "train_mask" | "val_mask" | "test_mask":
                    checked[name] = tables.checked_mask(array, rows)
                case _:
                    checked[name] = array
        except DatasetError as problem:
            raise DatasetError(f"{origin} cannot be used: its array {name!r}: {problem}") from problem
    return checked


def _take_counts(nodes: dict[str, NodeData], edge_type: EdgeType, file: EdgeFile) -> None:
    """Add how many nodes a file of edges says that there are."""
    for name, count in ((edge_type.source, file.num_sources), (edge_type.destination, file.num_destinations)):
        if name not in nodes:
            raise UsageError(f"edges {edge_type.key} name the node type {name!r}, which is not among the nodes")
        if count is None:
            continue
        if nodes[name].ids is not None:
            raise DatasetError(
                f"{file.path} says that there are {count:,} nodes, so its ids are row numbers; leave the id column out"
            )
        if edge_type.source == edge_type.destination and file.num_sources != file.num_destinations:
            raise DatasetError(
                f"{file.path} is a matrix of {file.num_sources:,} x {file.num_destinations:,}, but one between nodes "
                "of one type is square; give its types in a schema (--schema)"
            )
        nodes[name] = replace(nodes[name], counts={**nodes[name].counts, str(file.path): count})


def _take_arrays(nodes: dict[str, NodeData], edge_type: EdgeType, file: EdgeFile) -> None:
    """Add the arrays of nodes that a file of edges has."""
    arrays = file.node_arrays()
    if not arrays:
        return
    if edge_type.source != edge_type.destination:
        raise DatasetError(
            f"{file.path} has arrays of nodes ({', '.join(arrays)}), but its edges join two types of them"
        )
    data = nodes[edge_type.source]
    if data.ids is not None:
        raise DatasetError(
            f"{file.path} has arrays of nodes ({', '.join(arrays)}) without ids, and {data.ids.table} lists the "
            "nodes by ids; leave one of them out"
        )
    if twice := sorted({*data.arrays, *data.masks} & set(arrays)):
        raise DatasetError(f"{file.path} has {', '.join(twice)}, which another file gives too")
    nodes[edge_type.source] = replace(
        data,
        arrays={**data.arrays, **checked_arrays(str(file.path), arrays, file.num_sources, data.task)},
        origin={**data.origin, **dict.fromkeys(arrays, str(file.path))},
    )


def _require_room(origin: str, name: str, num_nodes: int, memory_limit: int | None) -> None:
    """Refuse a number of nodes whose row pointers alone are larger than memory.

    Raises:
        DatasetError: they are.
    """
    needed, free = num_nodes * BYTES_A_NODE, memory.full_budget(memory_limit)
    if needed > free:
        raise DatasetError(
            f"{origin} has ids or a size for {num_nodes:,} nodes of the type {name!r}, which take at least "
            f"{progress.format_bytes(needed)} of memory where {progress.format_bytes(free)} may be used; if the number "
            "is right, use a machine with more memory or a larger --memory"
        )


def ids_of(data: NodeData) -> NodeIds:
    """What ids mean, after all that is said about the number of nodes has been compared."""
    rows = {
        f"{data.origin.get(name, name)} ({name})": len(array)
        for name, array in data.arrays.items()
        if not name.endswith("_mask")
    }
    count = replace(data, counts={**data.counts, **rows}).known_count()
    if data.ids is not None:
        return data.ids
    return FoundIds() if count is None else RowNumbers(count)


def _table(num_nodes: int, original: Original | None, arrays: Mapping[str, Array], data: NodeData) -> NodeTable:
    for name, array in arrays.items():
        if len(array) != num_nodes:
            raise DatasetError(
                f"{data.origin.get(name, name)} has {len(array):,} rows of {name} for {num_nodes:,} nodes"
            )
    return NodeTable(
        num_nodes=num_nodes,
        original_id=original,
        more={name: array for name, array in arrays.items() if name not in TABLE_FIELDS},
        **{name: array for name, array in arrays.items() if name in TABLE_FIELDS},
    )


def _masks(
    data: NodeData, num_nodes: int, split: SplitRule
) -> tuple[dict[str, NDArray[np.bool_]], str, dict[str, Any] | None]:
    """The masks by their name in NodeTable, where they come from, and how they were drawn if they were."""
    masks = {name: np.asarray(array) for name, array in data.arrays.items() if name.endswith("_mask")}
    masks |= {name: load_mask(path, num_nodes, data) for name, path in data.masks.items()}
    origin = {name: str(data.masks[name]) if name in data.masks else f"{data.origin[name]} {name}" for name in masks}
    y = data.arrays.get("y")
    if not masks:
        if y is None:
            return {}, "no masks", None
        sentence, rule = split.describe(y)
        return split.draw(y)._asdict(), f"labels without masks, so {sentence}", rule
    if y is None:
        raise UsageError(
            f"{next(iter(origin.values()))} splits the nodes, but there are no labels; name their file too"
        )
    masks = _of_every_split(masks, origin)
    require_disjoint({origin[name]: mask for name, mask in masks.items()})
    if "train_mask" in masks and y.ndim == 1:
        blank = np.flatnonzero(masks["train_mask"].any(axis=1) & (y < 0))
        if len(blank):
            raise DatasetError(
                f"{origin['train_mask']} trains on the node {blank[0]}, which has no label in {data.origin['y']}"
            )
    return masks, "masks as given", None


def _of_every_split(masks: dict[str, NDArray[np.bool_]], origin: Mapping[str, str]) -> dict[str, NDArray[np.bool_]]:
    """The same masks; one of a single split is that of all, where the others have several (as WikiCS has its test)."""
    splits = max(mask.shape[1] for mask in masks.values())
    for name, mask in masks.items():
        if mask.shape[1] == 1 < splits:
            progress.say(f"{origin[name]} is one mask, taken for all {splits} splits")
            masks[name] = np.repeat(mask, splits, axis=1)
    return masks


def _numbered(data: NodeData, original: Original | None) -> str:
    if original is None:
        return "kept"
    if data.original is not None:
        return "kept as original_id, rows in the given order"
    how = "ascending order" if data.ids is None else f"the order of {Path(data.ids.table).name}"
    return f"numbered anew in {how}"


def _alone(by_type: Mapping[str, object]) -> object:
    """The fact itself where there is one node type whose name says nothing."""
    return by_type["node"] if set(by_type) == {"node"} else dict(by_type)
