"""DIMACS graphs: `p sp N M` with arcs `a U V WEIGHT` (.gr), and `p edge N M` with edges `e U V` (.col).

Nodes count from 1 there and from 0 here. Arcs are directed; edges (`e`) are given in both directions. `c` begins
comments, `n` and `d v x` lines that say something of nodes, which are left out. The file is streamed: a regular
expression takes the letters off, NumPy parses the numbers.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from graphprep.datasets.formats.edge_weights import Weights
from graphprep.datasets.formats.text_file import line_blocks
from graphprep.datasets.importing.edges.edge_file import EdgeFile, EdgeOptions, EdgeRows
from graphprep.errors import DatasetError
from graphprep.system import progress

PROBLEM = re.compile(rb"(?m)^p[ \t]+(\w+)[ \t]+(\d{1,18})[ \t]+(\d{1,18})[ \t\r]*$")
LINE = re.compile(rb"(?m)^([ae])[ \t]+(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+([+-]?[\d.]+(?:[eE][+-]?\d+)?))?[ \t\r]*$")
OTHER = re.compile(rb"(?m)^(?:[cndvxp](?:[ \t\r][^\n]*)?|[ \t\r]*)$")


class Dimacs(EdgeFile):
    """A DIMACS graph."""

    def __init__(self, path: Path, options: EdgeOptions) -> None:
        """Read the line that says how large the graph is.

        Raises:
            DatasetError: there is none; weights are wanted of edges that have none.
        """
        self.path, self._options = path, options
        if options.times:
            raise DatasetError(f"{path} cannot be used: a DIMACS graph has no times")
        problem = next((match for _, block in line_blocks(path) if (match := PROBLEM.search(block))), None)
        if problem is None:
            raise DatasetError(f"{path} has no line 'p sp N M' or 'p edge N M', so it is no DIMACS graph")
        self.kind = problem[1].decode()
        self._num_nodes, self._num_lines = int(problem[2]), int(problem[3])
        self.num_sources = self.num_destinations = self._num_nodes
        self.ignored = () if options.weights or self.kind != "sp" else ("weights",)

    def read_as(self) -> str:
        lines = (
            f"arcs, {self._num_lines:,} lines"
            if self.kind == "sp"
            else f"edges in both directions, {self._num_lines:,} lines"
        )
        return f"DIMACS {self.kind}, {self._num_nodes:,} nodes, {lines}"

    def rows(self) -> Iterator[EdgeRows]:
        """See `EdgeFile`."""
        seen = 0
        for first_line, block in line_blocks(self.path):
            lines = LINE.findall(block)
            self._require_known(first_line, block, len(lines))
            seen += len(lines)
            if lines:
                yield self._rows(first_line, block, lines)
        if seen < self._num_lines and self.kind == "sp":
            raise DatasetError(
                f"{self.path} announces {self._num_lines:,} arcs but has {seen:,}; it is cut short, fetch it again"
            )
        if seen != self._num_lines:
            progress.warn(f"{self.path} announces {self._num_lines:,} edges but has {seen:,}, which are all taken")

    def _rows(self, first_line: int, block: bytes, lines: list[tuple[bytes, bytes, bytes, bytes]]) -> EdgeRows:
        letters, src, dst, weights = (np.array(column) for column in zip(*lines, strict=True))
        src, dst = src.astype(np.int64) - 1, dst.astype(np.int64) - 1
        if (bad := np.flatnonzero((np.minimum(src, dst) < 0) | (np.maximum(src, dst) >= self._num_nodes))).size:
            self._fail(first_line, block, int(bad[0]), f"its nodes are 1 .. {self._num_nodes:,}")
        weight: Weights | None = None
        if self._options.weights:
            if (bad := np.flatnonzero(weights == b"")).size:
                self._fail(first_line, block, int(bad[0]), "there is no weight")
            weight = weights.astype(np.float64)
            if (bad := np.flatnonzero(~(np.abs(weight) <= np.finfo(np.float32).max))).size:
                self._fail(first_line, block, int(bad[0]), "the weight is beyond what float32 holds")
        both = np.flatnonzero((letters == b"e") & (src != dst))
        return EdgeRows(
            np.concatenate([src, dst[both]]),
            np.concatenate([dst, src[both]]),
            None if weight is None else np.concatenate([weight, weight[both]]),
        )

    def _require_known(self, first_line: int, block: bytes, edges: int) -> None:
        if edges + len(OTHER.findall(block.removesuffix(b"\n"))) == block.removesuffix(b"\n").count(b"\n") + 1:
            return
        for number, line in enumerate(block.splitlines(), first_line):
            if not LINE.match(line) and not OTHER.match(line):
                words = line[:60].decode("latin-1")
                raise DatasetError(
                    f"{self.path}, line {number}: {words!r} is no line of a DIMACS graph; edges are 'a U V WEIGHT' or "
                    "'e U V'"
                )

    def _fail(self, first_line: int, block: bytes, number: int, reason: str) -> None:
        """Raise an error for one edge of a block, by its number."""
        place = next(itertools.islice(LINE.finditer(block), number, None))
        line = first_line + block.count(b"\n", 0, place.start())
        raise DatasetError(f"{self.path}, line {line}: {place[0].strip().decode('latin-1')[:60]!r}: {reason}")
