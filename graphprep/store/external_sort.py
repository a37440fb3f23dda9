"""External sort: CSR conversion of edges that do not fit in memory, by ranges of destination rows.

Edges are scattered by range (the radix scatter of `csr`, with few and large buckets) and written as runs (`sort_runs`).
Then one range after another is read from all runs, sorted and treated like a whole graph. After a kill the next command
continues with the ranges that are missing. An edge is written and read twice; memory holds one range.

    sections.json        the input, while sections are written: a later run continues only with the same input
    ranges.json          the counts, written when all runs are finished
    <section>.*          the runs, until all ranges are sorted
    <range>.npz          the sorted range, renamed into place when it is complete
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core import csr
from graphprep.core import csr_kernels as kernels
from graphprep.core.csr import EdgeCounts, EdgeRecords, TreatmentRules, mixed_weights
from graphprep.core.over_rows import threads_for
from graphprep.core.types import Csr, EdgeChunk, EdgeSections, unchecked
from graphprep.errors import DatasetError
from graphprep.store.sort_runs import EdgeRuns, Section, write_section
from graphprep.system import progress
from graphprep.system.executor import Executor
from graphprep.system.files.atomic import published_file
from graphprep.system.files.mapped_npz import mapped_npz
from graphprep.system.files.scratch import CONVERSION, NoRoomError
from graphprep.system.payload import SharedPayload
from graphprep.system.threads import side_by_side

MOST_RANGES = 256
LEAST_RANGE_BITS = 10
BYTES_PER_RECORD = 40
"""Peak while a range is sorted: records as read (8), by bucket (8), sorted (8), the result (8), and some slack."""
BYTES_PER_PAYLOAD = 40
"""The same for weights or edge numbers."""
BEGUN, MARK = "sections.json", "ranges.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SortSummary:
    """The counts of all ranges."""

    counts: EdgeCounts
    edges_by_range: tuple[int, ...]
    weighted: bool
    fingerprint: int
    """of direction; 0 if every edge has its reverse of equal weight"""


class ExternalSort:
    """The external sort of one edge type."""

    def __init__(
        self,
        folder: Path,
        *,
        num_rows: int,
        num_sources: int,
        rules: TreatmentRules,
        numbered: bool,
        budget: int,
        name: str,
    ) -> None:
        """Read the state that an earlier run left in `folder`.

        Args:
            folder: of these edges and these rules alone; created with the first edges.
            num_rows, num_sources: nodes of the destination and source types.
            rules: the treatment of reverses, duplicates and self-loops.
            numbered: whether edge numbers are kept.
            budget: bytes that may be used.
            name: of the edge type, for messages.
        """
        self.rules, self.budget = rules, budget
        self.runs = EdgeRuns(
            folder=folder,
            name=name,
            num_rows=num_rows,
            num_sources=num_sources,
            range_bits=max(LEAST_RANGE_BITS, (max(1, num_rows - 1) // MOST_RANGES).bit_length()),
            undirected=rules.undirected,
            fingerprinted=rules.sums_both_ways,
            numbered=numbered,
            budget=budget,
        )
        self._given = 0
        self._weighted = False
        self._runs: list[int] = []
        """files of each section"""
        mark = folder / MARK
        self._records: list[int] = [0] * self.runs.num_ranges
        self.holds_all_edges = mark.exists()
        """whether this or an earlier run has written all edges"""
        if self.holds_all_edges:
            found = json.loads(mark.read_text())
            self._given, self._weighted = found["given"], found["weighted"]
            self._records, self._runs = found["records"], found["runs"]
            self._set_both_ways(found["fingerprint"])

    def add(self, chunks: Iterable[EdgeChunk]) -> None:
        """Write all edges from a stream that is read from front to back.

        Raises:
            DatasetError: an id is out of range, or some edges have weights and some have none.
        """
        self._empty()
        self._finish([self.runs.write(0, 0, chunks)])

    def add_sections(self, sections: EdgeSections, executor: Executor) -> None:
        """Write all edges by sections; those that an earlier run has written are not read again.

        Args:
            sections: of the stream.
            executor: of the sections; its workers reach the folder, and what `sections` reads, under the same path.

        Raises:
            DatasetError: as `add`, or a section has not as many edges as it should, or its file has changed.
        """
        bits, numbered = self.runs.range_bits, self.runs.numbered
        self._resume_with({"edges": list(sections.counts), "range_bits": bits, "numbered": numbered})
        shared = SharedPayload(sections.shared, folder=self.runs.folder, stage=CONVERSION)
        # Other processes have memory of their own. A worker that is still busy for a command that was killed may put
        # runs in the place of these, so they are the same in every attempt.
        runs = replace(self.runs, budget=None) if executor.is_elsewhere else self.runs
        total = sum(sections.counts) if sections.exact else None
        found: list[Section] = []
        with progress.task(f"reading edges {self.runs.name}", total=total, unit="edges") as task:
            # A run uses the whole memory budget; threads make one after another, each with all cores.
            arguments = (runs, replace(sections, shared=(), check=unchecked), shared)
            written = executor.map(write_section, range(len(sections.counts)), *arguments, needed=self.budget)
            try:
                for section in written:
                    found.append(section)
                    task.advance(section.edges)
                sections.check()
            except NoRoomError:
                raise
            except DatasetError:  # some sections may be of files that have changed, and none may be resumed
                shutil.rmtree(self.runs.folder, ignore_errors=True)
                raise
        self._finish(found)

    def _resume_with(self, sections: dict[str, object]) -> None:
        """Empty the folder unless an earlier run was reading the same sections into it."""
        begun = self.runs.folder / BEGUN
        if not (begun.exists() and json.loads(begun.read_text()) == sections):
            self._empty()
            with published_file(begun) as file:
                file.write(json.dumps(sections).encode())

    def _empty(self) -> None:
        """Create the folder, without files of an earlier run."""
        shutil.rmtree(self.runs.folder, ignore_errors=True)
        self.runs.folder.mkdir(parents=True)

    def _finish(self, sections: Sequence[Section]) -> None:
        """Record that all edges are written.

        Raises:
            DatasetError: some have weights and some have none.
        """
        weighted = {section.weighted for section in sections if section.edges}
        if len(weighted) > 1:
            raise mixed_weights(self.runs.name)
        self._given = sum(section.edges for section in sections)
        self._weighted = True in weighted
        self._records = [sum(counts) for counts in zip(*(section.records for section in sections), strict=True)]
        self._runs = [section.runs for section in sections]
        fingerprint = sum(section.fingerprint for section in sections) % 2**64
        self._set_both_ways(fingerprint)
        mark = {
            "given": self._given,
            "weighted": self._weighted,
            "records": self._records,
            "runs": self._runs,
            "fingerprint": fingerprint,
        }
        with published_file(self.runs.folder / MARK) as file:
            file.write(json.dumps(mark).encode())
        self.holds_all_edges = True

    def _set_both_ways(self, fingerprint: int) -> None:
        """Set whether every edge is listed in both directions, where the rules depend on it."""
        self.rules = replace(self.rules, both_ways=self.rules.sums_both_ways and fingerprint == 0)

    def sort_ranges(self, executor: Executor) -> SortSummary:
        """Sort every range that is not sorted yet.

        Args:
            executor: of the ranges; its workers reach the folder under the same path.
        """
        counts, weighted, fingerprint = EdgeCounts(), self._weighted, 0
        edges_by_range: list[int] = []
        with progress.task(f"sorting edges {self.runs.name}", total=sum(self._records), unit="records") as task:
            # A range uses the whole memory budget, so that threads sort one after another, each with all cores.
            sorted_ranges = executor.map(_sorted, range(self.runs.num_ranges), self, needed=self.budget)
            for number, facts in enumerate(sorted_ranges):
                found = EdgeCounts(**facts["counts"])
                counts += found
                edges_by_range.append(found.edges)
                weighted |= facts["weighted"]
                fingerprint += facts["fingerprint"]
                task.advance(self._records[number])
        self.runs.remove(self._runs)
        return SortSummary(
            counts=counts,
            edges_by_range=tuple(edges_by_range),
            weighted=weighted,
            fingerprint=fingerprint % 2**64,
        )

    def facts(self, number: int) -> dict[str, Any]:
        """The counts of a range, which is sorted first if it is not yet."""
        if not self._result(number).exists():
            self._sort_range(number)
        with np.load(self._result(number), allow_pickle=False) as result:
            found: dict[str, Any] = json.loads(str(result["facts"]))
        return found

    def pieces(self) -> Iterator[Csr]:
        """The sorted ranges in order."""
        for number in range(self.runs.num_ranges):
            with np.load(self._result(number), allow_pickle=False) as result:
                yield self._csr({name: result[name] for name in result.files})

    def piece(self, number: int) -> Csr:
        """A sorted range whose arrays are mapped from its file."""
        return self._csr(mapped_npz(self._result(number)))

    def rows_of(self, number: int) -> tuple[int, int]:
        """The first row of a range, and how many it has."""
        bits = self.runs.range_bits
        first_row = number << bits
        return first_row, max(0, min(1 << bits, self.runs.num_rows - first_row))

    def _csr(self, arrays: Mapping[str, NDArray[Any]]) -> Csr:
        return Csr(
            indptr=arrays["indptr"],
            indices=arrays["indices"],
            data=arrays.get("data"),
            edge_number=arrays.get("edge_number"),
            num_sources=self.runs.num_sources,
        )

    def _result(self, number: int) -> Path:
        return self.runs.folder / f"{number}.npz"

    def _sort_range(self, number: int) -> None:
        first_row, num_rows = self.rows_of(number)
        runs, count = self.runs, self._records[number]
        with_payload = self._weighted or runs.numbered
        expected = count * (BYTES_PER_RECORD + (BYTES_PER_PAYLOAD if with_payload else 0))
        if expected > self.budget:
            progress.warn(
                f"edges {runs.name}: rows {first_row} to {first_row + num_rows - 1} alone have {count:,} edges, which "
                f"take about {progress.format_bytes(expected)}, more than --memory allows"
            )
        read = runs.range_records(self._runs, number, count)
        record = np.empty(count, np.int64)
        payload = np.empty(count if with_payload else 0, csr.index_dtype(count))
        key_bits = csr.key_bits(runs.num_sources, undirected=self.rules.undirected)
        row_bits = min(runs.range_bits, csr.bucket_bits(num_rows, count, key_bits))
        num_buckets = csr.bucket_count(num_rows, row_bits)
        starts = _scatter(read.pop("record"), row_bits, key_bits, num_buckets, record, payload)
        matrix, counts = csr.sort_records(
            EdgeRecords(starts=starts, record=record, payload=payload, row_bits=row_bits, key_bits=key_bits),
            weight=read.get("weight"),
            num_rows=num_rows,
            num_sources=runs.num_sources,
            first_row=first_row,
            rules=self.rules,
            numbered=runs.numbered,
            name=runs.name,
        )
        facts = {
            "counts": asdict(counts),
            "weighted": matrix.data is not None,
            "fingerprint": csr.direction_fingerprint(matrix, first_row=first_row),
        }
        arrays: dict[str, Any] = {"indptr": matrix.indptr, "indices": matrix.indices, "facts": json.dumps(facts)}
        if matrix.data is not None:
            arrays["data"] = matrix.data
        if matrix.edge_number is not None:
            given = matrix.edge_number >= 0
            arrays["edge_number"] = np.full(len(given), -1, np.int64)
            arrays["edge_number"][given] = read["number"][matrix.edge_number[given]]
        with published_file(self._result(number), shared=True) as file:
            np.savez(file, **arrays)


def _scatter(
    read: NDArray[np.int64],
    row_bits: int,
    key_bits: int,
    num_buckets: int,
    record: NDArray[np.int64],
    payload: NDArray[np.integer],
) -> NDArray[np.int64]:
    """Fill in a range's records and payloads by bucket of 2^row_bits rows, in their order; where each bucket starts."""
    threads = threads_for(len(read))
    bounds = [len(read) * t // threads for t in range(threads + 1)]
    place_TB = np.zeros((threads, num_buckets), np.int64)

    def count(t: int) -> None:
        kernels.count_records(read[bounds[t] : bounds[t + 1]], row_bits, key_bits, place_TB[t])

    def put(t: int) -> None:
        mine = read[bounds[t] : bounds[t + 1]]
        kernels.scatter_records(mine, bounds[t], place_TB[t], row_bits, key_bits, record, payload)

    side_by_side([partial(count, t) for t in range(threads)], workers=threads)
    starts: NDArray[np.int64] = kernels.starts_of(place_TB)
    side_by_side([partial(put, t) for t in range(threads)], workers=threads)
    return starts


def _sorted(number: int, external: ExternalSort) -> dict[str, Any]:
    return external.facts(number)
