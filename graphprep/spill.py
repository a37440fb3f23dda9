"""CSR conversion of edges that do not fit in memory: by ranges of destination rows, through files.

Going in, every chunk of edges is scattered by range (the radix scatter of `csr`, with few and large buckets) and each
range's records are appended to its files. Then one range after another is read back, sorted and treated as if it were a
whole graph, and its result takes the place of its records: a run that is killed goes on with the ranges that are left.
An edge is written and read twice, in long runs; memory is one range.

    ranges.json          written when all edges are in: what a later run may rely on
    <range>.record       records, int64; .weight float32 and .number int64 where there are any
    <range>.npz          the range's result, under its name only when it is whole
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from graphprep import csr, progress
from graphprep import csr_kernels as kernels
from graphprep.csr import EdgeCounts, Records, Rules
from graphprep.executor import Executor
from graphprep.graph import Csr, EdgeChunk
from graphprep.mapped_npz import mapped_npz
from graphprep.publish import published_file

MOST_RANGES = 256
"""Files that are open at once are at most three times as many."""
LEAST_RANGE_BITS = 10
BYTES_PER_RECORD = 40
"""Peak while a range is sorted: records as read (8), by bucket (8), sorted (8), the result (8), and some slack."""
BYTES_PER_PAYLOAD = 40
"""The same for weights or edge numbers."""
MARK = "ranges.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpillSummary:
    """What came of all ranges."""

    counts: EdgeCounts
    edges_by_range: tuple[int, ...]
    weighted: bool
    fingerprint: int
    """of direction; 0 if every edge has its reverse"""


class Spill:
    """The edges of one type on their way through the disk."""

    def __init__(
        self,
        folder: Path,
        *,
        num_rows: int,
        num_sources: int,
        rules: Rules,
        numbered: bool,
        room: int,
        name: str,
    ) -> None:
        """Look at what an earlier run left in `folder`.

        Args:
            folder: belongs to these edges and these rules alone; made when the first edges come.
            num_rows, num_sources: nodes of the destination and source types.
            rules: what to do about reverses, duplicates and self-loops.
            numbered: whether edge numbers are wanted.
            room: bytes that may be used.
            name: of the edge type, for messages.
        """
        self.folder, self.name = folder, name
        self.num_rows, self.num_sources = num_rows, num_sources
        self.rules, self.numbered, self.room = rules, numbered, room
        self.range_bits = max(LEAST_RANGE_BITS, (max(1, num_rows - 1) // MOST_RANGES).bit_length())
        self.num_ranges = csr.bucket_count(num_rows, self.range_bits)
        self._given = 0
        self._weighted = False
        self._files: dict[str, list[BinaryIO]] = {}
        mark = folder / MARK
        self._records: list[int] = [0] * self.num_ranges
        self.holds_all_edges = mark.exists()
        """whether a run, this or an earlier one, has put all edges in"""
        if self.holds_all_edges:
            found = json.loads(mark.read_text())
            self._given, self._weighted, self._records = found["given"], found["weighted"], found["records"]
        elif folder.exists():
            shutil.rmtree(folder)

    def add(self, chunk: EdgeChunk) -> None:
        """Put a chunk of edges in.

        Raises:
            DatasetError: an id is out of range.
        """
        if not self._files:
            self._weighted = chunk.weight is not None
            self._open()
        csr.require_same_weights(self._weighted, chunk, self.name)
        records = csr.scatter(
            [chunk],
            num_rows=self.num_rows,
            num_sources=self.num_sources,
            row_bits=self.range_bits,
            undirected=self.rules.undirected,
            with_payload=self._weighted or self.numbered,
            name=self.name,
        )
        columns: dict[str, NDArray[Any]] = {"record": records.record.astype(np.int64, copy=False)}
        if self._weighted:
            assert chunk.weight is not None
            columns["weight"] = chunk.weight[records.payload]
        if self.numbered:
            columns["number"] = records.payload + np.int64(self._given)
        for column, values in columns.items():
            for number, file in enumerate(self._files[column]):
                start, stop = records.starts[number], records.starts[number + 1]
                if stop > start:
                    file.write(values[start:stop].data)
        for number, count in enumerate(np.diff(records.starts)):
            self._records[number] += int(count)
        self._given += len(chunk.src)

    def finish(self) -> None:
        """All edges are in."""
        for files in self._files.values():
            for file in files:
                file.flush()
                os.fsync(file.fileno())
                file.close()
        self._files = {}
        mark = {"given": self._given, "weighted": self._weighted, "records": self._records}
        with published_file(self.folder / MARK) as file:
            file.write(json.dumps(mark).encode())
        self.holds_all_edges = True

    def sort_ranges(self, executor: Executor) -> SpillSummary:
        """Sort every range that is not sorted yet.

        Args:
            executor: of the ranges; its workers reach the folder under the same path.
        """
        counts, weighted, fingerprint = EdgeCounts(), self._weighted, 0
        edges_by_range: list[int] = []
        with progress.task(f"sorting edges {self.name}", total=sum(self._records), unit="records") as task:
            # A range takes all the room that there may be, so that threads sort one after another, each with all cores.
            sorted_ranges = executor.map(_sorted, range(self.num_ranges), self, needed=self.room)
            for number, facts in enumerate(sorted_ranges):
                for path in self._paths(number).values():
                    path.unlink(missing_ok=True)
                found = EdgeCounts(**facts["counts"])
                counts += found
                edges_by_range.append(found.edges)
                weighted |= facts["weighted"]
                fingerprint += facts["fingerprint"]
                task.advance(self._records[number])
        return SpillSummary(
            counts=counts,
            edges_by_range=tuple(edges_by_range),
            weighted=weighted,
            fingerprint=fingerprint % 2**64,
        )

    def facts(self, number: int) -> dict[str, Any]:
        """What is known of a range, which is sorted unless it is already."""
        if not self._result(number).exists():
            self._sort_range(number)
        with np.load(self._result(number), allow_pickle=False) as result:
            found: dict[str, Any] = json.loads(str(result["facts"]))
        return found

    def pieces(self) -> Iterator[Csr]:
        """The sorted ranges in order."""
        for number in range(self.num_ranges):
            with np.load(self._result(number), allow_pickle=False) as result:
                yield self._csr({name: result[name] for name in result.files})

    def piece(self, number: int) -> Csr:
        """A sorted range whose arrays are mapped from its file."""
        return self._csr(mapped_npz(self._result(number)))

    def rows_of(self, number: int) -> tuple[int, int]:
        """The first row of a range, and how many it has."""
        first_row = number << self.range_bits
        return first_row, max(0, min(1 << self.range_bits, self.num_rows - first_row))

    def _csr(self, arrays: Mapping[str, NDArray[Any]]) -> Csr:
        return Csr(
            indptr=arrays["indptr"],
            indices=arrays["indices"],
            data=arrays.get("data"),
            edge_number=arrays.get("edge_number"),
            num_sources=self.num_sources,
        )

    def _columns(self) -> dict[str, np.dtype[Any]]:
        columns: dict[str, np.dtype[Any]] = {"record": np.dtype(np.int64)}
        if self._weighted:
            columns["weight"] = np.dtype(np.float32)
        if self.numbered:
            columns["number"] = np.dtype(np.int64)
        return columns

    def _open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for column in self._columns():
            self._files[column] = [
                (self.folder / f"{number}.{column}").open("wb", buffering=1 << 16) for number in range(self.num_ranges)
            ]

    def _paths(self, number: int) -> dict[str, Path]:
        return {column: self.folder / f"{number}.{column}" for column in self._columns()}

    def _result(self, number: int) -> Path:
        return self.folder / f"{number}.npz"

    def _sort_range(self, number: int) -> None:
        first_row, num_rows = self.rows_of(number)
        paths = self._paths(number)
        count = self._records[number]
        read = {column: np.fromfile(paths[column], dtype, count) for column, dtype in self._columns().items()}
        with_payload = self._weighted or self.numbered
        expected = count * (BYTES_PER_RECORD + (BYTES_PER_PAYLOAD if with_payload else 0))
        if expected > self.room:
            progress.warn(
                f"edges {self.name}: rows {first_row} to {first_row + num_rows - 1} alone have {count:,} edges, which "
                f"take about {progress.format_bytes(expected)}, more than --memory allows"
            )
        record = np.empty(count, np.int64)
        payload = np.empty(count if with_payload else 0, csr.index_dtype(count))
        key_bits = csr.key_bits(self.num_sources, undirected=self.rules.undirected)
        row_bits = min(self.range_bits, csr.bucket_bits(num_rows, count, key_bits))
        num_buckets = csr.bucket_count(num_rows, row_bits)
        starts = kernels.scatter_records(
            read.pop("record"), row_bits, key_bits, num_buckets, get_num_threads(), record, payload
        )
        matrix, counts = csr.sort_records(
            Records(starts=starts, record=record, payload=payload, row_bits=row_bits, key_bits=key_bits),
            weight=read.get("weight"),
            num_rows=num_rows,
            num_sources=self.num_sources,
            first_row=first_row,
            rules=self.rules,
            numbered=self.numbered,
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


def _sorted(number: int, spill: Spill) -> dict[str, Any]:
    return spill.facts(number)
