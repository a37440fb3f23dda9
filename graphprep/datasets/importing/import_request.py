"""What a person asks to import: the files of node and edge types, how to read them, and what makes their store's key.

An import is a set of node types with their files and a set of edge types with theirs. Most graphs have one type of
each, `node` and `node__to__node`; `ImportRequest.of_one_type` makes these, and `schema` makes the others from YAML.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from graphprep.core.splits import SplitRule
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, Duplicates, EdgeType, SelfLoops, Treatment
from graphprep.datasets.formats.text_dialect import given_delimiter
from graphprep.datasets.importing.edges.edge_columns import NO_COLUMNS, RequestedColumns
from graphprep.datasets.importing.edges.edge_file import EdgeOptions, IdKind
from graphprep.datasets.importing.edges.edge_formats import Format, format_of
from graphprep.datasets.importing.node_files import NodeFiles
from graphprep.errors import UsageError

_OF_SPLITS = ("seed", "splits")
_OF_COLUMNS = ("source", "target", "weight", "time")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    """All that a graph is made from."""

    nodes: Mapping[str, NodeFiles]
    edges: tuple[EdgeFiles, ...]
    ids: IdKind = "auto"
    treatment: Treatment = field(default_factory=Treatment)
    split: SplitRule = field(default_factory=SplitRule)

    @classmethod
    def of_one_type(
        cls,
        edges: tuple[Path, ...],
        *,
        format: Format = "auto",
        ids: IdKind = "auto",
        weights: bool = False,
        edge_times: bool = False,
        header: bool | None = None,
        delimiter: str | None = None,
        columns: RequestedColumns = NO_COLUMNS,
        node_header: bool | None = None,
        node_delimiter: str | None = None,
        undirected: bool = False,
        duplicates: Duplicates = "keep",
        self_loops: SelfLoops = "keep",
        split: SplitRule | None = None,
        **nodes: Any,
    ) -> ImportRequest:
        """A graph with one node type and one edge type; `nodes` are the fields of NodeFiles.

        Without a `split` it is SplitRule().

        Raises:
            UsageError: no file of edges is named.
        """
        if not edges:
            raise UsageError("name at least one file of edges, or --schema FILE")
        return cls(
            nodes={HOMOGENEOUS_NODE: NodeFiles(header=node_header, delimiter=node_delimiter, **nodes)},
            edges=(
                EdgeFiles(
                    type=HOMOGENEOUS_EDGE,
                    paths=tuple(edges),
                    format=format,
                    options=EdgeOptions.of_columns(
                        columns, weights=weights, times=edge_times, header=header, delimiter=delimiter
                    ),
                ),
            ),
            ids=ids,
            treatment=Treatment(undirected=undirected, duplicates=duplicates, self_loops=self_loops),
            split=split or SplitRule(),
        )

    def files(self) -> list[tuple[str, Path]]:
        """Every file with its role, in a fixed order."""
        alone = set(self.nodes) == {HOMOGENEOUS_NODE} and [part.type for part in self.edges] == [HOMOGENEOUS_EDGE]
        files: list[tuple[str, Path]] = []
        for part in self.edges:
            files += [("edges" if alone else f"{part.type.key} edges", path) for path in part.paths]
        for name, node_files in self.nodes.items():
            files += [(role if alone else f"{name} {role}", path) for role, path in node_files.files()]
        return files

    def to_json(self) -> dict[str, object]:
        """All but the files' places, which do not change the graph: their roles and kinds stand for them."""
        edges = {
            part.type.key: {
                **{name: getattr(part.options, name) for name in ("weights", "times", "header", "delimiter")},
                "columns": asdict(part.options.columns),
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


def request_of(paths: tuple[Path, ...], schema: Path | None, options: Mapping[str, Any]) -> ImportRequest:
    """What a person asks to import: files of one node and one edge type, or a schema.

    Args:
        paths: files of edges; none beside a schema.
        schema: YAML.
        options: of `ImportRequest.of_one_type`, but with `seed` and `splits` in place of the whole rule, `source`,
            `target`, `weight` and `time` in place of `columns`, and delimiters by name; beside a schema only the first
            two, where its file says nothing of splits.

    Raises:
        UsageError: both or neither, or an option that the schema should say.
        DatasetError: the schema is wrong.
    """
    split = SplitRule(**{name: options[name] for name in _OF_SPLITS if name in options})
    others = {name: value for name, value in options.items() if name not in _OF_SPLITS}
    others = {**others, **_delimiters(others)}
    if schema is None:
        columns = RequestedColumns(**{column: others.pop(column, None) for column in _OF_COLUMNS})
        return ImportRequest.of_one_type(paths, split=split, columns=columns, **others)
    if paths:
        raise UsageError(f"{paths[0]} and --schema cannot be given together; name all files in {schema}")
    from graphprep.datasets.importing.schema import load_schema

    for name, value in others.items():
        if value not in (None, False, "auto", "keep", ()):
            raise UsageError(f"{name.replace('_', '-')} cannot be given beside --schema; write it in {schema}")
    return load_schema(schema, split)


def _delimiters(options: Mapping[str, Any]) -> dict[str, str]:
    """Delimiters as characters."""
    characters = {}
    for name in ("delimiter", "node_delimiter"):
        if options.get(name) is not None:
            try:
                characters[name] = given_delimiter(options[name])
            except ValueError as problem:
                raise UsageError(f"--{name.replace('_', '-')}: {problem}") from problem
    return characters
