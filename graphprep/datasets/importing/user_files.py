"""The graph in a user's own files: each is opened in its format, and all are put together by `user_graph`.

A file that holds a whole graph (PyTorch Geometric's, GraphML and the like) is imported alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from graphprep.core.types import HOMOGENEOUS_NODE, RawGraph
from graphprep.datasets.importing.columns.edge_table import IdKinds, TableEdges
from graphprep.datasets.importing.edges.edge_file import EdgeOptions
from graphprep.datasets.importing.edges.edge_formats import DOCUMENTS, WHOLE_GRAPH, format_of, open_edges
from graphprep.datasets.importing.import_request import EdgeFiles, ImportRequest
from graphprep.datasets.importing.node_files import PARTS, NodeData, load_nodes
from graphprep.datasets.importing.typed_edges import TypedEdges
from graphprep.datasets.importing.user_graph import build
from graphprep.errors import UsageError
from graphprep.system import memory
from graphprep.system.executor import Executor


def read_files(
    request: ImportRequest, *, memory_limit: int | None = None, executor: Executor | None = None
) -> RawGraph:
    """The graph of a user's own files.

    Args:
        request: the files and how to read them.
        memory_limit: bytes that the process may use; None for half of what is free.
        executor: reads edges that can be read by sections, if its workers are other processes, which reach the files
            under the same paths; None to read here.

    Returns:
        Of each node type: x [N, F] in the file's dtype, y int64 [N] or [N, C], masks bool [N, S], times; of each edge
        type a stream of edges, and their times.

    Raises:
        DatasetError: a file is not what it should be (with its line or row), or two do not fit together.
        UsageError: options that do not go together.
    """
    with memory.limited(memory_limit):
        return _read(request, memory_limit, executor)


def _read(request: ImportRequest, memory_limit: int | None, executor: Executor | None) -> RawGraph:
    formats = {format_of(path, part.format) for part in request.edges if not part.table for path in part.paths}
    if formats & set(WHOLE_GRAPH):
        return _whole_graph(request, memory_limit)
    words = request.ids == "words"
    nodes = {name: load_nodes(files, words=words) for name, files in request.nodes.items()}
    counts = {name: None if data.ids is not None else data.known_count() for name, data in nodes.items()}
    edges = open_edge_files(request, counts, executor, _id_kinds(request, nodes))
    return build(request, nodes, edges, memory_limit=memory_limit, executor=executor)


def open_edge_files(
    request: ImportRequest,
    counts: Mapping[str, int | None],
    executor: Executor | None = None,
    kinds: IdKinds | None = None,
) -> list[TypedEdges]:
    """The files of edges, opened.

    Args:
        request: the files and how to read them.
        counts: by node type, how many nodes there are, where ids are their row numbers.
        executor: as for `read_files`.
        kinds: whether ids are words or numbers, of the node types of which that is known; for tables.
    """
    place = Path.absolute if executor is not None and executor.is_elsewhere else Path
    return [
        TypedEdges(
            type=part.type,
            files=[TableEdges(part.table, part.type, kinds or {})]
            if part.table is not None
            else [open_edges(place(path), part.format, _edge_options(request, part, counts)) for path in part.paths],
            treatment=part.treatment,
            reverse=part.reverse,
            times=part.options.times if part.table is None else part.table.time is not None,
        )
        for part in request.edges
    ]


def _id_kinds(request: ImportRequest, nodes: Mapping[str, NodeData]) -> IdKinds:
    """Whether ids of a node type are words or numbers, where a table of the nodes or the request says it."""
    kinds: IdKinds = {}
    for name, data in nodes.items():
        if data.ids is not None:
            kinds[name] = "words" if data.ids.ids.dtype.kind in "UT" else "numbers"
        elif data.counts:
            kinds[name] = "numbers"
        elif request.ids != "auto":
            kinds[name] = request.ids
    return kinds


def _edge_options(request: ImportRequest, part: EdgeFiles, counts: Mapping[str, int | None]) -> EdgeOptions:
    source, destination = part.type.source, part.type.destination
    return replace(
        part.options,
        ids=request.ids,
        one_type=source == destination,
        num_sources=counts[source],
        num_destinations=counts[destination],
    )


def _whole_graph(request: ImportRequest, memory_limit: int | None) -> RawGraph:
    """The graph of one file that holds all of it."""
    files = request.edges[0]
    path = next(path for path in files.paths if format_of(path, files.format) in WHOLE_GRAPH)
    format = format_of(path, files.format)
    kind = "a whole graph of PyTorch Geometric" if format == "pyg" else f"a whole graph ({format})"
    if len(request.edges) > 1 or len(files.paths) > 1:
        raise UsageError(f"{path} is {kind}; import it alone")
    if beside := [
        part
        for files in request.nodes.values()
        for part in (*PARTS, "num_nodes", "id_column", "split_column")
        if getattr(files, part)
    ]:
        raise UsageError(f"{path} is {kind}, so {beside[0]} cannot be given beside it")
    if files.options.columns.any() or files.options.delimiter is not None:
        raise UsageError(f"{path} is {kind}, which has no columns or delimiters to name")
    nodes = request.nodes[HOMOGENEOUS_NODE]
    if format in DOCUMENTS:
        from graphprep.datasets.importing.documents.graph_document import read_document

        if len(nodes.label) > 1:
            raise UsageError(f"{path} is {kind}, whose labels come from one attribute; give --label once")
        return read_document(path, format, request, memory_limit=memory_limit)
    if nodes.label or nodes.feature:
        raise UsageError(f"{path} is {kind}, whose x and y are its features and labels; leave label and feature away")
    from graphprep.datasets.importing.edges.saved_pyg import read_saved

    return read_saved(path, request, memory_limit=memory_limit)
