"""Edges from text: one edge a line, in blocks of whole lines, parsed by Arrow, with the line number of what is wrong.

A block of some megabytes is read, unpacked if need be, and cut at its last line end. Blocks that are nothing but pairs
of numbers, as most are, are read by `edge_lines`; all others by Arrow's CSV parser, which knows one delimiter and
nothing of comments. A block that has comments, or whose white space Arrow refuses, is tidied by operations over the
whole block. Nothing loops over lines in Python until Arrow refuses a tidy block: then `text_faults` reads that block
alone again, line by line, for the line that is at fault.

Blocks are parsed some ahead by a few threads, in order. One core reads some 900 MB of pairs a second, or 200 MB of
other text; gzip unpacks at about the latter rate, on the thread that reads.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import DatasetError
from graphprep.sources.edge_columns import Roles, names_ends, roles
from graphprep.sources.edge_file import EdgeRows, FileRange, Wanted, Words
from graphprep.sources.edge_lines import pairs_of
from graphprep.sources.edge_weights import as_float32
from graphprep.sources.file_version import require_version, version_of
from graphprep.sources.text_faults import (
    COMMENT_MARKS,
    INT64_MAX,
    NUMBER,
    FaultFinder,
    Layout,
    delimiter_of,
    fields_of,
)
from graphprep.sources.text_file import byte_ranges, line_blocks, lines_between, unpacked_name

MOST_THREADS = 4
BYTES_A_SECTION = 64 << 20
HEX_MARKS = (b"x", b"X")


class EdgeText:
    """One file of edges."""

    read_again = False

    def __init__(
        self, path: Path, wanted: Wanted, *, layout: Layout | None = None, expected: bytes | None = None
    ) -> None:
        """Look at the first lines.

        Args:
            path: text, packed or not.
            wanted: what to read; ids from its limits on are errors with their line.
            layout: what the lines are like, if that is known.
            expected: the magic of a format that is text of its own; see `text_file`.

        Raises:
            DatasetError: this is no edge list.
        """
        self.path, self.wanted, self._expected = path, wanted, expected
        self.num_sources: int | None = None
        self.num_destinations: int | None = None
        self._words = wanted.ids == "words"
        self._time_type = "int64"
        self._version = version_of(path)
        self.layout = layout or self._look()
        self._faults = FaultFinder(path, self.layout, wanted)

    @property
    def ignored(self) -> tuple[str, ...]:
        used = self.layout.roles.used()
        left = [position + 1 for position in range(self.layout.columns) if position not in used]
        return tuple(f"column {position}" for position in left)

    def node_arrays(self) -> Mapping[str, NDArray[Any]]:
        """Text has none."""
        return {}

    def rows(self) -> Iterator[EdgeRows]:
        """All edges in the file's order, one run a block. Can be used again.

        Raises:
            DatasetError: with the line number, a line that is not an edge; a damaged file; a file that has changed
                since it was first looked at.
        """
        require_version(self.path, self._version)
        workers = min(MOST_THREADS, os.cpu_count() or 1)
        ahead: deque[Future[EdgeRows | None]] = deque()
        with ThreadPoolExecutor(workers, "edge-text") as pool:
            for first_line, block in line_blocks(self.path, expected=self._expected):
                ahead.append(pool.submit(self._run, block, first_line))
                if len(ahead) > workers and (run := ahead.popleft().result()) is not None:
                    yield run
            for future in ahead:
                if (run := future.result()) is not None:
                    yield run

    def sections(self) -> Sequence[FileRange]:
        """Ranges of bytes; none of what is packed, where ids are words or there are times, or a header comes late."""
        if self._words or self.wanted.times:
            return []
        ranges = byte_ranges(self.path, BYTES_A_SECTION)
        header = self.layout.header_line or 0
        if header and len(next(lines_between(self.path, *ranges[0])).splitlines()) < header:
            return []  # `rows_of` leaves out a header in the first block alone
        return ranges

    def rows_of(self, section: FileRange) -> Iterator[EdgeRows]:
        """One of them; see `rows`."""
        line = 1 if section[0] == 0 else 1 + (self.layout.header_line or 0)
        for block in lines_between(self.path, *section):
            if b'"' in block:
                raise DatasetError(f"{self.path} has quotes, which may hold line feeds")
            try:
                run = self._run(block, line)
            except DatasetError as problem:  # it names a line, and counts from the wrong one
                raise DatasetError(f"{self.path} has a line that is no edge") from problem
            if run is not None:
                yield run
            line = max(line, 1 + (self.layout.header_line or 0))

    def _look(self) -> Layout:
        header_line, names = None, None
        for first_line, block in line_blocks(self.path):
            for number, line in enumerate(block.splitlines(), first_line):
                if not line.strip() or line.lstrip().startswith(COMMENT_MARKS):
                    continue
                delimiter = delimiter_of(line)
                fields = fields_of(line, delimiter)
                if header_line is None and self._is_header(fields):
                    header_line, names = number, [field.decode("utf-8", "replace") for field in fields]
                    continue
                layout = Layout(
                    delimiter=delimiter,
                    columns=len(fields),
                    header_line=header_line,
                    roles=self._roles(names, fields, number, line),
                )
                FaultFinder(self.path, layout, self.wanted).check_columns(number, line, named=names is not None)
                return layout
        if self.wanted.num_sources is None or self.wanted.num_destinations is None:
            raise DatasetError(f"{self.path} has no edges in it")
        columns = 2 + self.wanted.weights + self.wanted.times
        found = roles(names, columns, weights=self.wanted.weights, times=self.wanted.times) or Roles(0, 1)
        return Layout(delimiter=" ", columns=columns, header_line=header_line, roles=found)

    def _roles(self, names: list[str] | None, fields: list[bytes], number: int, line: bytes) -> Roles:
        wanted = self.wanted
        found = roles(names, len(fields), weights=wanted.weights, times=wanted.times)
        if found is not None:
            return found
        bare = Layout(delimiter=delimiter_of(line), columns=len(fields), header_line=None, roles=Roles(0, 1))
        finder = FaultFinder(self.path, bare, wanted)
        if len(fields) < 2:
            finder.check_columns(number, line, named=False)
        if names is not None:
            finder.fail(number, f"the names {', '.join(names)} do not say which columns are the ones wanted", line)
        takes = " and ".join(["weights"] * wanted.weights + ["times"] * wanted.times)
        count = "third column" if wanted.weights + wanted.times < 2 else "third and fourth column"
        return finder.fail(number, f"there is no {count} to take {takes} from", line)

    def _is_header(self, fields: list[bytes]) -> bool:
        if self.wanted.header is not None:
            return self.wanted.header
        if not unpacked_name(self.path).endswith((".csv", ".tsv")):
            return False
        if self._words:
            return names_ends([field.decode("utf-8", "replace") for field in fields])
        return not any(NUMBER.fullmatch(field) for field in fields)

    def _run(self, block: bytes, first_line: int) -> EdgeRows | None:
        """The edges of one block; None if it has none."""
        if self._may_be_pairs(first_line) and (run := self._pairs(block)) is not None:
            return run
        text = block
        if self.layout.header_line is not None and first_line <= self.layout.header_line:
            text = _without_lines(text, self.layout.header_line - first_line)
        if b"\r" in text:
            text = text.replace(b"\r", b"\n")  # \r\n leaves an empty line, which Arrow skips
        if b"#" in text or b"%" in text:
            text = _without_comments(text)
        if not text or text.isspace():
            return None
        if self._words:
            if b"\0" in text:
                self._faults.find(block, first_line)
        elif any(mark in text for mark in HEX_MARKS):
            self._faults.find(block, first_line)  # Arrow would read 0x10 as sixteen
        run = self._parsed(text)
        if run is None or not self._in_order(run):
            self._faults.find(block, first_line)
        if run is None:
            raise DatasetError(f"{self.path}: a line from {first_line} on is no edge; give one edge a line, as two ids")
        return run

    def _may_be_pairs(self, first_line: int) -> bool:
        """Whether the lines of a block may be two numbers each and nothing else."""
        return self.layout.columns == 2 and not self._words and first_line > (self.layout.header_line or 0)

    def _pairs(self, block: bytes) -> EdgeRows | None:
        """The edges of a block that is pairs of numbers in order; None if it is anything else."""
        columns = pairs_of(block, b" \t" if self.layout.delimiter == " " else self.layout.delimiter.encode())
        if columns is None:
            return None
        run = EdgeRows(columns[self.layout.roles.src], columns[self.layout.roles.dst])
        return run if self._in_order(run) else None

    def _in_order(self, run: EdgeRows) -> bool:
        for ids, limit in ((run.src, self.wanted.num_sources), (run.dst, self.wanted.num_destinations)):
            if isinstance(ids, Words):
                if not all(ids.words):
                    return False
                continue
            first = self.layout.first_id
            if int(ids.min()) < first or int(ids.max()) >= (INT64_MAX if limit is None else limit + first):
                return False
        if run.time is not None and run.time.dtype.kind == "f" and not bool(np.isfinite(run.time).all()):
            return False
        with np.errstate(over="ignore"):
            return run.weight is None or bool(np.isfinite(as_float32(run.weight)).all())

    def _parsed(self, text: bytes) -> EdgeRows | None:
        """What Arrow makes of `text`; None if it refuses it."""
        if self.layout.delimiter != " ":
            return self._typed(text, self.layout.delimiter)
        if b" " in text:
            text = text.replace(b"\t", b" ")
        separator = b" " if b" " in text else b"\t"
        # A separator at a line's end would pass for an empty last column. Arrow refuses all other untidy lines at the
        # first of them, so to try costs less than to look; words may begin with a separator and not be refused.
        lines_end_well = self.layout.columns == 2 or separator + b"\n" not in text
        if lines_end_well and not self._words:
            run = self._typed(text, separator.decode())
            if run is not None:
                return run
        return self._typed(_single_spaced(text, separator), separator.decode())

    def _typed(self, text: bytes, separator: str) -> EdgeRows | None:
        """Times are whole numbers until a block has others, and floats from there on."""
        time_type = self._time_type
        run = self._arrow(text, separator, time_type)
        if run is None and self.wanted.times and time_type == "int64":
            run = self._arrow(text, separator, "float64")
            self._time_type = "int64" if run is None else "float64"
        return run

    def _arrow(self, text: bytes, separator: str, time_type: str) -> EdgeRows | None:
        import pyarrow as pa
        from pyarrow import csv

        place = self.layout.roles
        names = [str(position) for position in range(self.layout.columns)]
        types = dict.fromkeys(names, pa.string())
        ids = pa.string() if self._words else pa.int64()
        types |= {names[place.src]: ids, names[place.dst]: ids}
        if place.weight is not None:
            types[names[place.weight]] = pa.float64()
        if place.time is not None:
            types[names[place.time]] = pa.type_for_alias(time_type)
        try:
            table = csv.read_csv(
                pa.BufferReader(text),
                read_options=csv.ReadOptions(column_names=names, use_threads=False, block_size=len(text) + 1),
                parse_options=csv.ParseOptions(delimiter=separator, quote_char=False if separator in " \t" else '"'),
                convert_options=csv.ConvertOptions(
                    column_types=types, null_values=[], include_columns=[names[position] for position in place.used()]
                ),
            )
        except pa.ArrowInvalid:
            return None
        if not table.num_rows:
            return None
        src, dst = (_words(table.column(end)) if self._words else table.column(end).to_numpy() for end in (0, 1))
        values = {
            role: table.column(names[position]).to_numpy()
            for role, position in (("weight", place.weight), ("time", place.time))
            if position is not None
        }
        return EdgeRows(src, dst, **values)


def _words(column: Any) -> Words:
    """An Arrow column of text as codes and words without white space around them."""
    coded = column.combine_chunks().dictionary_encode()
    return Words(coded.indices.to_numpy(), [word.strip() for word in coded.dictionary.to_pylist()])


def _without_lines(text: bytes, last: int) -> bytes:
    """`text` with its lines up to and with `last` emptied."""
    lines = text.splitlines(keepends=True)
    return b"".join([b"\n"] * min(last + 1, len(lines)) + lines[last + 1 :])


def _without_comments(text: bytes) -> bytes:
    """`text` with each line whose first mark is # or % emptied."""
    kept, position = [], 0
    for mark in re.finditer(rb"[#%][^\n]*", text):
        line_start = text.rfind(b"\n", 0, mark.start()) + 1
        if not text[line_start : mark.start()].strip():
            kept.append(text[position:line_start])
            position = mark.end()
    return b"".join([*kept, text[position:]])


def _single_spaced(text: bytes, separator: bytes) -> bytes:
    """`text` with one separator for each run of them, and none at the ends of lines."""
    characters = np.frombuffer(text, np.uint8)
    blank = characters == separator[0]
    keep = ~blank
    keep[1:] |= ~blank[:-1] & (characters[:-1] != ord("\n"))
    tidy: bytes = characters[keep].tobytes().replace(separator + b"\n", b"\n")
    return tidy.removesuffix(separator)
