"""The protocol of a file of edges, whatever its format, and the options of its reading.

A format is a class with `rows()`: runs of edges in the file's order, with the ids as the file has them. Ids are numbers
from 0, or words; a format that counts from 1 (METIS, MatrixMarket) counts from 0 here. Formats that say how many nodes
there are give `num_sources` and `num_destinations`; some bring arrays of the nodes too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import Ids
from graphprep.datasets.formats.edge_weights import Weights
from graphprep.datasets.importing.edges.edge_columns import NO_COLUMNS, RequestedColumns
from graphprep.datasets.importing.options import IdKind


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

    def number_ids(self) -> tuple[Ids, Ids]:
        """Both ends, of a file whose ids are numbers."""
        if isinstance(self.src, Words) or isinstance(self.dst, Words):
            raise TypeError("words are kept as codes, and not read again")
        return self.src, self.dst


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeOptions:
    """What to read of a file of edges."""

    weights: bool = False
    """whether the edges' weights are read; else they are ignored"""
    times: bool = False
    """likewise"""
    ids: IdKind = "auto"
    """"auto": words only where the file's own types say so (Parquet)"""
    header: bool | None = None
    """of text: whether the first line names the columns; None: as `text_dialect` finds"""
    delimiter: str | None = None
    """of text: what stands between fields, a space for blanks; None: as `text_dialect` finds"""
    columns: RequestedColumns = NO_COLUMNS
    """of text and Parquet: which columns hold what, where a person says it"""
    one_type: bool = True
    """whether sources and destinations are nodes of one type, so that one id is one node"""
    num_sources: int | None = None
    """ids of sources from here on are errors with their place, where the format can tell it; None: no limit known"""
    num_destinations: int | None = None

    @classmethod
    def of_columns(cls, columns: RequestedColumns, *, weights: bool, times: bool, **others: Any) -> Self:
        """Options in which a column of weights or times that is named is also read."""
        weights, times = weights or columns.weight is not None, times or columns.time is not None
        return cls(weights=weights, times=times, columns=columns, **others)


FileRange = tuple[int, int]
"""first and end: of rows, groups of rows, or bytes, as the format has it"""


class EdgeFile(Protocol):
    """What a format gives. Making one looks at the file's beginning, or at all of it."""

    path: Path
    num_sources: int | None = None
    """how many there are, if the file says it; ids are then row numbers"""
    num_destinations: int | None = None
    read_again: bool = False
    """whether to call rows() again costs no more than reading memory or a memory map"""
    ignored: tuple[str, ...] = ()
    """what the file has and was not requested, in words: weights, column 3"""

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
        return {}

    def edge_arrays(self) -> Mapping[str, NDArray[Any]]:
        """Further arrays of one row an edge, by their name in EdgeTable; known when all `rows` have been read."""
        return {}

    def described(self) -> Mapping[str, object]:
        """What the store's attributes say of these: `classes` and `features`."""
        return {}

    def place_of(self, end: Literal["source", "destination"], position: int) -> str:  # noqa: ARG002
        """Where an end of an edge of the last run of `rows` is, for messages; empty where the format cannot tell it."""
        return ""


@runtime_checkable
class SectionedFile(EdgeFile, Protocol):
    """What a format gives whose edges can be read from the middle on. It can be sent to another process."""

    def sections(self) -> Sequence[FileRange]:
        """Ranges that follow each other and are all of the file; none where it has to be read from front to back."""
        ...

    def rows_of(self, section: FileRange) -> Iterator[EdgeRows]:
        """The edges of one of them. Errors are those of `rows`, but for their place.

        Raises:
            DatasetError: what is no edge; a damaged file.
        """
        ...
