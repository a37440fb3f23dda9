"""MatrixMarket files (.mtx): a sparse matrix as entries "row column [value]", which count from 1.

    %%MatrixMarket matrix coordinate FIELD SYMMETRY
    % comments
    ROWS COLUMNS ENTRIES

An entry in row i and column j is the edge i -> j, as PyTorch Geometric and SciPy's csgraph take it, and its value the
weight. FIELD is pattern, real, double or integer; SYMMETRY is general, or symmetric, where each entry off the diagonal
stands for both directions and only those on or below it may be there. Complex, Hermitian and skew-symmetric matrices
have no meaning as a graph's edges, and an array lists zeros too: all are refused.

The entries are read by `edge_text`, so a wrong one is named with its line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from graphprep.core.types import Ids
from graphprep.datasets.formats.edge_weights import Weights
from graphprep.datasets.formats.text_dialect import Dialect
from graphprep.datasets.formats.text_file import MATRIX_MARKET, line_blocks
from graphprep.datasets.importing.edges.edge_columns import Roles
from graphprep.datasets.importing.edges.edge_file import EdgeFile, EdgeOptions, EdgeRows
from graphprep.datasets.importing.edges.edge_text import EdgeText
from graphprep.datasets.importing.edges.text_faults import Layout, shown
from graphprep.errors import DatasetError

FIELDS = ("pattern", "real", "double", "integer")
SYMMETRIES = ("general", "symmetric")


class Head(NamedTuple):
    field: str
    symmetric: bool
    rows: int
    columns: int
    entries: int
    line: int
    """of the sizes"""


class MatrixMarket(EdgeFile):
    """One file."""

    def __init__(self, path: Path, options: EdgeOptions) -> None:
        """Read the header.

        Raises:
            DatasetError: it is not one, or of a matrix that is no graph.
        """
        self.path = path
        self.head = _head(path)
        pattern = self.head.field == "pattern"
        if options.weights and pattern:
            raise DatasetError(f"{path} has no weights; its header says that it is a pattern")
        if options.times:
            raise DatasetError(f"{path} has no times; the MatrixMarket format knows none")
        self.num_sources, self.num_destinations = self.head.rows, self.head.columns
        self.ignored = () if pattern or options.weights else ("values",)
        layout = Layout(
            dialect=Dialect(delimiter=" ", columns=2 if pattern else 3, header_line=self.head.line),
            roles=Roles(0, 1, 2 if options.weights else None),
            first_id=1,
        )
        limits = replace(options, num_sources=self.head.rows, num_destinations=self.head.columns, ids="numbers")
        self._text = EdgeText(path, limits, layout=layout, expected=MATRIX_MARKET)

    def read_as(self) -> str:
        shape = f"{self.head.rows:,} x {self.head.columns:,}"
        return f"MatrixMarket, {'symmetric' if self.head.symmetric else 'general'}, {self.head.field}, {shape}"

    def rows(self) -> Iterator[EdgeRows]:
        """The entries as edges; of a symmetric matrix in both directions, one run after the other.

        Raises:
            DatasetError: a wrong entry, or another number of them than the header says.
        """
        entries = 0
        for run in self._text.rows():
            (src, dst), weight = run.number_ids(), run.weight
            entries += len(src)
            yield EdgeRows(src - 1, dst - 1, weight)
            if self.head.symmetric:
                yield self._mirrored(src, dst, weight)
        if entries != self.head.entries:
            cut = "; it is cut short" if entries < self.head.entries else ""
            raise DatasetError(
                f"{self.path} has {entries:,} entries where line {self.head.line} says {self.head.entries:,}{cut}"
            )

    def _mirrored(self, src: Ids, dst: Ids, weight: Weights | None) -> EdgeRows:
        if (above := src < dst).any():
            odd = int(np.argmax(above))
            raise DatasetError(
                f"{self.path} is symmetric, so it may hold no entry above the diagonal, but there is one in row "
                f"{src[odd]} and column {dst[odd]}"
            )
        off = src != dst
        return EdgeRows(dst[off] - 1, src[off] - 1, None if weight is None else weight[off])


def _head(path: Path) -> Head:
    banner: tuple[str, bool] | None = None
    for first_line, block in line_blocks(path, expected=MATRIX_MARKET):
        for number, line in enumerate(block.splitlines(), first_line):
            if banner is None:
                banner = _banner(path, line)
            elif line.strip() and not line.lstrip().startswith(b"%"):
                return _sizes(path, number, line, *banner)
    raise DatasetError(f"{path} has no line with the numbers of rows, columns and entries; it is cut short")


def _banner(path: Path, line: bytes) -> tuple[str, bool]:
    words = line.decode("utf-8", "replace").lower().split()
    where = f"{path}, line 1"
    if not words or words[0] != MATRIX_MARKET.decode().lower():
        raise DatasetError(f"{where}: a MatrixMarket file begins with {MATRIX_MARKET.decode()}, not {shown(line)}")
    if len(words) != 5:
        raise DatasetError(f"{where}: {shown(line)} is not '{MATRIX_MARKET.decode()} matrix coordinate FIELD SYMMETRY'")
    _, kind, layout, field, symmetry = words
    if kind != "matrix":
        raise DatasetError(f"{where}: it holds a {kind!r}, not a matrix")
    if layout != "coordinate":
        why = "an array lists every entry, zeros too; write the entries that are edges" if layout == "array" else ""
        raise DatasetError(f"{where}: the layout is {layout!r}, not coordinate{'; ' * bool(why)}{why}")
    if field not in FIELDS:
        raise DatasetError(f"{where}: the values are {field!r}, none of {', '.join(FIELDS)}")
    if symmetry not in SYMMETRIES:
        raise DatasetError(f"{where}: the matrix is {symmetry!r}, neither of {' and '.join(SYMMETRIES)}")
    return field, symmetry == "symmetric"


def _sizes(path: Path, number: int, line: bytes, field: str, symmetric: bool) -> Head:
    words = line.split()
    if len(words) != 3 or not all(word.isdigit() and len(word) <= 18 for word in words):
        raise DatasetError(f"{path}, line {number}: {shown(line)} is not the numbers of rows, columns and entries")
    rows, columns, entries = map(int, words)
    if min(rows, columns) < 1:
        raise DatasetError(f"{path}, line {number}: the matrix has no rows or no columns")
    if symmetric and rows != columns:
        raise DatasetError(f"{path}, line {number}: a symmetric matrix of {rows:,} x {columns:,} is not square")
    return Head(field, symmetric, rows, columns, entries, number)
