"""Sorted runs of the external sort: files of edge records, grouped by ranges of destination rows.

A stream is read section by section (a stream without sections is one section), by this process or by workers, and a
section becomes one run or a few. Nothing is appended to, so any process can read a section again, and a finished one is
kept: after a kill the next command continues with the sections that are missing. (Runs: Knuth, The Art of Computer
Programming, volume 3, external sorting.)

    <section>.<i>.run    .npz, uncompressed: starts int64 [ranges + 1], record int64 [R], weight float32 [R] and number
                         int64 [R] where there are any; records keep their order within a range
    <section>.json       its `Section`, written when its runs are on the disk

Letters: R records of a run: edges, and their reverses if the graph becomes undirected.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core import csr
from graphprep.core.types import EdgeChunk, EdgeSections
from graphprep.errors import DatasetError
from graphprep.system.files.atomic import fsync_path, published_file
from graphprep.system.files.mapped_npz import mapped_npz
from graphprep.system.payload import SharedPayload

MOST_EDGES = 1 << 22
"""of a run, beyond the chunk that fills it: long enough that what a range takes of it is read in one go"""
LEAST_EDGES = 1 << 16
BYTES_PER_EDGE = 48
"""Peak while a run is made: ids as given (16), records (8), the same as they are written (8), positions of weights or
numbers (8), and those (8); reverses double all but the first."""
COLUMNS: dict[str, np.dtype[Any]] = {
    "record": np.dtype(np.int64),
    "weight": np.dtype(np.float32),
    "number": np.dtype(np.int64),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The counts of a finished section."""

    edges: int
    weighted: bool
    runs: int
    """files"""
    records: list[int]
    """by range"""
    fingerprint: int
    """modulo 2^64; 0 summed over all sections if every edge is listed in both directions; 0 if not computed"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeRuns:
    """The runs of one edge type; can be pickled for worker processes."""

    folder: Path
    """an existing one, of these edges and this treatment alone"""
    name: str
    """of the edge type, for messages"""
    num_rows: int
    num_sources: int
    range_bits: int
    """a range has 2^range_bits rows"""
    undirected: bool
    """whether reverse edges are added"""
    fingerprinted: bool
    """whether to compute the fingerprint, by which a list of every edge in both directions is recognised"""
    numbered: bool
    """whether edge numbers are kept"""
    budget: int | None
    """bytes that this process may use; None for no limit"""

    @property
    def num_ranges(self) -> int:
        return csr.bucket_count(self.num_rows, self.range_bits)

    @property
    def edges_a_run(self) -> int:
        """The edges that fit in a quarter of the memory budget, within limits."""
        if self.budget is None:
            return MOST_EDGES
        fits = self.budget // (4 * BYTES_PER_EDGE * (2 if self.undirected else 1))
        return min(MOST_EDGES, max(LEAST_EDGES, fits))

    def write(
        self, number: int, first_edge: int, chunks: Iterable[EdgeChunk], *, expected: int | None = None
    ) -> Section:
        """Write the runs of a section.

        Args:
            number: of the section.
            first_edge: the number of its first edge in the whole stream.
            chunks: its edges, read once.
            expected: their number; None if it is not known.

        Raises:
            DatasetError: an id is out of range, some edges have weights and some have none, or they are not as many.
        """
        records = np.zeros(self.num_ranges, np.int64)
        edges = runs = fingerprint = 0
        weighted: bool | None = None
        for gathered in _gathered(chunks, self.edges_a_run):
            for chunk in gathered:
                weighted = chunk.weight is not None if weighted is None else weighted
                csr.require_same_weights(weighted, chunk, self.name)
                fingerprint += csr.edges_fingerprint(chunk) if self.fingerprinted else 0
            count = sum(len(chunk.src) for chunk in gathered)
            records += self._write_run(self._file(number, runs), first_edge + edges, gathered)
            edges, runs = edges + count, runs + 1
        if expected is not None and edges != expected:
            raise DatasetError(
                f"edges {self.name}: {edges:,} edges where there were {expected:,}; a file has changed while it was "
                "being read, run the same again"
            )
        for run in range(runs):
            fsync_path(self._file(number, run))
        section = Section(
            edges=edges,
            weighted=bool(weighted),
            runs=runs,
            records=records.tolist(),
            fingerprint=fingerprint % 2**64,
        )
        with published_file(self._mark(number), shared=True) as file:
            file.write(json.dumps(asdict(section)).encode())
        return section

    def found(self, number: int) -> Section | None:
        """The counts of a section, None if it is not finished."""
        mark = self._mark(number)
        return Section(**json.loads(mark.read_text())) if mark.exists() else None

    def range_records(self, runs: Sequence[int], number: int, count: int) -> dict[str, NDArray[Any]]:
        """The records of one range from all runs, in the order of the stream.

        Args:
            runs: files of each section.
            number: of the range.
            count: its records.

        Returns:
            record, weight and number, as far as there are any, [count].
        """
        found: dict[str, NDArray[Any]] = {}
        at = 0
        for arrays in self._all(runs):
            start, stop = (int(bound) for bound in arrays["starts"][number : number + 2])
            for column in COLUMNS.keys() & arrays.keys():
                if column not in found:
                    found[column] = np.empty(count, COLUMNS[column])
                found[column][at : at + stop - start] = arrays[column][start:stop]
            at += stop - start
        return found

    def remove(self, runs: Sequence[int]) -> None:
        """Remove all runs."""
        for number, count in enumerate(runs):
            self._mark(number).unlink(missing_ok=True)
            for run in range(count):
                self._file(number, run).unlink(missing_ok=True)

    def _write_run(self, path: Path, first_edge: int, chunks: list[EdgeChunk]) -> NDArray[np.int64]:
        """Write a run and give its records by range; the list is empty in the end."""
        weights = [chunk.weight for chunk in chunks if chunk.weight is not None]
        records = csr.scatter(
            chunks,
            num_rows=self.num_rows,
            num_sources=self.num_sources,
            row_bits=self.range_bits,
            undirected=self.undirected,
            with_payload=self.numbered or bool(weights),
            name=self.name,
        )
        columns: dict[str, NDArray[Any]] = {
            "starts": records.starts,
            "record": records.record.astype(np.int64, copy=False),
        }
        if weights:
            columns["weight"] = np.concatenate(weights)[records.payload]
        if self.numbered:
            columns["number"] = records.payload + np.int64(first_edge)
        with published_file(path, shared=True, flushed=False) as file:
            np.savez(file, **columns)  # type: ignore[arg-type]
        return np.diff(records.starts)

    def _all(self, runs: Sequence[int]) -> Iterator[dict[str, NDArray[Any]]]:
        for number, count in enumerate(runs):
            for run in range(count):
                yield mapped_npz(self._file(number, run))

    def _file(self, number: int, run: int) -> Path:
        return self.folder / f"{number}.{run}.run"

    def _mark(self, number: int) -> Path:
        return self.folder / f"{number}.json"


def write_section(number: int, runs: EdgeRuns, sections: EdgeSections, shared: SharedPayload) -> Section:
    """Write the runs of a section unless an earlier command has; see `EdgeRuns.write`.

    Args:
        number: of the section.
        runs: where they go.
        sections: of the stream, without their shared content.
        shared: the shared content.
    """
    first, expected = sum(sections.counts[:number]), sections.counts[number] if sections.exact else None
    return runs.found(number) or runs.write(number, first, sections.read(number, *shared.content), expected=expected)


def _gathered(chunks: Iterable[EdgeChunk], least: int) -> Iterator[list[EdgeChunk]]:
    """Chunks with at least `least` edges together, but for the last ones; none without edges."""
    gathered: list[EdgeChunk] = []
    count = 0
    for chunk in chunks:
        if not len(chunk.src):
            continue
        gathered.append(chunk)
        count += len(chunk.src)
        if count >= least:
            yield gathered
            gathered, count = [], 0
    if gathered:
        yield gathered
