"""A user's own files: which they are, what makes their store's key, and the graph that they hold.

An import is a set of node types with their files and a set of edge types with theirs. Most graphs have one type of
each, `node` and `node__to__node`; `ImportRequest.of_one_type` makes these, and `schema` makes the others from YAML. A
file that holds a whole graph (PyTorch Geometric's, GraphML and the like) is imported alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from graphprep.core.splits import SplitRule
from graphprep.core.types import (
    HOMOGENEOUS_EDGE,
    HOMOGENEOUS_NODE,
    EdgeType,
    RawGraph,
    Treatment,
)
from graphprep.datasets.formats.text_dialect import given_delimiter
from graphprep.datasets.importing.edges.edge_columns import NONE_GIVEN, GivenColumns
from graphprep.datasets.importing.edges.edge_file import (
    DOCUMENTS,
    WHOLE_GRAPH,
    Wanted,
    format_of,
    open_edges,
)
from graphprep.datasets.importing.node_attributes import NodeAttributes
from graphprep.datasets.importing.node_files import PARTS, SPLITS, NodeData, NodeFiles, load_nodes
from graphprep.datasets.importing.options import Format, IdKind, ImportOptions
from graphprep.datasets.importing.typed_edges import TypedEdges
from graphprep.datasets.importing.user_graph import build
from graphprep.errors import UsageError
from graphprep.system import memory
from graphprep.system.executor import Executor
from graphprep.system.options import options_in

_OF_NODES = (*SPLITS, "features", "labels", "num_nodes", "id_column", "label", "feature", "split_column", "task")
"""options of nodes that NodeFiles calls by the same name"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeFiles:
    """The files of one edge type and how to read them."""

    type: EdgeType
    paths: tuple[Path, ...]
    """read one after the other as one list"""
    format: Format = "auto"
    weights: bool = False
    """whether to read the edges' weights; they are ignored otherwise"""
    times: bool = False
    """whether to read the edges' times, as the attribute `time`; they are ignored otherwise"""
    header: bool | None = None
    """whether the first line of text names the columns; None: told as `text_dialect` says"""
    delimiter: str | None = None
    """what stands between fields of text, a space for blanks; None: told likewise"""
    columns: GivenColumns = NONE_GIVEN
    """which columns of text and Parquet hold what, where a person says it"""
    treatment: Treatment | None = None
    """None: that of the request"""
    reverse: str | None = None
    """the relation of a second type with the same edges the other way round"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    """All that a graph is made from."""

    nodes: Mapping[str, NodeFiles]
    edges: tuple[EdgeFiles, ...]
    ids: IdKind = "auto"
    treatment: Treatment = field(default_factory=Treatment)
    split: SplitRule = field(default_factory=SplitRule)

    @classmethod
    def of_one_type(cls, edges: Sequence[Path], *, split: SplitRule | None = None, **options: Any) -> ImportRequest:
        """A graph with one node type and one edge type; `options` are others of ImportOptions.

        Raises:
            UsageError: no file of edges is named, or an option is wrong.
        """
        return request_of(ImportOptions(edges=tuple(edges), **options), split=split)

    def files(self) -> list[tuple[str, Path]]:
        """Every file with its role, in a fixed order."""
        alone = set(self.nodes) == {HOMOGENEOUS_NODE} and [part.type for part in self.edges] == [HOMOGENEOUS_EDGE]
        found: list[tuple[str, Path]] = []
        for part in self.edges:
            found += [("edges" if alone else f"{part.type.key} edges", path) for path in part.paths]
        for name, files in self.nodes.items():
            found += [(role if alone else f"{name} {role}", path) for role, path in files.files()]
        return found

    def to_json(self) -> dict[str, object]:
        """All but the files' places, which do not change the graph: their roles and kinds stand for them."""
        edges = {
            part.type.key: {
                "weights": part.weights,
                "times": part.times,
                "header": part.header,
                "delimiter": part.delimiter,
                "columns": asdict(part.columns),
                "treatment": None if part.treatment is None else asdict(part.treatment),
                "reverse": part.reverse,
                "formats": [format_of(path, part.format) for path in part.paths],
            }
            for part in self.edges
        }
        nodes = {name: files.reading() for name, files in self.nodes.items()}
        return {
            "ids": self.ids,
            "treatment": asdict(self.treatment),
            "split": self.split.model_dump(),
            "nodes": nodes,
            "edges": edges,
            "roles": [f"{role} {''.join(path.suffixes[-2:])}".rstrip() for role, path in self.files()],
        }


def request_of(options: ImportOptions, *, split: SplitRule | None = None) -> ImportRequest:
    """The files of one node type and one edge type, or of a schema.

    Args:
        options: what a person asks for.
        split: instead of that of the options.

    Raises:
        UsageError: both or neither, or an option that the schema should say.
        DatasetError: the schema is wrong.
    """
    split = split or SplitRule(seed=options.seed, splits=options.splits)
    if options.schema is not None:
        return _of_schema(options.schema, options, split)
    if not options.edges:
        raise UsageError("name at least one file of edges, or --schema FILE")
    nodes = NodeFiles(
        times=options.node_times,
        header=options.node_header,
        delimiter=_delimiter("--node-delimiter", options.node_delimiter),
        **{name: getattr(options, name) for name in _OF_NODES},
    )
    part = EdgeFiles(
        type=HOMOGENEOUS_EDGE,
        paths=options.edges,
        format=options.format,
        weights=options.weights or options.weight is not None,
        times=options.edge_times or options.time is not None,
        header=options.header,
        delimiter=_delimiter("--delimiter", options.delimiter),
        columns=GivenColumns(source=options.source, target=options.target, weight=options.weight, time=options.time),
    )
    return ImportRequest(
        nodes={HOMOGENEOUS_NODE: nodes},
        edges=(part,),
        ids=options.ids,
        treatment=Treatment(
            undirected=options.undirected, duplicates=options.duplicates, self_loops=options.self_loops
        ),
        split=split,
    )


def _of_schema(schema: Path, options: ImportOptions, split: SplitRule) -> ImportRequest:
    if options.edges:
        raise UsageError(f"{options.edges[0]} and --schema cannot be given together; name all files in {schema}")
    from graphprep.datasets.importing.schema import load_schema

    for option in options_in(ImportOptions):
        if option.name not in ("schema", "seed", "splits") and getattr(options, option.name) != option.default:
            raise UsageError(f"{option.flag[2:]} cannot be given beside --schema; write it in {schema}")
    return load_schema(schema, split)


def _delimiter(flag: str, name: str | None) -> str | None:
    """A delimiter as a character."""
    try:
        return None if name is None else given_delimiter(name)
    except ValueError as problem:
        raise UsageError(f"{flag}: {problem}") from problem


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
    formats = {format_of(path, part.format) for part in request.edges for path in part.paths}
    if formats & set(WHOLE_GRAPH):
        return _whole_graph(request, memory_limit)
    words = request.ids == "words"
    nodes = {name: load_nodes(files, words=words) for name, files in request.nodes.items()}
    place = Path.absolute if executor is not None and executor.is_elsewhere else Path
    edges = [
        TypedEdges(
            type=part.type,
            files=[open_edges(place(path), part.format, _wanted(request, part, nodes)) for path in part.paths],
            treatment=part.treatment,
            reverse=part.reverse,
            times=part.times,
        )
        for part in request.edges
    ]
    return build(
        nodes,
        edges,
        treatment=request.treatment,
        split=request.split,
        memory_limit=memory_limit,
        executor=executor,
    )


def _wanted(request: ImportRequest, part: EdgeFiles, nodes: Mapping[str, NodeData]) -> Wanted:
    limits = {
        end: None if nodes[name].ids is not None else nodes[name].known_count()
        for end, name in (("num_sources", part.type.source), ("num_destinations", part.type.destination))
    }
    return Wanted(
        weights=part.weights,
        times=part.times,
        ids=request.ids,
        header=part.header,
        delimiter=part.delimiter,
        columns=part.columns,
        one_type=part.type.source == part.type.destination,
        **limits,
    )


def _whole_graph(request: ImportRequest, memory_limit: int | None) -> RawGraph:
    """The graph of one file that holds all of it."""
    files = request.edges[0]
    path = next(path for path in files.paths if format_of(path, files.format) in WHOLE_GRAPH)
    format = format_of(path, files.format)
    kind = "a whole graph of PyTorch Geometric" if format == "pyg" else f"a whole graph ({format})"
    if len(request.edges) > 1 or len(files.paths) > 1:
        raise UsageError(f"{path} is {kind}; import it alone")
    if given := [
        part
        for files in request.nodes.values()
        for part in (*PARTS, "num_nodes", "id_column", "split_column")
        if getattr(files, part)
    ]:
        raise UsageError(f"{path} is {kind}, so {given[0]} cannot be given beside it")
    if files.columns.any() or files.delimiter is not None:
        raise UsageError(f"{path} is {kind}, which has no columns or delimiters to name")
    nodes = request.nodes[HOMOGENEOUS_NODE]
    wanted = Wanted(weights=files.weights, times=files.times, ids=request.ids)
    if format in DOCUMENTS:
        from graphprep.datasets.importing.documents.graph_document import read_document

        if len(nodes.label) > 1:
            raise UsageError(f"{path} is {kind}, whose labels come from one attribute; give --label once")
        return read_document(
            path,
            format,
            wanted,
            NodeAttributes(label=next(iter(nodes.label), None), features=nodes.feature),
            treatment=request.treatment,
            split=request.split,
            task=nodes.task,
            memory_limit=memory_limit,
        )
    if nodes.label or nodes.feature:
        raise UsageError(f"{path} is {kind}, whose x and y are its features and labels; leave label and feature away")
    from graphprep.datasets.importing.edges.saved_pyg import read_saved

    return read_saved(
        path, wanted, treatment=request.treatment, split=request.split, task=nodes.task, memory_limit=memory_limit
    )
