"""The values that pass from room to room: node tables, edge streams, CSR matrices.

Letters: N nodes, E directed edges, F features, C classes, S splits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from graphprep.core.choices import Duplicates, SelfLoops
from graphprep.errors import UsageError

HOMOGENEOUS_NODE = "node"


class EdgeType(NamedTuple):
    """One relation: edges of this type run from `source` nodes to `destination` nodes."""

    source: str
    relation: str
    destination: str

    @property
    def key(self) -> str:
        """The name of this type's group in stores and caches."""
        return f"{self.source}__{self.relation}__{self.destination}"

    @classmethod
    def from_key(cls, key: str) -> EdgeType:
        return cls(*key.split("__"))


HOMOGENEOUS_EDGE = EdgeType(HOMOGENEOUS_NODE, "to", HOMOGENEOUS_NODE)


Ids = NDArray[np.signedinteger[Any]]
"""Node numbers on their way, int32 or int64 as the reader had them."""


class EdgeChunk(NamedTuple):
    """A run of edges: src and dst int32 or int64 [E'], weight float32 [E'] or None for weight 1."""

    src: Ids
    dst: Ids
    weight: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTable:
    """The nodes of one type. Arrays have one row a node, in the dataset's own order.

    Arrays may be memory maps: they are written in row ranges, so features need not fit in memory.
    """

    num_nodes: int
    x: NDArray[np.generic] | None = None
    """[N, F], any float or integer dtype."""
    y: NDArray[np.generic] | None = None
    """int64 [N] with -1 for unlabelled, or bool/float [N, C] for several labels a node."""
    train_mask: NDArray[np.bool_] | None = None
    """bool [N, S], as are the two below."""
    val_mask: NDArray[np.bool_] | None = None
    test_mask: NDArray[np.bool_] | None = None
    original_id: NDArray[np.int64] | NDArray[Any] | None = None
    """[N]: the ids of the source file where they were not 0 .. N-1: numbers, or words in NumPy's StringDType."""
    more: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    """Further arrays of N rows by name: time, year, ..."""

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays of N numbers or rows that are present, by their name in the store. Words are not among them."""
        names = ("x", "y", "train_mask", "val_mask", "test_mask", "original_id")
        present = {name: array for name in names if (array := getattr(self, name)) is not None}
        return {name: array for name, array in {**present, **self.more}.items() if array.dtype.kind not in "UT"}


def unchecked() -> None:
    """There is nothing that could have changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSections:
    """A stream of edges in sections, each of which can be read without those before it, and by another process."""

    counts: Sequence[int]
    """edges in each section; the most that there may be unless it is `exact`"""
    exact: bool = True
    read: Callable[..., Iterator[EdgeChunk]]
    """called with a section's number and then what is shared; a function of a module"""
    shared: tuple[object, ...] = ()
    """what all sections have in common; can be pickled"""
    check: Callable[[], None] = unchecked
    """called when all sections have been read; raises a DatasetError if it was not all from the same stream"""

    def chunks(self) -> Iterator[EdgeChunk]:
        """All sections, one after the other."""
        for number in range(len(self.counts)):
            yield from self.read(number, *self.shared)
        self.check()


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeTable:
    """The edges of one type, as a stream that can be read more than once, until it is released."""

    type: EdgeType
    chunks: Callable[[], Iterator[EdgeChunk]]
    sections: EdgeSections | None = None
    """the same stream, where it can be read by sections"""
    release: Callable[[], None] = lambda: None
    """Gives back what was kept for the stream; chunks that have been read stay valid."""
    num_edges: int | None = None
    """How many edges the stream will give, where that is known before it is read."""
    attributes: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    """Edge features, times and the like by name: arrays (or memory maps) of one row an edge, in the stream's order."""
    treatment: Treatment | None = None
    """What is done to the edges of this type; None: what the graph says."""

    @classmethod
    def of_sections(cls, edge_type: EdgeType, sections: EdgeSections, treatment: Treatment | None = None) -> EdgeTable:
        """A table whose stream is read by sections."""
        return cls(
            type=edge_type,
            chunks=sections.chunks,
            sections=sections,
            num_edges=sum(sections.counts),
            treatment=treatment,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """What is done to the edges as they become CSR."""

    undirected: bool = False
    """Add the reverse of every edge that has none; parallel edges get as many reverses as they lack. A reverse has the
    weight of its edge, so an edge whose reverse is listed with another weight is an error unless `duplicates` makes one
    weight of both."""
    duplicates: Duplicates = "keep"
    """What becomes of parallel edges: `keep` leaves them; the others make one edge of them, in an undirected graph of
    those of both directions. `drop` is for copies of equal weight, and different weights are an error; `max`, `min` and
    `mean` are over all of them. `sum` adds the weights of all lines, also of both directions, unless the whole list has
    every edge in both directions with equal weights: then a pair of lines is one edge and counts once. The order of the
    edges does not matter, but for attributes (times and the like): those of the first one count."""
    self_loops: SelfLoops = "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class RawGraph:
    """What every source reader returns."""

    nodes: Mapping[str, NodeTable]
    edges: tuple[EdgeTable, ...]
    treatment: Treatment = field(default_factory=Treatment)
    notes: Mapping[str, object] = field(default_factory=dict)
    """Facts about the data for the store's attributes: how a split was drawn, which protocol it follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Csr:
    """In-edges by destination row; columns are source nodes, ascending within a row."""

    indptr: NDArray[np.int64]
    """int64 [N_dst + 1]"""
    indices: NDArray[np.integer[Any]]
    """[E]; int32 while there are fewer than 2^31 source nodes"""
    num_sources: int
    data: NDArray[np.float32] | None = None
    """float32 [E]; None where every edge weighs 1"""
    edge_number: NDArray[np.int64] | None = None
    """int64 [E]: which edge of the source's stream each one is (for a reverse: its edge; for one made of several: the
    first of them), -1 for an added self-loop; None if it is not needed"""

    @property
    def num_rows(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        return len(self.indices)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedGraph:
    """A graph, or one part of it with its halo, in memory, on its way to another library."""

    num_nodes: Mapping[str, int]
    """by node type"""
    nodes: Mapping[str, Mapping[str, NDArray[Any]]]
    """by node type and name: arrays of one row a node"""
    edges: Mapping[EdgeType, Csr]
    """A part has rows for its own nodes only, and these are its first nodes."""
    edge_arrays: Mapping[EdgeType, Mapping[str, NDArray[Any]]]
    """by edge type and name: arrays of one row an edge, in CSR order"""

    @property
    def is_homogeneous(self) -> bool:
        """Whether it has one node type and one edge type, by the names of those."""
        return list(self.num_nodes) == [HOMOGENEOUS_NODE] and list(self.edges) == [HOMOGENEOUS_EDGE]


class Rows(Protocol):
    """An array of which ranges of rows can be read."""

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, rows: slice, /) -> Any: ...


def row_bytes(rows: Rows) -> int:
    """Bytes of one row, at least 1."""
    return max(1, rows.dtype.itemsize * math.prod(rows.shape[1:]))


def chosen_edge_type(known: Iterable[EdgeType], requested: Sequence[str] | str | None) -> EdgeType:
    """The edge type that a person means by its key, by (source, relation, destination), or by nothing if there is one.

    Raises:
        UsageError: there is none of that name, or several and none was named.
    """
    known = list(known)
    if requested is None and len(known) == 1:
        return known[0]
    for edge_type in known:
        if requested == edge_type.key or (
            isinstance(requested, Sequence) and not isinstance(requested, str) and tuple(requested) == edge_type
        ):
            return edge_type
    problem = "there are several edge types" if requested is None else f"there is no edge type {requested!r}"
    raise UsageError(f"{problem}; give edge_type, one of {', '.join(edge_type.key for edge_type in known)}")
