"""A whole graph in one document (GraphML, GEXF, GML, Pajek, node-link JSON), read into memory and turned into arrays.

The reader of each format gives a `GraphDocument`: the nodes' ids and attributes, the ends of the edges and their
attributes. Such a document is parsed as a whole, which takes many times the file's size, so the memory is reckoned from
that size before anything is parsed.

Nodes whose ids are 0 .. N-1 are the rows of these numbers. Otherwise rows are in the order of the document, and the
store keeps the ids as `original_id`. An undirected document gives both directions of each edge. Attributes are left out
unless somebody asks for them; what was taken and what was left out is said, and noted in the store.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphprep.core.choices import LabelTask
from graphprep.core.splits import SplitRule
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, RawGraph, Treatment
from graphprep.datasets.formats.text_file import whole_text
from graphprep.datasets.importing.edges.edge_arrays import EdgeArrays
from graphprep.datasets.importing.edges.edge_file import Wanted
from graphprep.datasets.importing.node_attributes import NodeAttributes
from graphprep.datasets.importing.node_files import NodeData
from graphprep.datasets.importing.node_ids import Original
from graphprep.datasets.importing.options import Format
from graphprep.datasets.importing.table_files import reading, word_array
from graphprep.datasets.importing.typed_edges import TypedEdges
from graphprep.datasets.importing.user_graph import build, checked_arrays
from graphprep.errors import DatasetError, UsageError
from graphprep.system import memory, progress

Array = NDArray[Any]
Attributes = Mapping[str, Any]
MEMORY_FACTOR: dict[Format, int] = {"graphml": 32, "gexf": 36, "gml": 24, "pajek": 24, "json": 16}
"""bytes of memory for each byte of a document: parsing took 24, 27, 16, 17 and 9 with 100,000 edges or more and few
attributes, and arrays are made beside that"""
NODE_BYTES = 256
"""bytes of memory for a node that a document announces without listing it"""
WEIGHTS, TIMES = ("weight", "value"), ("time", "timestamp")
"""attributes of edges, in the order in which they are looked for"""
NOT_DATA = ("id", "key", "networkx_key")
"""attributes that only name a node or an edge"""
MOST_CLASSES_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDocument:
    """What a document holds. N nodes, E edges as they are written, before an undirected one is doubled."""

    ids: Sequence[int] | Sequence[str]
    """N, none twice"""
    nodes: Sequence[Attributes]
    """N"""
    src: NDArray[np.int64]
    """[E]: numbers of nodes, 0 .. N-1 in the order of `ids`"""
    dst: NDArray[np.int64]
    edges: Sequence[Attributes]
    """E"""
    undirected: NDArray[np.bool_] | bool
    """[E], or one for all"""


def read_document(
    path: Path,
    format: Format,
    wanted: Wanted,
    attributes: NodeAttributes,
    *,
    treatment: Treatment,
    split: SplitRule,
    task: LabelTask = "auto",
    memory_limit: int | None = None,
) -> RawGraph:
    """The graph in a document.

    Args:
        path: of the file; .gz and .zst are unpacked.
        format: one of MEMORY_FACTOR.
        wanted: whether weights and times are read, and whether ids are words.
        attributes: of the nodes, which become features and labels.
        treatment, split: as for `user_graph.build`.
        task: what labels are for; see `labels.checked_labels`.
        memory_limit: bytes that the process may use; None for what is free.

    Returns:
        One node type and one edge type: x float32 [N, F] and y as `tables.checked_labels` gives it if they are asked
        for.

    Raises:
        DatasetError: the document is damaged, holds what is no graph, or lacks an attribute that is asked for.
        UsageError: it needs more memory than there is.
    """
    factor = MEMORY_FACTOR[format]
    room = memory.free(memory_limit)
    with reading(path):
        text = whole_text(path, room // factor)
    if text is None:
        raise UsageError(
            f"{path} needs about {factor} times its unpacked size in memory, as {format} is parsed as a whole, and "
            f"{progress.format_bytes(room)} may be used; give more with --memory, or convert the edges to CSV or "
            "Parquet, which are streamed"
        )
    if len(text) * factor > memory.LEAST_ROOM:
        progress.say(f"{path.name} is parsed as a whole; that takes about {progress.format_bytes(len(text) * factor)}")
    with reading(path):
        found = _parsed(format, text, room // NODE_BYTES)
        taken = _taken(path, found, wanted, attributes, task)
    arrays = checked_arrays(str(path), taken.arrays, len(found.ids), task)
    raw = build(
        {HOMOGENEOUS_NODE: NodeData(arrays=arrays, origin=dict.fromkeys(arrays, str(path)))},
        [TypedEdges(type=HOMOGENEOUS_EDGE, files=[taken.edges], times=wanted.times)],
        treatment=treatment,
        split=split,
        notes={"classes": taken.classes} if taken.classes else {},
        memory_limit=memory_limit,
    )
    nodes = replace(raw.nodes[HOMOGENEOUS_NODE], original_id=taken.original)
    return replace(raw, nodes={HOMOGENEOUS_NODE: nodes})


def _parsed(format: Format, text: bytes, most_nodes: int) -> GraphDocument:
    match format:
        case "gml":
            from graphprep.datasets.importing.documents.gml import read_gml

            return read_gml(text)
        case "pajek":
            from graphprep.datasets.importing.documents.pajek import read_pajek

            return read_pajek(text, most_nodes)
        case "json":
            from graphprep.datasets.importing.documents.node_link import read_node_link

            return read_node_link(text)
        case _:
            from graphprep.datasets.importing.documents.xml import read_xml

            return read_xml(text, format)


def of_networkx(graph: Any) -> GraphDocument:
    """What a NetworkX graph of any kind holds."""
    ids = list(graph)
    place = {node: number for number, node in enumerate(ids)}
    count = graph.number_of_edges()
    ends = itertools.chain.from_iterable((place[one], place[other]) for one, other in graph.edges())
    pairs = np.fromiter(ends, np.int64, 2 * count).reshape(count, 2)
    return GraphDocument(
        ids=ids,
        nodes=[data for _, data in graph.nodes(data=True)],
        src=pairs[:, 0],
        dst=pairs[:, 1],
        edges=[data for _, _, data in graph.edges(data=True)],
        undirected=not graph.is_directed(),
    )


class _Taken(NamedTuple):
    """What is wanted of a document, by row."""

    edges: EdgeArrays
    original: Original | None
    arrays: Mapping[str, Array]
    classes: Sequence[str]


def _taken(path: Path, found: GraphDocument, wanted: Wanted, attributes: NodeAttributes, task: LabelTask) -> _Taken:
    """What is wanted of a document; what was taken as what is said."""
    if not found.ids:
        raise DatasetError("it has no nodes")
    original, order = _ordered(found.ids, wanted)
    arrays: dict[str, Array] = {}
    classes: list[str] = []
    if attributes.features:
        arrays["x"] = np.concatenate([_features(found, name) for name in attributes.features], axis=1)
    if attributes.label is not None:
        arrays["y"], classes = _labels(found, attributes.label, task)
    if order is not None:
        arrays = {name: array[order] for name, array in arrays.items()}
    taken: set[str] = set()
    weight = _edge_numbers(found, WEIGHTS, taken, missing=1.0) if wanted.weights else None
    time = _edge_numbers(found, TIMES, taken, missing=None) if wanted.times else None
    src, dst = (found.src, found.dst) if order is None else (np.argsort(order)[end] for end in (found.src, found.dst))
    both = np.flatnonzero(np.broadcast_to(np.asarray(found.undirected), src.shape) & (src != dst))
    left_out = {
        "node": [name for name in _names(found.nodes) if name not in (attributes.label, *attributes.features)],
        "edge": [name for name in _names(found.edges) if name not in taken],
    }
    ignored = [f"{kind} {name}" for kind, names in left_out.items() for name in names]
    file = EdgeArrays(
        path=path,
        src=np.concatenate([src, dst[both]]),
        dst=np.concatenate([dst, src[both]]),
        weight=None if weight is None else np.concatenate([weight, weight[both]]),
        time=None if time is None else np.concatenate([time, time[both]]),
        num_sources=len(found.ids),
        num_destinations=len(found.ids),
        ignored=tuple(ignored),
    )
    _say(path, found, original, left_out, taken)
    _say_classes(attributes.label, classes)
    return _Taken(file, original, arrays, classes)


def _ordered(ids: Sequence[int] | Sequence[str], wanted: Wanted) -> tuple[Original | None, NDArray[np.int64] | None]:
    """The ids by row unless they are the rows, and which node each row is unless that is the document's order."""
    kinds = {type(node) for node in ids}
    if kinds not in ({int}, {str}):
        odd = next(node for node in ids if not isinstance(node, str) or len(kinds) > 1)
        raise DatasetError(
            f"its node ids are neither all whole numbers nor all words (one is {str(odd)[:60]!r}); write all of them "
            "in one way"
        )
    numbers = None if wanted.ids == "words" else _whole_numbers(ids)
    if numbers is None:
        if wanted.ids == "numbers":
            raise DatasetError("its node ids are not all whole numbers; leave out --ids numbers")
        return word_array([str(node) for node in ids]), None
    order = np.argsort(numbers, kind="stable")
    if not np.array_equal(numbers[order], np.arange(len(numbers))):
        return numbers, None
    return None, None if np.array_equal(order, np.arange(len(order))) else order


def _whole_numbers(ids: Sequence[int] | Sequence[str]) -> NDArray[np.int64] | None:
    """Ids as numbers; None if one is no number of 64 bits, or is written otherwise than numbers are (007, +1)."""
    import pyarrow as pa

    try:
        if isinstance(ids[0], int):
            return np.array(ids, np.int64)
        written = pa.array(ids, pa.large_string())
        numbers = written.cast(pa.int64())
    except (OverflowError, pa.ArrowInvalid):
        return None
    return np.asarray(numbers) if numbers.cast(pa.large_string()).equals(written) else None


def _names(data: Sequence[Attributes]) -> list[str]:
    """The names of all attributes that hold data, in the order of their first sight."""
    return [name for name in dict.fromkeys(itertools.chain.from_iterable(data)) if name not in NOT_DATA]


def _features(found: GraphDocument, name: str) -> Array:
    """One attribute as columns, float32 [N, columns]."""
    values = _values(found, name)
    try:
        array = np.array(values)
    except ValueError:  # rows of unequal length
        array = np.array(["unequal"])
    if array.dtype.kind not in "biuf" or array.ndim not in (1, 2):
        raise DatasetError(
            f"its node attribute {name!r} is not numbers, or not as many for each node, so it is no feature"
        )
    return array.reshape(len(values), -1).astype(np.float32)


def _values(found: GraphDocument, name: str) -> list[Any]:
    """One attribute of every node."""
    missing = next((number for number, data in enumerate(found.nodes) if data.get(name) is None), None)
    if missing is not None:
        if name not in (known := _names(found.nodes)):
            raise DatasetError(
                f"its nodes have no attribute {name!r}; they have {', '.join(map(repr, known)) or 'none'}"
            )
        raise DatasetError(f"its node {str(found.ids[missing])[:60]!r} has no attribute {name!r}, so it is no feature")
    return [data[name] for data in found.nodes]


def _labels(found: GraphDocument, name: str, task: LabelTask) -> tuple[Array, list[str]]:
    """Labels, and the words of the classes if they are words."""
    values = [data.get(name) for data in found.nodes]
    there = [value for value in values if value is not None]
    if not there:
        known = ", ".join(map(repr, _names(found.nodes))) or "none"
        raise DatasetError(f"its nodes have no attribute {name!r}; they have {known}")
    kinds = {type(value) for value in there}
    if kinds <= {int, bool} and task != "regression":
        return np.array([-1 if value is None else value for value in values], np.int64), []
    if kinds <= {int, bool, float}:
        numbers = np.array([np.nan if value is None else value for value in values], np.float64)
        known_numbers = numbers[~np.isnan(numbers)]
        if task != "regression" and (known_numbers == np.floor(known_numbers)).all():
            return np.where(np.isnan(numbers), -1, numbers).astype(np.int64), []
        return numbers[:, None].astype(np.float32), []
    if kinds != {str}:
        raise DatasetError(f"its node attribute {name!r} is neither numbers nor words, so it is no label")
    classes = sorted(set(there))
    number = {word: code for code, word in enumerate(classes)}
    return np.array([-1 if value is None else number[value] for value in values], np.int64), classes


def _edge_numbers(found: GraphDocument, names: Sequence[str], taken: set[str], *, missing: float | None) -> Array:
    """The first of these attributes that edges have, [E]; `missing` for an edge that has none, None to refuse that."""
    known = _names(found.edges)
    name = next((name for name in names if name in known), None)
    if name is None:
        if not found.edges:
            return np.zeros(0, np.float32)
        shown = ", ".join(map(repr, known)) or "none"
        raise DatasetError(f"its edges have no attribute {' or '.join(names)}; they have {shown}")
    values = [data.get(name, missing) for data in found.edges]
    taken.add(name)
    if absent := sum(name not in data for data in found.edges):
        if missing is None:
            raise DatasetError(f"{absent:,} of its {len(values):,} edges have no {name}")
        progress.say(f"{absent:,} of {len(values):,} edges have no {name}, and get {missing:g}")
    array = np.array(values, dtype=object if any(isinstance(value, str | list | dict) for value in values) else None)
    if array.dtype.kind not in "biuf" or array.ndim != 1:
        raise DatasetError(f"its edge attribute {name!r} is not one number an edge")
    return array


def _say(
    path: Path,
    found: GraphDocument,
    original: Original | None,
    left_out: Mapping[str, Sequence[str]],
    taken: set[str],
) -> None:
    """What was taken as what, a line each."""
    undirected = np.broadcast_to(np.asarray(found.undirected), found.src.shape)
    how = (
        "undirected, so each is kept in both directions"
        if undirected.all()
        else f"directed but for {int(undirected.sum()):,}, which are kept in both directions"
        if undirected.any()
        else "directed"
    )
    ids = "are row numbers" if original is None else "are words" if original.dtype.kind in "UT" else "are numbers"
    kept = "" if original is None else ", kept as original_id; rows are in the document's order"
    progress.say(f"{path.name}: {len(found.ids):,} nodes, whose ids {ids}{kept}")
    edges = f"{len(found.src):,} edges, {how}" if len(found.src) else "no edges"
    read = f"; read of them: {', '.join(sorted(map(repr, taken)))}" if taken else ""
    progress.say(f"{path.name}: {edges}{read}")
    for kind, names in left_out.items():
        if names:
            progress.say(f"{path.name}: left out of the {kind}s: {', '.join(map(repr, names))}")


def _say_classes(label: str | None, classes: Sequence[str]) -> None:
    """Which number each word became."""
    if not classes:
        return
    shown = ", ".join(f"{number} is {word!r}" for number, word in enumerate(classes[:MOST_CLASSES_NAMED]))
    more = ", ..." if len(classes) > MOST_CLASSES_NAMED else ""
    progress.say(f"the label {label!r} has {len(classes):,} classes: {shown}{more}")
