"""A graph of several node and edge types, written down in YAML for `graphprep import --schema`.

    nodes:
      paper: {features: p_feat.npz, labels: labels.npy, train: train.npy, val: val.npy, test: test.npy}
      author: {features: a_feat.npz}
      subject: {count: 60}
    edges:
      - {source: paper, relation: by, destination: author, files: [pa.txt], reverse: writes}
      - {source: paper, relation: about, destination: subject, files: [ps.txt]}

A type without a count, features or labels has the nodes that occur in its edges: `subject: {}`. Names of files are
relative to the schema's folder. `reverse` names a second edge type with the edges the other way round; `undirected`
adds reverses within one type, and is for edges between nodes of one type only.

What is guessed of a table can be said: of edges `header`, `delimiter`, `source_column`, `target_column`,
`weight_column` and `time_column`; of nodes `header`, `delimiter`, `id_column`, `label`, `feature` and `split_column`.
Columns are names, or numbers from 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PositiveInt, model_validator

from graphprep.core.choices import Duplicates, LabelTask, SelfLoops
from graphprep.core.splits import SplitRule
from graphprep.core.types import EdgeType, Treatment
from graphprep.datasets.formats.text_dialect import given_delimiter
from graphprep.datasets.importing.edges.edge_columns import RequestedColumns
from graphprep.datasets.importing.edges.edge_file import EdgeOptions
from graphprep.datasets.importing.edges.edge_formats import WHOLE_GRAPH, format_of
from graphprep.datasets.importing.edges.saved_pyg import TYPE_NAME
from graphprep.datasets.importing.import_request import EdgeFiles, ImportRequest
from graphprep.datasets.importing.node_files import PARTS, NodeFiles
from graphprep.datasets.importing.options import Format, IdKind
from graphprep.errors import DatasetError, UsageError
from graphprep.system.nearest import nearest
from graphprep.system.regular_file import regular_file
from graphprep.system.yaml_config import FaultAt, StrictModel, validated

NO_NAME = "is not of letters, digits, '.', '-' and single '_' between them"


def _type_name(name: str) -> str:
    if not TYPE_NAME.fullmatch(name):
        raise FaultAt(f"the name {name!r} {NO_NAME}")
    return name


def _delimiter(text: str) -> str:
    try:
        return given_delimiter(text)
    except ValueError as problem:
        raise FaultAt(str(problem)) from problem


def _column(name: object) -> object:
    """A column's name, or its number as a name."""
    return str(name) if type(name) is int else name


def _columns(names: object) -> object:
    """One column, or several."""
    return tuple(map(str, names)) if isinstance(names, list | tuple) else (str(names),)


TypeName = Annotated[str, AfterValidator(_type_name)]
Delimiter = Annotated[str, AfterValidator(_delimiter)]
Column = Annotated[str, BeforeValidator(_column)]
Columns = Annotated[tuple[str, ...], BeforeValidator(_columns)]


class NodeType(StrictModel):
    """The files of one node type; see `NodeFiles`."""

    count: PositiveInt | None = None
    features: str | None = None
    labels: str | None = None
    times: str | None = None
    train: str | None = None
    val: str | None = None
    test: str | None = None
    id_column: Column | None = None
    header: bool | None = None
    delimiter: Delimiter | None = None
    label: Columns = ()
    feature: Columns = ()
    split_column: Column | None = None
    task: LabelTask = "auto"

    def files(self, folder: Path) -> NodeFiles:
        """With the places of the files."""
        paths = {part: folder / name for part in PARTS if (name := getattr(self, part)) is not None}
        return NodeFiles(num_nodes=self.count, **self.model_dump(exclude={"count", *PARTS}), **paths)


class EdgeTypeFiles(StrictModel):
    """The files of one edge type; see `EdgeFiles`."""

    source: str
    relation: TypeName
    destination: str
    files: Annotated[list[str], Field(min_length=1)]
    format: Format = "auto"
    weights: bool = False
    times: bool = False
    header: bool | None = None
    delimiter: Delimiter | None = None
    source_column: Column | None = None
    target_column: Column | None = None
    weight_column: Column | None = None
    time_column: Column | None = None
    reverse: TypeName | None = None
    undirected: bool = False
    duplicates: Duplicates = "keep"
    self_loops: SelfLoops = "keep"

    @model_validator(mode="after")
    def _fits(self) -> EdgeTypeFiles:
        if self.source != self.destination:
            if self.undirected:
                raise FaultAt(
                    "only edges between nodes of one type can be undirected; name a `reverse`", ("undirected",)
                )
            if self.self_loops != "keep":
                raise FaultAt("edges between two types have no self-loops", ("self_loops",))
        for position, name in enumerate(self.files):
            if format_of(Path(name), self.format) in WHOLE_GRAPH:
                raise FaultAt(f"{name!r} holds a whole graph; import it alone, without a schema", ("files", position))
        return self

    def types(self) -> list[EdgeType]:
        """The type, and its reverse if there is to be one."""
        forward = EdgeType(self.source, self.relation, self.destination)
        return [forward] if self.reverse is None else [forward, EdgeType(self.destination, self.reverse, self.source)]

    def edges(self, folder: Path) -> EdgeFiles:
        """With the places of the files."""
        treatment = Treatment(undirected=self.undirected, duplicates=self.duplicates, self_loops=self.self_loops)
        return EdgeFiles(
            type=self.types()[0],
            paths=tuple(folder / name for name in self.files),
            format=self.format,
            options=EdgeOptions.of_columns(
                RequestedColumns(
                    source=self.source_column,
                    target=self.target_column,
                    weight=self.weight_column,
                    time=self.time_column,
                ),
                weights=self.weights,
                times=self.times,
                header=self.header,
                delimiter=self.delimiter,
            ),
            treatment=treatment,
            reverse=self.reverse,
        )


class Schema(StrictModel):
    """The whole file."""

    nodes: Annotated[dict[str, NodeType | None], Field(min_length=1)]
    edges: Annotated[list[EdgeTypeFiles], Field(min_length=1)]
    ids: IdKind = "auto"
    split: SplitRule | None = None
    """None: that of the command line"""

    @model_validator(mode="after")
    def _names_fit(self) -> Schema:
        for name in self.nodes:
            if not TYPE_NAME.fullmatch(name):
                raise FaultAt(f"the name {name!r} {NO_NAME}", ("nodes", name))
        seen: set[EdgeType] = set()
        for position, part in enumerate(self.edges):
            end: Literal["source", "destination"]
            for end in ("source", "destination"):
                if (name := getattr(part, end)) not in self.nodes:
                    hint = nearest(name, tuple(self.nodes)) or f"; there are {', '.join(self.nodes)}"
                    raise FaultAt(f"no node type is called {name!r}{hint}", ("edges", position, end))
            for made in part.types():
                if made in seen:
                    raise FaultAt(f"the edge type {made.key} is there twice", ("edges", position, "relation"))
                seen.add(made)
        return self


def load_schema(path: Path, split: SplitRule | None = None) -> ImportRequest:
    """What a schema asks to import.

    Args:
        path: of the YAML file.
        split: used where the schema has no `split`; None for SplitRule().

    Raises:
        DatasetError: with its line, what is wrong with the file; or it cannot be read.
        UsageError: the schema has a `split`, and `split` says something too.
    """
    try:
        text = regular_file(path).read_text(encoding="utf-8")
    except OSError as problem:
        raise DatasetError(f"{path} cannot be read ({problem.strerror})") from problem
    except UnicodeDecodeError as problem:
        raise DatasetError(f"{path} is no UTF-8 text, so it is no schema") from problem
    schema = validated(Schema, text, origin=str(path), error=DatasetError)
    if schema.split is not None and split not in (None, SplitRule()):
        raise UsageError(f"{path} says how to split the nodes, so neither seed nor splits can be given beside it")
    return ImportRequest(
        nodes={name: (files or NodeType()).files(path.parent) for name, files in schema.nodes.items()},
        edges=tuple(part.edges(path.parent) for part in schema.edges),
        ids=schema.ids,
        split=schema.split or split or SplitRule(),
    )
