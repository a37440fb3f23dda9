"""One file of edges, whatever its format: what every format gives, and which format a file has.

A format is a class with `rows()`: runs of edges in the file's order, with the ids as the file has them. Ids are numbers
from 0, or words; a format that counts from 1 (METIS, MatrixMarket) counts from 0 here. Formats that say how many nodes
there are give `num_sources` and `num_destinations`; some bring arrays of the nodes too.

The format is told by the ending of the name, before .gz or .zst: .mtx, .graph, .npy, .npz, .parquet, .pt, .graphml,
.gexf, .gml, .paj, .json, .dimacs; of other names (.net, .gr, .col too) by the first bytes (`format_beginnings`), and
what these do not show is text. What text is given under a wrong name is noticed by its first bytes and named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import Ids
from graphprep.datasets.formats.edge_weights import Weights
from graphprep.datasets.formats.magic_bytes import format_by_beginning
from graphprep.datasets.formats.text_file import unpacked_name
from graphprep.datasets.importing.edges.edge_columns import NONE_GIVEN, GivenColumns
from graphprep.datasets.importing.options import Format, IdKind
from graphprep.errors import UsageError

FORMATS: tuple[Format, ...] = get_args(Format)
ENDINGS: dict[str, Format] = {
    ".graph": "metis",
    ".mgraph": "metis",
    ".metis": "metis",
    ".mtx": "mtx",
    ".mm": "mtx",
    ".npy": "npy",
    ".npz": "npz",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".pt": "pyg",
    ".pth": "pyg",
    ".graphml": "graphml",
    ".gexf": "gexf",
    ".gml": "gml",
    ".paj": "pajek",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".dimacs": "dimacs",
}
DOCUMENTS: tuple[Format, ...] = ("graphml", "gexf", "gml", "pajek", "json")
"""files that hold a graph with its nodes' ids and attributes, read by `graph_document`"""
WHOLE_GRAPH: tuple[Format, ...] = ("pyg", *DOCUMENTS)
"""files that are a whole graph, read by `saved_pyg` or `graph_document` and not as an EdgeFile"""


class Words(NamedTuple):
    """Ids that are words, as a dictionary of a run: edge e has words[codes[e]]. A word may be there twice."""

    codes: NDArray[np.integer[Any]]
    words: list[str]


class EdgeRows(NamedTuple):
    """A run of edges as a file has them; every array has one entry an edge."""

    src: Ids | Words
    dst: Ids | Words
    weight: Weights | None = None
    """as the file has them, and finite in float32"""
    time: NDArray[np.int64] | NDArray[np.float64] | None = None

    @property
    def num_edges(self) -> int:
        return len(self.src.codes if isinstance(self.src, Words) else self.src)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to read of a file of edges."""

    weights: bool = False
    """whether the edges' weights are read; else they are ignored"""
    times: bool = False
    """likewise"""
    ids: IdKind = "auto"
    """"auto": words only where the file's own types say so (Parquet)"""
    header: bool | None = None
    """of text: whether the first line names the columns; None: told as `text_dialect` says"""
    delimiter: str | None = None
    """of text: what stands between fields, a space for blanks; None: told as `text_dialect` says"""
    columns: GivenColumns = NONE_GIVEN
    """of text and Parquet: which columns hold what, where a person says it"""
    one_type: bool = True
    """whether sources and destinations are nodes of one type, so that one id is one node"""
    num_sources: int | None = None
    """ids of sources from here on are errors with their place, where the format can tell it; None: no limit known"""
    num_destinations: int | None = None


FileRange = tuple[int, int]
"""first and end: of rows, groups of rows, or bytes, as the format has it"""


class EdgeFile(Protocol):
    """What a format gives. Making one looks at the file's beginning, or at all of it."""

    @property
    def path(self) -> Path: ...

    @property
    def num_sources(self) -> int | None:
        """How many there are, if the file says it; ids are then row numbers."""
        ...

    @property
    def num_destinations(self) -> int | None: ...

    @property
    def read_again(self) -> bool:
        """Whether to call rows() again costs no more than reading memory or a memory map."""
        ...

    @property
    def ignored(self) -> tuple[str, ...]:
        """What the file has and nobody asked for, in words: weights, column 3."""
        ...

    def read_as(self) -> str:
        """What was taken as what, for people: columns, names, what stands between fields, comments."""
        ...

    def rows(self) -> Iterator[EdgeRows]:
        """All edges in the file's order; can be used again.

        Raises:
            DatasetError: with its place, what is no edge; a damaged file.
        """
        ...

    def node_arrays(self) -> Mapping[str, NDArray[Any]]:
        """Arrays of one row a node that the file has, by their name in NodeTable (x, y, train_mask) or another."""
        ...


@runtime_checkable
class SectionedFile(EdgeFile, Protocol):
    """What a format gives whose edges can be read from the middle on. It can be sent to another process."""

    def sections(self) -> Sequence[FileRange]:
        """Ranges that follow each other and are all of the file; none where it has to be read from front to back."""
        ...

    def rows_of(self, section: FileRange) -> Iterator[EdgeRows]:
        """The edges of one of them. What is wrong with them is told as by `rows`, but for its place.

        Raises:
            DatasetError: what is no edge; a damaged file.
        """
        ...


def format_of(path: Path, given: Format = "auto") -> Format:
    """The format of a file: `given`, or by the ending of its name, or else by its first bytes if it is there."""
    if given != "auto":
        return given
    name = unpacked_name(path)
    by_name = next((format for ending, format in ENDINGS.items() if name.endswith(ending)), None)
    return by_name or format_by_beginning(path) or "text"


def open_edges(path: Path, format: Format, wanted: Wanted) -> EdgeFile:
    """Open one file of edges.

    Raises:
        DatasetError: it is not of this format, or is damaged.
        UsageError: the format cannot give what is wanted, or holds a whole graph.
    """
    found = format_of(path, format)
    if found not in ("text", "parquet") and (wanted.columns.any() or wanted.delimiter is not None):
        raise UsageError(f"{path}: the format {found} has no columns or delimiters that could be named")
    if wanted.ids == "words" and found not in ("text", "parquet"):
        raise UsageError(f"{path}: ids are numbers in the format {found}, so they cannot be words")
    match found:
        case "metis":
            from graphprep.datasets.importing.edges.metis_graph import MetisGraph

            return MetisGraph(path, wanted)
        case "mtx":
            from graphprep.datasets.importing.edges.matrix_market import MatrixMarket

            return MatrixMarket(path, wanted)
        case "npy" | "npz":
            from graphprep.datasets.importing.edges.numpy_edges import open_numpy

            return open_numpy(path, found, wanted)
        case "parquet":
            from graphprep.datasets.importing.edges.parquet_edges import ParquetEdges

            return ParquetEdges(path, wanted)
        case "dimacs":
            from graphprep.datasets.importing.edges.dimacs import Dimacs

            return Dimacs(path, wanted)
        case "pyg" | "graphml" | "gexf" | "gml" | "pajek" | "json":
            raise UsageError(f"{path} holds a whole graph ({found}); import it alone, without a schema")
        case _:
            from graphprep.datasets.importing.edges.edge_text import EdgeText

            return EdgeText(path, wanted)
