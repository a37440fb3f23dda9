"""What a schema says of tables whose columns are named by role: entries of nodes, of edges, and tables with keys.

    tables:
      customers: {file: customers.parquet, key: customer_id, features: [age], label: segment, split_column: part}
      orders: {file: orders.csv, key: order_id, foreign_keys: {customer_id: customers}, time_column: ordered_at}

A table is a node type, and each of its foreign keys an edge type `orders__customer_id__customers` with its reverse
`customers__rev_customer_id__orders`. Without a `key` the nodes are the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from graphprep.core.choices import LabelTask
from graphprep.core.types import EdgeType
from graphprep.datasets.formats.text_dialect import given_delimiter
from graphprep.datasets.importing.columns.edge_table import EdgeTableColumns
from graphprep.datasets.importing.columns.features import ColumnName, Features
from graphprep.datasets.importing.columns.node_table import SPLITS, NodeColumns
from graphprep.datasets.importing.columns.table_source import TableSource
from graphprep.datasets.importing.import_request import EdgeFiles
from graphprep.datasets.importing.node_files import NodeFiles
from graphprep.system.yaml_config import FaultAt, StrictModel


def _delimiter(text: str) -> str:
    try:
        return given_delimiter(text)
    except ValueError as problem:
        raise FaultAt(str(problem)) from problem


def _columns(names: object) -> object:
    """One column or value, or several."""
    return tuple(map(str, names)) if isinstance(names, list | tuple) else (str(names),)


Delimiter = Annotated[str, AfterValidator(_delimiter)]
ColumnNames = Annotated[tuple[str, ...], BeforeValidator(_columns)]


class TableEntry(StrictModel):
    """Where a table lies, and how text is cut."""

    file: Annotated[str, Field(min_length=1)] | None = None
    """text, Parquet, Arrow, or a folder of such files"""
    database: Annotated[str, Field(min_length=1)] | None = None
    """a SQLite or DuckDB file"""
    table: str | None = None
    """of the database"""
    query: str | None = None
    """of the database, in place of a table"""
    header: bool | None = None
    delimiter: Delimiter | None = None

    @model_validator(mode="after")
    def _is_one_table(self) -> Self:
        if self.file is not None and self.database is not None:
            raise FaultAt("a table lies in a `file` or in a `database`, not in both", ("database",))
        if self.database is not None and (self.table is None) == (self.query is None):
            raise FaultAt("of a database, give either `table` or `query`", ("database",))
        for key in ("table", "query"):
            if self.database is None and getattr(self, key) is not None:
                raise FaultAt(f"{key!r} is of a `database`; a file of its own is a `file`", (key,))
        return self

    @property
    def has_table(self) -> bool:
        """Whether it names one."""
        return self.file is not None or self.database is not None

    def table_source(self, folder: Path) -> TableSource:
        """The table, with its place."""
        return TableSource(
            path=folder / (self.database or self.file or ""),
            is_database=self.database is not None,
            table=self.table,
            query=self.query,
            header=self.header,
            delimiter=self.delimiter,
        )


class SplitValues(StrictModel):
    """The values of a split column that say in which part a node is."""

    train: ColumnNames = ()
    val: ColumnNames = ()
    test: ColumnNames = ()

    @model_validator(mode="after")
    def _differ(self) -> Self:
        words = [word for part in SPLITS for word in getattr(self, part)]
        if not words or len(set(words)) < len(words):
            raise FaultAt("name at least one value, and none of them twice")
        return self

    def by_part(self) -> dict[str, tuple[str, ...]]:
        """None for a part without values."""
        return {part: words for part in SPLITS if (words := getattr(self, part))}


class NodeRoles(TableEntry):
    """The columns of a table of nodes that entries of nodes and tables with keys call by the same names."""

    label: ColumnNames = ()
    split_column: ColumnName | None = None
    split_values: SplitValues | None = None
    time_column: ColumnName | None = None
    task: LabelTask = "auto"

    def node_columns(self, folder: Path, id_column: str | None, features: Features | None) -> NodeColumns:
        """The table and the roles of its columns."""
        return NodeColumns(
            source=self.table_source(folder),
            id=id_column,
            label=self.label,
            split=self.split_column,
            split_values={} if self.split_values is None else self.split_values.by_part(),
            time=self.time_column,
            features=tuple(features or ()),
        )


class KeyedTable(NodeRoles):
    """A table with a key and foreign keys: a node type, and an edge type for each foreign key."""

    key: ColumnName | None = None
    """None: the nodes are the rows"""
    foreign_keys: dict[str, str] = Field(default_factory=dict)
    """by column, the table whose key it has"""
    features: Features | None = None

    @model_validator(mode="after")
    def _has_rows(self) -> Self:
        if not self.has_table:
            raise FaultAt("name its `file`, or a `database` and a `table`")
        return self

    def nodes(self, folder: Path) -> NodeFiles:
        """The node type."""
        return NodeFiles(table=self.node_columns(folder, self.key, self.features), task=self.task)

    def types(self, name: str) -> Iterator[tuple[str, EdgeType, EdgeType]]:
        """The column, edge type and reverse of each foreign key."""
        for column, other in self.foreign_keys.items():
            relation = relation_of(column)
            yield column, EdgeType(name, relation, other), EdgeType(other, f"rev_{relation}", name)

    def edges(self, name: str, folder: Path) -> Iterator[EdgeFiles]:
        """The edge types."""
        source = self.table_source(folder)
        for column, forward, reverse in self.types(name):
            columns = EdgeTableColumns(source=source, source_column=self.key, target_column=column, is_foreign_key=True)
            yield EdgeFiles(type=forward, paths=tuple(source.files()), reverse=reverse.relation, table=columns)


def relation_of(column: str) -> str:
    """A column's name as that of a relation: letters, digits, '.', '-' and single '_' between them."""
    return re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9._-]+", "-", column)).strip("_-.") or "key"
