"""Sort the edges of one type into CSR: in memory where they fit, else by an external sort with the same result.

Memory is counted in records (an edge, or the reverse edge that is added). `--memory` limits the whole process, so its
resident memory is subtracted first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphprep.core import csr
from graphprep.core.csr import EdgeCounts, TreatmentRules
from graphprep.core.csr_pieces import EdgePieces
from graphprep.core.types import Csr, EdgeChunk, EdgeTable, EdgeType, Treatment
from graphprep.errors import DatasetError
from graphprep.store.external_sort import ExternalSort
from graphprep.system import memory, progress
from graphprep.system.executor import Executor, Threads

BYTES_PER_EDGE = 40
"""Peak of an in-memory sort: ids as given (up to 16) and records (up to 8), then records and sorted keys (up to 8),
then those and the result (4); weights and numbers of edges add up to 16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedEdges:
    """A CSR that is read from front to back in pieces, each a range of rows."""

    type: EdgeType
    num_rows: int
    num_sources: int
    counts: EdgeCounts
    weighted: bool
    symmetric: bool
    """whether every edge has its reverse of equal weight"""
    pieces: Callable[[], Iterator[Csr]]
    """row ranges in order; each piece's indptr starts at 0"""
    arrays: EdgePieces
    """the same, any range of entries of an array by itself"""
    attributes: dict[str, NDArray[np.generic]]
    """[E given, ...] in the stream's order; the pieces' edge_number says which row belongs to an edge"""


def sort_table(
    table: EdgeTable,
    *,
    num_rows: int,
    num_sources: int,
    treatment: Treatment,
    limit: int | None,
    work: Path,
    executor: Executor | None = None,
) -> SortedEdges:
    """Sort and treat the edges of one type.

    Args:
        table: the stream of edges and their attributes.
        num_rows: destination nodes.
        num_sources: source nodes.
        treatment: what to do about reverses, duplicates and self-loops.
        limit: bytes that the process may use; None for half of the free memory.
        work: folder for spilled edges, of this table and this treatment alone; finished files of an earlier run are
            reused, and it has to exist until the pieces have been read.
        executor: reads what has sections and does not fit in memory, and sorts it; None for threads. Its workers reach
            `work`, and what they read, under the same path.

    Raises:
        DatasetError: an id is out of range, the treatment does not suit the types, or it leaves open which of two
            weights an edge has.
    """
    name = table.type.key
    rules = TreatmentRules.of(treatment, square=table.type.source == table.type.destination, name=name)
    numbered = bool(table.attributes)
    budget = memory.budget(limit)
    executor = executor or Threads(memory_limit=limit)
    external = ExternalSort(
        work, num_rows=num_rows, num_sources=num_sources, rules=rules, numbered=numbered, budget=budget, name=name
    )
    if not external.holds_all_edges:
        kept = _read_into_memory(table, external, budget, 2 if rules.undirected else 1, executor)
        if kept is not None:
            with progress.task(f"sorting edges {name}"):
                matrix, counts = csr.from_edges(
                    _consumed(kept),
                    num_rows=num_rows,
                    num_sources=num_sources,
                    treatment=treatment,
                    name=name,
                    square=rules.square,
                    numbered=numbered,
                )
            _check_attributes(table, counts.given)
            _say_how_summed(name, rules, counts)
            return SortedEdges(
                type=table.type,
                num_rows=num_rows,
                num_sources=num_sources,
                counts=counts,
                weighted=matrix.data is not None,
                symmetric=rules.square and csr.is_symmetric(matrix),
                pieces=lambda: iter((matrix,)),
                arrays=EdgePieces.of(lambda _: matrix, [num_rows], [matrix.num_edges], in_files=False),
                attributes=dict(table.attributes),
            )
    summary = external.sort_ranges(executor)
    _check_attributes(table, summary.counts.given)
    _say_how_summed(name, rules, summary.counts)
    return SortedEdges(
        type=table.type,
        num_rows=num_rows,
        num_sources=num_sources,
        counts=summary.counts,
        weighted=summary.weighted,
        symmetric=rules.square and summary.fingerprint == 0,
        pieces=external.pieces,
        arrays=EdgePieces.of(
            external.piece,
            [external.rows_of(number)[1] for number in range(external.runs.num_ranges)],
            summary.edges_by_range,
            in_files=True,
        ),
        attributes=dict(table.attributes),
    )


def _read_into_memory(
    table: EdgeTable, external: ExternalSort, budget: int, records_per_edge: int, executor: Executor
) -> list[EdgeChunk] | None:
    """The chunks, if they can be sorted in memory; None if they were written to the disk."""
    fits = budget // (BYTES_PER_EDGE * records_per_edge)
    if table.sections is not None and sum(table.sections.counts) > fits:
        external.add_sections(table.sections, executor)
        table.release()
        return None
    if table.num_edges is not None and table.num_edges > fits:
        fits = 0
    kept: list[EdgeChunk] = []
    with progress.task(f"reading edges {table.type.key}", total=table.num_edges, unit="edges") as task:
        chunks = _with_progress(table.chunks(), task)
        count = 0
        for chunk in chunks:
            kept.append(chunk)
            count += len(chunk.src)
            if count > fits:
                external.add(chain(_consumed(kept), chunks))
                break
    table.release()
    return None if external.holds_all_edges else kept


def _with_progress(chunks: Iterator[EdgeChunk], task: progress.Task) -> Iterator[EdgeChunk]:
    """The chunks, with progress."""
    for chunk in chunks:
        task.advance(len(chunk.src))
        yield chunk


def _consumed(chunks: list[EdgeChunk]) -> Iterator[EdgeChunk]:
    """The chunks in order; the list is emptied."""
    chunks.reverse()
    while chunks:
        yield chunks.pop()


def _say_how_summed(name: str, rules: TreatmentRules, counts: EdgeCounts) -> None:
    """Say which parallel edges a sum of weights includes, where that may surprise."""
    if rules.sums_both_ways and counts.listed_both_ways:
        progress.say(
            f"edges {name}: all {counts.listed_both_ways:,} edges are listed in both directions with equal weights, so "
            "each pair of them is one undirected edge, and sums count it once"
        )
    elif rules.sums_both_ways and counts.given > counts.self_loops_found:
        progress.say(
            f"edges {name}: not every edge is listed in both directions with equal weights, so each line is an "
            "undirected edge of its own, and sums are over the lines of both directions"
        )
    if counts.sums_rounded:
        progress.warn(
            f"edges {name}: {counts.sums_rounded:,} sums of weights are whole numbers above 2^24 that float32 rounds"
        )


def _check_attributes(table: EdgeTable, given: int) -> None:
    for name, rows in table.attributes.items():
        if len(rows) != given:
            raise DatasetError(
                f"edges {table.type.key}: {name} has {len(rows)} rows for {given} edges; they must agree, in one order"
            )
