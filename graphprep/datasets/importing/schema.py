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

Tables whose columns are named by role have a `file`, or a `database` and a `table` or `query`, in place of these files;
`tables:` has tables with keys and foreign keys (see `columns/schema_tables.py`).

What is guessed of other tables can be said: of edges `header`, `delimiter`, `source_column`, `target_column`,
`weight_column` and `time_column`; of nodes `header`, `delimiter`, `id_column`, `label`, `feature` and `split_column`.
Columns are names, or numbers from 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, PositiveInt, Tag, model_validator

from graphprep.core.choices import Duplicates, SelfLoops
from graphprep.core.splits import SplitRule
from graphprep.core.types import EdgeType, Treatment
from graphprep.datasets.importing.columns.edge_table import EdgeTableColumns
from graphprep.datasets.importing.columns.features import ColumnName, Features
from graphprep.datasets.importing.columns.schema_tables import (
    ColumnNames,
    KeyedTable,
    NodeRoles,
    SplitValues,
    TableEntry,
    by_part,
)
from graphprep.datasets.importing.edges.edge_columns import RequestedColumns
from graphprep.datasets.importing.edges.edge_file import EdgeOptions
from graphprep.datasets.importing.edges.edge_formats import WHOLE_GRAPH, format_of
from graphprep.datasets.importing.edges.saved_pyg import TYPE_NAME
from graphprep.datasets.importing.import_request import EdgeFiles, ImportRequest
from graphprep.datasets.importing.node_files import PARTS, NodeFiles
from graphprep.datasets.importing.options import Format, IdKind
from graphprep.errors import DatasetError, UsageError
from graphprep.system.files.regular_file import regular_file
from graphprep.system.nearest import nearest
from graphprep.system.yaml_config import FaultAt, StrictModel, validated, validated_values

NO_NAME = "is not of letters, digits, '.', '-' and single '_' between them"


def _type_name(name: str) -> str:
    if not TYPE_NAME.fullmatch(name):
        raise FaultAt(f"the name {name!r} {NO_NAME}")
    return name


TypeName = Annotated[str, AfterValidator(_type_name)]
FileOrColumns = Annotated[
    Annotated[str, Tag("the name of a file")] | Annotated[Features, Tag("a list of columns")],
    Discriminator(lambda value: "a list of columns" if isinstance(value, list) else "the name of a file"),
]


class NodeType(NodeRoles):
    """The files of one node type, or the table that has all of it; see `NodeFiles` and `NodeColumns`."""

    count: PositiveInt | None = None
    features: FileOrColumns | None = None
    labels: str | None = None
    times: str | None = None
    train: str | None = None
    val: str | None = None
    test: str | None = None
    id_column: ColumnName | None = None
    feature: ColumnNames = ()

    @model_validator(mode="after")
    def _goes_together(self) -> NodeType:
        if self.has_table:
            others = ("count", "labels", "times", "train", "val", "test", "feature")
            if beside := [key for key in others if getattr(self, key)]:
                raise FaultAt(
                    f"{beside[0]!r} cannot be given beside a table, whose columns have all of it", (beside[0],)
                )
            if isinstance(self.features, str):
                raise FaultAt("of a table, `features` is a list of columns", ("features",))
            return self
        if isinstance(self.features, list):
            raise FaultAt(
                "`features` is a list of columns of a `file` or `database`, which is not named", ("features",)
            )
        for key in ("time_column", "split_values"):
            if getattr(self, key) is not None:
                raise FaultAt(f"{key!r} is about a `file` or `database`, which is not named", (key,))
        return self

    def files(self, folder: Path) -> NodeFiles:
        """With the places of the files."""
        if self.has_table:
            features = self.features if isinstance(self.features, list) else None
            return NodeFiles(table=self.node_columns(folder, self.id_column, features), task=self.task)
        paths = {part: folder / name for part in PARTS if (name := getattr(self, part)) is not None}
        names = ("id_column", "header", "delimiter", "label", "feature", "split_column", "task")
        return NodeFiles(num_nodes=self.count, **{name: getattr(self, name) for name in names}, **paths)


class EdgeTypeFiles(TableEntry):
    """The files of one edge type, or the table that has its edges; see `EdgeFiles` and `EdgeTableColumns`."""

    source: str
    relation: TypeName
    destination: str
    files: list[str] = Field(default_factory=list)
    format: Format = "auto"
    weights: bool = False
    times: bool = False
    source_column: ColumnName | None = None
    target_column: ColumnName | None = None
    weight_column: ColumnName | None = None
    time_column: ColumnName | None = None
    label: ColumnName | None = None
    split_column: ColumnName | None = None
    split_values: SplitValues | None = None
    features: Features | None = None
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
        if self.has_table == bool(self.files):
            raise FaultAt("name either `files` of edges, or one table: a `file`, or a `database` and a `table`")
        others = (
            ["format", "weights", "times"] if self.has_table else ["label", "features", "split_column", "split_values"]
        )
        if beside := [key for key in others if key in self.model_fields_set]:
            why = "name the column" if self.has_table else "give a table: a `file`, or a `database` and a `table`"
            raise FaultAt(f"{beside[0]!r} cannot be given here; {why}", (beside[0],))
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
        if self.has_table:
            table = self._table(folder)
            paths = tuple(table.source.files())
            return EdgeFiles(type=self.types()[0], paths=paths, treatment=treatment, reverse=self.reverse, table=table)
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

    def _table(self, folder: Path) -> EdgeTableColumns:
        return EdgeTableColumns(
            source=self.table_source(folder),
            source_column=self.source_column,
            target_column=self.target_column,
            weight=self.weight_column,
            time=self.time_column,
            label=self.label,
            split=self.split_column,
            split_values=by_part(self.split_values),
            features=tuple(self.features or ()),
        )


class Schema(StrictModel):
    """The whole file."""

    nodes: dict[str, NodeType | None] = Field(default_factory=dict)
    edges: list[EdgeTypeFiles] = Field(default_factory=list)
    tables: dict[str, KeyedTable] = Field(default_factory=dict)
    ids: IdKind = "auto"
    split: SplitRule | None = None
    """None: that of the command line"""

    @model_validator(mode="after")
    def _names_fit(self) -> Schema:
        if not self.nodes and not self.tables:
            raise FaultAt("name at least one node type, or one table under `tables`", ("nodes",))
        for section, names in (("nodes", self.nodes), ("tables", self.tables)):
            for name in names:
                if not TYPE_NAME.fullmatch(name):
                    raise FaultAt(f"the name {name!r} {NO_NAME}", (section, name))
        if both := [name for name in self.tables if name in self.nodes]:
            raise FaultAt(f"the type {both[0]!r} is among `nodes` and `tables`", ("tables", both[0]))
        seen: set[EdgeType] = set()
        types = (*self.nodes, *self.tables)
        for position, part in enumerate(self.edges):
            end: Literal["source", "destination"]
            for end in ("source", "destination"):
                if (name := getattr(part, end)) not in types:
                    hint = nearest(name, types) or f"; there are {', '.join(types)}"
                    raise FaultAt(f"no node type is called {name!r}{hint}", ("edges", position, end))
            for made in part.types():
                if made in seen:
                    raise FaultAt(f"the edge type {made.key} is there twice", ("edges", position, "relation"))
                seen.add(made)
        for name, table in self.tables.items():
            self._require_keys(name, table, seen)
        if not seen:
            lacks = (
                "name at least one type of edges here"
                if "edges" in self.model_fields_set
                else "the file lacks the key 'edges'"
            )
            raise FaultAt(f"{lacks}, or a table with foreign keys under `tables`", ("edges",))
        return self

    def _require_keys(self, name: str, table: KeyedTable, seen: set[EdgeType]) -> None:
        """See that foreign keys have tables to point to, and their edge types names of their own."""
        for column, forward, reverse in table.types(name):
            place = ("tables", name, "foreign_keys", column)
            other = forward.destination
            if other not in self.tables:
                hint = nearest(other, self.tables) or f"; there are {', '.join(self.tables)}"
                raise FaultAt(f"no table is called {other!r}{hint}", place)
            if self.tables[other].key is None:
                raise FaultAt(f"the table {other!r} has no `key` that the column could have", place)
            for made in (forward, reverse):
                if made in seen:
                    raise FaultAt(f"the edge type {made.key} is there twice", place)
                seen.add(made)

    def request(self, folder: Path, split: SplitRule | None, origin: str) -> ImportRequest:
        """What the schema asks to import; names of files are relative to the folder.

        Raises:
            UsageError: the schema has a `split`, and `split` says something too.
        """
        if self.split is not None and split not in (None, SplitRule()):
            raise UsageError(f"{origin} says how to split the nodes, so neither seed nor splits can be given beside it")
        nodes = {name: (files or NodeType()).files(folder) for name, files in self.nodes.items()}
        edges = [part.edges(folder) for part in self.edges]
        for name, table in self.tables.items():
            nodes[name] = table.nodes(folder)
            edges += table.edges(name, folder)
        return ImportRequest(nodes=nodes, edges=tuple(edges), ids=self.ids, split=self.split or split or SplitRule())


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
    return schema.request(path.parent, split, str(path))


def schema_of(values: Mapping[str, Any], split: SplitRule | None = None) -> ImportRequest:
    """What a schema asks to import that is a dictionary; names of files are relative to the working directory.

    Raises:
        DatasetError: with its place, what is wrong with it.
        UsageError: as `load_schema`.
    """
    schema = validated_values(Schema, values, origin="the schema", error=DatasetError)
    return schema.request(Path(), split, "the schema")
