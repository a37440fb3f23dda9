"""What a person asks to import: the files of node and edge types, how to read them, and what makes their store's key.

An import is a set of node types with their files and a set of edge types with theirs. Most graphs have one type of
each, `node` and `node__to__node`; `ImportRequest.of_one_type` makes these, and `schema` makes the others from YAML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from graphprep.core.splits import SplitRule
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, EdgeType, Treatment
from graphprep.datasets.formats.text_dialect import given_delimiter
from graphprep.datasets.importing.columns.edge_table import EdgeTableColumns
from graphprep.datasets.importing.edges.edge_columns import RequestedColumns
from graphprep.datasets.importing.edges.edge_file import EdgeOptions
from graphprep.datasets.importing.edges.edge_formats import format_of
from graphprep.datasets.importing.node_files import SPLITS, NodeFiles
from graphprep.datasets.importing.options import Format, IdKind, ImportOptions
from graphprep.errors import UsageError
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
    options: EdgeOptions = field(default_factory=EdgeOptions)
    """what to read; ids and the numbers of nodes are those of the request"""
    treatment: Treatment | None = None
    """None: that of the request"""
    reverse: str | None = None
    """the relation of a second type with the same edges the other way round"""
    table: EdgeTableColumns | None = None
    """a table with named columns, in place of the format and options; `paths` are its files"""


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
        files: list[tuple[str, Path]] = []
        for part in self.edges:
            files += [("edges" if alone else f"{part.type.key} edges", path) for path in part.paths]
        for name, node_files in self.nodes.items():
            files += [(role if alone else f"{name} {role}", path) for role, path in node_files.files()]
        # Nodes and foreign keys may come from one table, and many tables from one database.
        tables = {path for part in self.edges if part.table is not None for path in part.paths}
        tables |= {path for part in self.nodes.values() if part.table is not None for _, path in part.files()}
        first = {path: place for place, (_, path) in reversed(list(enumerate(files)))}
        return [(role, path) for place, (role, path) in enumerate(files) if path not in tables or first[path] == place]

    def to_json(self) -> dict[str, object]:
        """All but the files' places, which do not change the graph: their roles and kinds stand for them."""
        edges = {
            part.type.key: {
                **{name: getattr(part.options, name) for name in ("weights", "times", "header", "delimiter")},
                "columns": asdict(part.options.columns),
                "treatment": None if part.treatment is None else asdict(part.treatment),
                "reverse": part.reverse,
                "formats": [] if part.table else [format_of(path, part.format) for path in part.paths],
                **({"table": part.table.to_json()} if part.table else {}),
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
        options: of the import.
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
        options=EdgeOptions.of_columns(
            RequestedColumns(source=options.source, target=options.target, weight=options.weight, time=options.time),
            weights=options.weights,
            times=options.edge_times,
            header=options.header,
            delimiter=_delimiter("--delimiter", options.delimiter),
        ),
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
