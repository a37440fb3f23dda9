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
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from graphprep.datasets.formats.edge_weights import as_float32
from graphprep.datasets.formats.text_dialect import Dialect, Look, is_value, look
from graphprep.datasets.formats.text_file import byte_ranges, lines_between, unpacked_name
from graphprep.datasets.formats.text_records import arrow_table, record_blocks, records_alone, tidied
from graphprep.datasets.importing.edges.edge_columns import Roles, roles
from graphprep.datasets.importing.edges.edge_file import EdgeFile, EdgeOptions, EdgeRows, FileRange, Words
from graphprep.datasets.importing.edges.edge_lines import pairs_of
from graphprep.datasets.importing.edges.text_faults import INT64_MAX, FaultFinder, Layout
from graphprep.errors import DatasetError, UsageError
from graphprep.system.files.version import require_version, version_of
from graphprep.system.threads import map_in_order

MOST_THREADS = 4
BYTES_A_SECTION = 64 << 20
HEX_MARKS = (b"x", b"X")
KONECT = re.compile(rb"%\s*(sym|asym|bip)\s+\w+[^\n]*(?:\n%\s*\d+\s+(\d+)\s+(\d+))?")
KONECT_NAMES = ("src", "dst", "weight", "time")
ADJACENCY = (".adjlist", ".adj", ".multiline_adjlist")


class EdgeText(EdgeFile):
    """One file of edges."""

    def __init__(
        self, path: Path, options: EdgeOptions, *, layout: Layout | None = None, expected: bytes | None = None
    ) -> None:
        """Look at the first lines.

        Args:
            path: text, packed or not.
            options: what to read; ids from its limits on are errors with their line.
            layout: what the lines are like, if that is known.
            expected: the magic of a format that is text of its own; see `text_file`.

        Raises:
            DatasetError: this is no edge list.
        """
        self.path, self.options, self._expected = path, options, expected
        self._words = options.ids == "words"
        self._time_type = "int64"
        self._version = version_of(path)
        self._of_two_types = False
        self._sizes: tuple[int, int] | None = None
        self._shift = 0
        self.layout = layout or self._look()
        self._faults = FaultFinder(path, self.layout, options)
        unused = sorted(set(range(self.layout.columns)) - set(self.layout.roles.used()))
        self.ignored = tuple(self._column(position) for position in unused)
        if self._of_two_types:
            self._shift = self._sizes[0] if self._sizes else self._highest_source()

    def read_as(self) -> str:
        dialect, place = self.layout.dialect, self.layout.roles
        words = [f"text cut at {dialect.cut()}"]
        if dialect.header_line is not None:
            words.append(f"line {dialect.header_line} names the columns")
        elif dialect.names is not None:
            words.append("columns as KONECT has them")
        else:
            words.append("no line names the columns (the first row is an edge)")
        for what, position in (("sources", place.src), ("destinations", place.dst)):
            words.append(f"{what} from {self._column(position)}")
        for what, values in (("weights", place.weight), ("times", place.time)):
            if values is not None:
                words.append(f"{what} from {self._column(values)}")
        if dialect.has_index:
            words.append("column 1 numbers the rows")
        if dialect.comments:
            marks = "# or %"
            words.append(f"{dialect.comments:,} lines before the first row that begin with {marks} are comments")
        if self._shift:
            words.append(
                f"the comments say bip (two kinds of nodes), so {self._shift:,} is added to each destination's id; "
                "--schema gives each kind a node type of its own"
            )
        return ", ".join(words)

    def _column(self, position: int) -> str:
        """A column by its number and name."""
        names = self.layout.dialect.names
        return f"column {position + 1}" + (
            f" {names[position]!r}" if names and any(names[position : position + 1]) else ""
        )

    def rows(self) -> Iterator[EdgeRows]:
        """All edges in the file's order, one run a block. Can be used again.

        Raises:
            DatasetError: with the line number, a line that is not an edge; a damaged file; a file that has changed
                since it was opened.
        """
        require_version(self.path, self._version)
        workers = min(MOST_THREADS, os.cpu_count() or 1)
        dialect = self.layout.dialect
        blocks = record_blocks(
            self.path, dialect.delimiter, quoted=dialect.quoted, after=dialect.last_skipped, expected=self._expected
        )
        for run in map_in_order(lambda piece: self._run(*piece), blocks, workers=workers):
            if run is not None:
                yield run

    def sections(self) -> Sequence[FileRange]:
        """Ranges of bytes; none of what is packed, where ids are words or there are times, or a header comes late."""
        if self._words or self.options.times:
            return []
        ranges = byte_ranges(self.path, BYTES_A_SECTION)
        header = self.layout.dialect.last_skipped
        if header and len(next(lines_between(self.path, *ranges[0])).splitlines()) < header:
            return []  # `rows_of` leaves out a header in the first block alone
        return ranges

    def rows_of(self, section: FileRange) -> Iterator[EdgeRows]:
        """One of them; see `rows`."""
        first_row = 1 + self.layout.dialect.last_skipped
        line = 1 if section[0] == 0 else first_row
        for block in lines_between(self.path, *section):
            if b'"' in block:
                raise DatasetError(f"{self.path} has quotes, which may hold line feeds")
            try:
                run = self._run(line, block)
            except DatasetError as problem:  # it names a line, and counts from the wrong one
                raise DatasetError(f"{self.path} has a line that is no edge") from problem
            if run is not None:
                yield run
            line = max(line, first_row)

    def _look(self) -> Layout:
        first_look, comments = look(
            self.path,
            words=self._words,
            edges=True,
            header=self.options.header,
            delimiter=self.options.delimiter,
        )
        if first_look is None:
            return self._without_rows(comments)
        dialect, rows = first_look.dialect, first_look.records
        konect = KONECT.match(b"\n".join(comments)) if dialect.names is None and not self._words else None
        if konect and dialect.columns <= len(KONECT_NAMES):
            dialect = replace(dialect, names=KONECT_NAMES[: dialect.columns])
        if not rows:
            return self._without_rows(comments, dialect)
        number, _, line = rows[0]
        layout = Layout(dialect=dialect, roles=self._roles(dialect, number, line))
        faults = FaultFinder(self.path, layout, self.options)
        faults.check_columns(number, line, named=dialect.names is not None)
        self._require_no_lists(rows)
        self._require_clear(first_look, faults)
        if konect and konect[1] == b"bip" and self.options.one_type:
            self._of_two_types = True
            self._sizes = None if konect[2] is None else (int(konect[2]), int(konect[3]))
        return layout

    def _without_rows(self, comments: Sequence[bytes], dialect: Dialect | None = None) -> Layout:
        if self.options.num_sources is None or self.options.num_destinations is None:
            raise DatasetError(f"{self.path} has no edges in it")
        columns = 2 + self.options.weights + self.options.times
        dialect = dialect or Dialect(delimiter=" ", columns=columns, comments=len(comments))
        return Layout(dialect=dialect, roles=Roles(0, 1))

    def _roles(self, dialect: Dialect, number: int, line: bytes) -> Roles:
        options = self.options
        finder = FaultFinder(self.path, Layout(dialect=dialect, roles=Roles(0, 1)), options)
        try:
            column_roles = roles(
                dialect.names,
                dialect.columns,
                weights=options.weights,
                times=options.times,
                requested=options.columns,
                no_ends=(0,) if dialect.has_index else (),
            )
        except KeyError as problem:
            raise UsageError(f"{self.path}: {problem.args[0]}") from problem
        if column_roles is not None:
            return column_roles
        if dialect.columns < 2:
            finder.check_columns(number, line, named=False)
        if dialect.names is not None:
            finder.fail(
                number,
                f"the names {', '.join(dialect.names)} do not say which columns are the ones wanted; name them with "
                "--source, --target, --weight or --time",
                line,
            )
        takes = " and ".join(["weights"] * options.weights + ["times"] * options.times)
        count = "third column" if options.weights + options.times < 2 else "third and fourth column"
        return finder.fail(number, f"there is no {count} to take {takes} from", line)

    def _require_no_lists(self, rows: Sequence[tuple[int, list[bytes], bytes]]) -> None:
        """A list of neighbours in each line is another format."""
        if unpacked_name(self.path).endswith(ADJACENCY) and any(len(fields) != 2 for _, fields, _ in rows):
            raise DatasetError(
                f"{self.path} is named as an adjacency list, whose lines are a node and all its neighbours; write one "
                "edge a line (NetworkX: write_edgelist), as column 3 and those behind it would be left out"
            )

    def _require_clear(self, first_look: Look, faults: FaultFinder) -> None:
        """Refuse what can be read in two ways that give different graphs."""
        dialect, rows = first_look.dialect, first_look.records
        number, fields, line = rows[0]
        requested = self.options.columns
        if (
            self._words
            and dialect.names is None
            and dialect.columns == 3
            and not (requested.source or requested.target)
        ):
            third = [row[2] for _, row, _ in rows if len(row) == 3]
            if not any(is_value(field) or field[:1] in b"([{" for field in third) and not self.options.times:
                faults.fail(
                    number,
                    "three words may be source, destination and a label, or subject, predicate and object; say which "
                    "with --source 1 --target 2, or --source 1 --target 3 (column 3)",
                    line,
                )
        if dialect.doubtful_names and self.options.header is None and len(rows) > 1 and first_look.complete:
            place = faults.layout.roles
            others = {row[end] for _, row, _ in rows[1:] for end in (place.src, place.dst) if len(row) > end}
            if fields[place.src] in others or fields[place.dst] in others or not all(map(bytes.isdigit, others)):
                return
            if {int(field) for field in others if len(field) < 19} != set(range(2, len(others) + 2)):
                faults.fail(
                    number,
                    "this line may be an edge, or the names that pandas gives to columns, since neither id is in any "
                    "other line; say which with --no-header or --header",
                    line,
                )

    def _run(self, first_line: int, block: bytes) -> EdgeRows | None:
        """The edges of one block; None if it has none."""
        run = self._pairs(block) if self._may_be_pairs(first_line) else None
        if run is None:
            run = self._general(block, first_line)
        return run if run is None or not self._shift else self._shifted(run)

    def _general(self, block: bytes, first_line: int) -> EdgeRows | None:
        """The edges of a block that is not pairs of numbers alone."""
        text = records_alone(block, first_line, self.layout.dialect)
        if not text:
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

    def _highest_source(self) -> int:
        return max((int(run.src.max()) for run in self.rows() if isinstance(run.src, np.ndarray)), default=0)

    def _shifted(self, run: EdgeRows) -> EdgeRows:
        """The edges with the ids of destinations behind those of sources."""
        src, dst = run.number_ids()
        if (highest := int(src.max())) > self._shift:
            raise DatasetError(
                f"{self.path} has the source {highest}, but its comments say that there are {self._shift:,} sources"
            )
        return run._replace(dst=dst.astype(np.int64) + self._shift)

    def _may_be_pairs(self, first_line: int) -> bool:
        """Whether the lines of a block may be two numbers each and nothing else."""
        return self.layout.columns == 2 and not self._words and first_line > (self.layout.dialect.header_line or 0)

    def _pairs(self, block: bytes) -> EdgeRows | None:
        """The edges of a block that is pairs of numbers in order; None if it is anything else."""
        delimiter = self.layout.dialect.delimiter
        columns = pairs_of(block, b" \t" if delimiter == " " else delimiter.encode())
        if columns is None:
            return None
        run = EdgeRows(columns[self.layout.roles.src], columns[self.layout.roles.dst])
        return run if self._in_order(run) else None

    def _in_order(self, run: EdgeRows) -> bool:
        for ids, limit in ((run.src, self.options.num_sources), (run.dst, self.options.num_destinations)):
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
        dialect = self.layout.dialect
        if dialect.delimiter != " " and not dialect.bracketed:
            return self._typed(text, dialect.delimiter)
        if not self._words and not dialect.bracketed and not (dialect.quoted and b'"' in text):
            plain = text.replace(b"\t", b" ") if b" " in text else text
            separator = b" " if b" " in plain else b"\t"
            # A separator at a line's end would pass for an empty last column. Arrow refuses all other untidy lines at
            # the first of them, so to try costs less than to look.
            if self.layout.columns == 2 or separator + b"\n" not in plain:
                run = self._typed(plain, separator.decode())
                if run is not None:
                    return run
        tidy = tidied(text, dialect.delimiter, quoted=dialect.quoted, bracketed=dialect.bracketed)
        return self._typed(tidy, "\t")

    def _typed(self, text: bytes, separator: str) -> EdgeRows | None:
        """Times are whole numbers until a block has others, and floats from there on."""
        time_type = self._time_type
        run = self._arrow(text, separator, time_type)
        if run is None and self.options.times and time_type == "int64":
            run = self._arrow(text, separator, "float64")
            self._time_type = "int64" if run is None else "float64"
        return run

    def _arrow(self, text: bytes, separator: str, time_type: str) -> EdgeRows | None:
        import pyarrow as pa

        place = self.layout.roles
        names = [str(position) for position in range(self.layout.columns)]
        types = dict.fromkeys(names, pa.string())
        ids = pa.string() if self._words else pa.int64()
        types |= {names[place.src]: ids, names[place.dst]: ids}
        if place.weight is not None:
            types[names[place.weight]] = pa.float64()
        if place.time is not None:
            types[names[place.time]] = pa.type_for_alias(time_type)
        used_names = [names[position] for position in place.used()]
        try:
            table = arrow_table(text, separator, names, types, quoted=self.layout.dialect.quoted, columns=used_names)
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
