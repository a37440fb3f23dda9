"""A whole graph in one document (GraphML, GEXF, GML, Pajek, node-link JSON), read into memory and turned into arrays.

The reader of each format gives a `GraphDocument`: the nodes' ids and attributes, the ends of the edges and their
attributes. Such a document is parsed as a whole, which takes many times the file's size, so the memory is estimated
from that size before anything is parsed.

Nodes whose ids are 0 .. N-1 are the rows of these numbers. Otherwise rows are in the order of the document, and the
store keeps the ids as `original_id`. An undirected document gives both directions of each edge. Attributes are left out
unless somebody asks for them; what was taken and what was left out is said, and noted in the store.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.choices import LabelTask
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, RawGraph
from graphprep.datasets.formats.text_file import whole_text
from graphprep.datasets.importing.edges.edge_arrays import EdgeArrays
from graphprep.datasets.importing.edges.edge_file import EdgeOptions
from graphprep.datasets.importing.import_request import ImportRequest
from graphprep.datasets.importing.node_files import NodeData, NodeFiles
from graphprep.datasets.importing.node_ids import Original
from graphprep.datasets.importing.options import Format, IdKind
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


def read_document(path: Path, format: Format, request: ImportRequest, *, memory_limit: int | None = None) -> RawGraph:
    """The graph in a document.

    Args:
        path: of the file; .gz and .zst are unpacked.
        format: one of MEMORY_FACTOR.
        request: of this file alone: whether weights and times are read, whether ids are words, and the attributes of
            nodes that become features (numbers, or lists of as many for each node) and labels (numbers or words).
        memory_limit: bytes that the process may use; None for what is free.

    Returns:
        One node type and one edge type: x float32 [N, F] and y as `tables.checked_labels` gives it if they are asked
        for.

    Raises:
        DatasetError: the document is damaged, holds what is no graph, or lacks an attribute that is asked for.
        UsageError: it needs more memory than there is.
    """
    options, wanted = request.edges[0].options, request.nodes[HOMOGENEOUS_NODE]
    factor = MEMORY_FACTOR[format]
    room = memory.full_budget(memory_limit)
    with reading(path):
        text = whole_text(path, room // factor)
    if text is None:
        raise UsageError(
            f"{path} needs about {factor} times its unpacked size in memory, as {format} is parsed as a whole, and "
            f"{progress.format_bytes(room)} may be used; give more with --memory, or convert the edges to CSV or "
            "Parquet, which are streamed"
        )
    if len(text) * factor > memory.LEAST_BUDGET:
        progress.say(f"{path.name} is parsed as a whole; that takes about {progress.format_bytes(len(text) * factor)}")
    with reading(path):
        document = _parsed(format, text, room // NODE_BYTES)
        if not document.ids:
            raise DatasetError("it has no nodes")
        original, order = ordered_ids(document.ids, request.ids)
        arrays, classes = _node_arrays(document, wanted, order)
        edges = edges_of(path, document, options, (*wanted.label, *wanted.feature), order)
    arrays = checked_arrays(str(path), arrays, len(document.ids), wanted.task)
    nodes = NodeData(
        arrays=arrays,
        origin=dict.fromkeys(arrays, str(path)),
        original=original,
        read_as=[classes_line(wanted.label[0], classes)] if classes else [],
    )
    return build(
        request,
        {HOMOGENEOUS_NODE: nodes},
        [TypedEdges(type=HOMOGENEOUS_EDGE, files=[edges], times=options.times)],
        notes={"classes": classes} if classes else {},
        memory_limit=memory_limit,
    )


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


def _node_arrays(
    document: GraphDocument, wanted: NodeFiles, order: NDArray[np.int64] | None
) -> tuple[dict[str, Array], list[str]]:
    """Features and labels by row, and the words of the classes."""
    arrays: dict[str, Array] = {}
    classes: list[str] = []
    if wanted.feature:
        arrays["x"] = np.concatenate([feature_columns(document, name) for name in wanted.feature], axis=1)
    if wanted.label:
        arrays["y"], classes = label_numbers(document, wanted.label[0], wanted.task)
    return arrays if order is None else {name: array[order] for name, array in arrays.items()}, classes


def edges_of(
    path: Path,
    document: GraphDocument,
    options: EdgeOptions,
    used_of_nodes: Collection[str],
    order: NDArray[np.int64] | None,
) -> EdgeArrays:
    """The edges by row, each undirected one in both directions."""
    used: list[str] = []
    weight = _edge_numbers(document, WEIGHTS, used, missing=1.0) if options.weights else None
    time = _edge_numbers(document, TIMES, used, missing=None) if options.times else None
    src, dst = document.src, document.dst
    if order is not None:
        row_of = np.argsort(order)
        src, dst = row_of[src], row_of[dst]
    undirected = np.broadcast_to(np.asarray(document.undirected), src.shape)
    both = np.flatnonzero(undirected & (src != dst))
    directed = (
        "undirected, so each is kept in both directions"
        if undirected.all()
        else f"directed but for {int(undirected.sum()):,}, which are kept in both directions"
        if undirected.any()
        else "directed"
    )
    read = f", read of them: {', '.join(map(repr, used))}" if used else ""
    node_names = (name for name in attribute_names(document.nodes) if name not in used_of_nodes)
    edge_names = (name for name in attribute_names(document.edges) if name not in used)
    return EdgeArrays(
        path=path,
        src=np.concatenate([src, dst[both]]),
        dst=np.concatenate([dst, src[both]]),
        weight=None if weight is None else np.concatenate([weight, weight[both]]),
        time=None if time is None else np.concatenate([time, time[both]]),
        num_sources=len(document.ids),
        num_destinations=len(document.ids),
        ignored=(*(f"node {name}" for name in node_names), *(f"edge {name}" for name in edge_names)),
        how=f"{len(src):,} edges, {directed}{read}" if len(src) else "no edges",
    )


def ordered_ids(
    ids: Sequence[int] | Sequence[str], id_kind: IdKind
) -> tuple[Original | None, NDArray[np.int64] | None]:
    """The ids by row unless they are the rows, and which node each row is unless that is the document's order."""
    kinds = {type(node) for node in ids}
    if kinds not in ({int}, {str}):
        odd = next(node for node in ids if not isinstance(node, str) or len(kinds) > 1)
        raise DatasetError(
            f"its node ids are neither all whole numbers nor all words (one is {str(odd)[:60]!r}); write all of them "
            "in one way"
        )
    numbers = None if id_kind == "words" else _whole_numbers(ids)
    if numbers is None:
        if id_kind == "numbers":
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


def attribute_names(data: Sequence[Attributes]) -> list[str]:
    """The names of all attributes that hold data, in the order of their first occurrence."""
    return [name for name in dict.fromkeys(itertools.chain.from_iterable(data)) if name not in NOT_DATA]


def feature_columns(document: GraphDocument, name: str) -> Array:
    """One attribute as columns, float32 [N, columns]."""
    values = _values(document, name)
    try:
        array = np.array(values)
    except ValueError:  # rows of unequal length
        array = np.array(["unequal"])
    if array.dtype.kind not in "biuf" or array.ndim not in (1, 2):
        raise DatasetError(
            f"its node attribute {name!r} is not numbers, or not as many for each node, so it is no feature"
        )
    return array.reshape(len(values), -1).astype(np.float32)


def _values(document: GraphDocument, name: str) -> list[Any]:
    """One attribute of every node."""
    missing = next((number for number, data in enumerate(document.nodes) if data.get(name) is None), None)
    if missing is not None:
        if name not in (known := attribute_names(document.nodes)):
            raise DatasetError(
                f"its nodes have no attribute {name!r}; they have {', '.join(map(repr, known)) or 'none'}"
            )
        raise DatasetError(
            f"its node {str(document.ids[missing])[:60]!r} has no attribute {name!r}, so it is no feature"
        )
    return [data[name] for data in document.nodes]


def label_numbers(document: GraphDocument, name: str, task: LabelTask) -> tuple[Array, list[str]]:
    """Labels, and the words of the classes if they are words."""
    values = [data.get(name) for data in document.nodes]
    there = [value for value in values if value is not None]
    if not there:
        known = ", ".join(map(repr, attribute_names(document.nodes))) or "none"
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


def _edge_numbers(document: GraphDocument, names: Sequence[str], used: list[str], *, missing: float | None) -> Array:
    """The first of these attributes that edges have, [E]; `missing` for an edge that has none, None to refuse that."""
    known = attribute_names(document.edges)
    name = next((name for name in names if name in known), None)
    if name is None:
        if not document.edges:
            return np.zeros(0, np.float32)
        shown = ", ".join(map(repr, known)) or "none"
        raise DatasetError(f"its edges have no attribute {' or '.join(names)}; they have {shown}")
    values = [data.get(name, missing) for data in document.edges]
    used.append(name)
    if absent := sum(name not in data for data in document.edges):
        if missing is None:
            raise DatasetError(f"{absent:,} of its {len(values):,} edges have no {name}")
        progress.say(f"{absent:,} of {len(values):,} edges have no {name}, and get {missing:g}")
    array = np.array(values, dtype=object if any(isinstance(value, str | list | dict) for value in values) else None)
    if array.dtype.kind not in "biuf" or array.ndim != 1:
        raise DatasetError(f"its edge attribute {name!r} is not one number an edge")
    return array


def classes_line(label: str, classes: Sequence[str]) -> str:
    """Which number each word became, for people."""
    shown = ", ".join(f"{number} is {word!r}" for number, word in enumerate(classes[:MOST_CLASSES_NAMED]))
    more = ", ..." if len(classes) > MOST_CLASSES_NAMED else ""
    return f"the label {label!r} has {len(classes):,} classes: {shown}{more}"
