"""The edges of one type: scanned once for their ids, then streamed with ids as rows, as often as needed.

What took parsing is kept (`spool`), what is an array stays where it is. Where other processes can do the reading, and
all files can be read by sections, each of these is read where it is wanted, twice, and nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import EdgeChunk, EdgeTable, EdgeType, Ids, Treatment
from graphprep.datasets.formats.edge_weights import Rounded, as_float32, rounded_in, say_rounded
from graphprep.datasets.importing.edge_sections import FileSections
from graphprep.datasets.importing.edges.edge_file import EdgeFile, Words
from graphprep.datasets.importing.node_ids import NodeIds, UnknownNodeError
from graphprep.datasets.importing.spool import Column, Spool
from graphprep.errors import DatasetError
from graphprep.system import progress
from graphprep.system.executor import Executor

Array = NDArray[Any]
Run = tuple[Array, Array, NDArray[np.float32] | None]
"""codes of sources and destinations, and weights"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedEdges:
    """The files of one edge type, opened."""

    type: EdgeType
    files: Sequence[EdgeFile]
    treatment: Treatment | None = None
    """None: that of the graph"""
    reverse: str | None = None
    """the relation of a second type that has these edges the other way round; None for no such type"""
    times: bool = False
    """whether the files give times"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedEdges:
    """The edges of one type after they have been seen once."""

    typed: TypedEdges
    runs: Sequence[Callable[[], Iterator[Run]]]
    """one a file"""
    kept: Sequence[Column]
    """what the runs are read from, where it is not the files themselves"""
    num_edges: int
    arrays: Mapping[str, Array]
    """times and others, one row an edge"""
    sections: FileSections | None = None
    """what is read in place of the runs"""
    counts: Sequence[int] = ()
    """edges in each section"""

    def tables(self, ids: Mapping[str, NodeIds]) -> Iterator[EdgeTable]:
        """The edge type, and the one with its edges reversed if there is to be one; ids must be closed."""
        forward, reverse = self.typed.type, self.typed.reverse
        types = [(forward, False)]
        if reverse is not None:
            types.append((EdgeType(forward.destination, reverse, forward.source), True))
        for edge_type, turned in types:
            if self.sections is not None:
                stream = self.sections.stream(self.counts, ids[forward.source], ids[forward.destination], turned=turned)
                yield EdgeTable.of_sections(edge_type, stream, self.typed.treatment)
                continue
            last = edge_type is types[-1][0]
            yield EdgeTable(
                type=edge_type,
                chunks=partial(_chunks, self.runs, ids[forward.source], ids[forward.destination], turned),
                release=self._release if last else _nothing,
                num_edges=self.num_edges,
                attributes=self.arrays,
                treatment=self.typed.treatment,
            )

    def _release(self) -> None:
        for column in self.kept:
            column.release()


def scan(
    typed: TypedEdges, ids: Mapping[str, NodeIds], spool: Spool, task: progress.Task, executor: Executor | None = None
) -> ScannedEdges:
    """Read all files of one type once.

    Args:
        typed: the files.
        ids: by node type; they take in the ids that occur.
        spool: where parsed edges are kept.
        task: advanced by the number of edges.
        executor: reads them, if its workers are other processes and the files and ids are for it; None to read here.

    Raises:
        DatasetError: a file is damaged, or has an edge that cannot be.
    """
    sources, destinations = ids[typed.type.source], ids[typed.type.destination]
    if (
        executor is not None
        and executor.is_elsewhere
        and (scanned := _scanned_elsewhere(typed, sources, destinations, task, executor))
    ):
        return scanned
    runs: list[Callable[[], Iterator[Run]]] = []
    columns: list[Column] = []
    times, num_edges = Column(spool), 0
    for file in typed.files:
        rounded: list[Rounded] = []
        kept = None if file.read_again else (Column(spool), Column(spool), Column(spool))
        columns += kept or ()
        for run in file.rows():
            src = codes_of(file, "source", run.src, sources)
            dst = codes_of(file, "destination", run.dst, destinations)
            if kept is not None:
                kept[0].add_ids(src)
                kept[1].add_ids(dst)
                if run.weight is not None:
                    kept[2].add(as_float32(run.weight))
            rounded.append(rounded_in(run.weight))
            if run.time is not None:
                times.add(run.time)
            num_edges += len(src)
            task.advance(len(src))
        say_rounded(file.path, rounded)
        runs.append(partial(_again, file) if kept is None else partial(_kept, *kept))
    arrays = {"time": times.whole()} if typed.times else {}
    for file in typed.files:
        arrays |= file.edge_arrays()
    return ScannedEdges(typed=typed, runs=runs, kept=columns, num_edges=num_edges, arrays=arrays)


def codes_of(file: EdgeFile, end: Literal["source", "destination"], ids: Ids | Words, known: NodeIds) -> Ids:
    """The numbers to keep for one end of a run of edges; an error begins with the place, or the file."""
    try:
        return known.codes(ids)
    except DatasetError as problem:
        place = file.place_of(end, problem.position) if isinstance(problem, UnknownNodeError) else ""
        raise DatasetError(f"{place or f'{file.path} cannot be used'}: {problem}") from problem


def _scanned_elsewhere(
    typed: TypedEdges, sources: NodeIds, destinations: NodeIds, task: progress.Task, executor: Executor
) -> ScannedEdges | None:
    """What an executor's workers have seen; None where the files have to be read here."""
    if typed.times:  # which are wanted in one array
        return None
    try:
        sections = FileSections.of(typed.files)
        if sections is None:
            return None
        counts: list[int] = []
        rounded: list[list[Rounded]] = [[] for _ in typed.files]
        for place, section in zip(sections.places, sections.scan(executor, sources, destinations), strict=True):
            rounded[place.file].append(section.rounded)
            for ids, id_set in ((sources, section.sources), (destinations, section.destinations)):
                if id_set is not None:
                    ids.join(id_set)
            counts.append(section.edges)
            task.advance(section.edges)
    except DatasetError as problem:
        progress.warn(f"the edges {typed.type.key} are read by this process alone, as a worker could not: {problem}")
        return None
    for file, of_sections in zip(typed.files, rounded, strict=True):
        say_rounded(file.path, of_sections)
    return ScannedEdges(
        typed=typed, runs=(), kept=(), num_edges=sum(counts), arrays={}, sections=sections, counts=counts
    )


def _nothing() -> None:
    """Nothing is kept, or another table still needs it."""


def _kept(src: Column, dst: Column, weight: Column) -> Iterator[Run]:
    weights = weight.runs() if weight.length else None
    for one, other in zip(src.runs(), dst.runs(), strict=True):
        yield one, other, None if weights is None else next(weights)


def _again(file: EdgeFile) -> Iterator[Run]:
    for run in file.rows():
        yield *run.number_ids(), None if run.weight is None else as_float32(run.weight)


def _chunks(
    runs: Sequence[Callable[[], Iterator[Run]]], sources: NodeIds, destinations: NodeIds, turned: bool
) -> Iterator[EdgeChunk]:
    for of_file in runs:
        for src, dst, weight in of_file():
            one, other = sources.rows(src), destinations.rows(dst)
            if one.dtype != other.dtype:  # rows of one type, and numbers that a table of the other lists
                one, other = one.astype(np.int64), other.astype(np.int64)
            yield EdgeChunk(other, one, weight) if turned else EdgeChunk(one, other, weight)
