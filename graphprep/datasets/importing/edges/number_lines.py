"""Lines of whole numbers, as many a line as there are: the text under METIS files, which no table reader takes.

A loop over bytes, compiled by numba, turns a block of lines into one array of numbers and the place where each line
ends; it reads some 200 MB a second. Lines that begin with % are comments and give nothing, empty lines are lines
without a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.datasets.formats.text_file import line_blocks
from graphprep.datasets.importing.edges.text_faults import shown
from graphprep.errors import DatasetError

MOST_DIGITS = 18
"""a number of so many digits is below 2^63"""


class NumberLines(NamedTuple):
    """A run of lines. Letters: L lines, V numbers."""

    values: NDArray[np.int64]
    """[V]"""
    ends: NDArray[np.int64]
    """[L]: how many numbers there are up to the end of each line"""
    lines: NDArray[np.int64]
    """[L]: the number of each line in the file, from 1"""


def number_lines(path: Path) -> Iterator[NumberLines]:
    """All lines of a file that are not comments.

    Raises:
        DatasetError: with its line, what is no whole number; a damaged file.
    """
    for first_line, block in line_blocks(path):
        text = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in block else block
        raw = np.frombuffer(text, np.uint8)
        most_lines = text.count(b"\n") + 1
        values, ends, lines = (
            np.empty(len(raw) // 2 + 1, np.int64),
            np.empty(most_lines, np.int64),
            np.empty(most_lines, np.int64),
        )
        num_values, num_lines, fault = _numbers(raw, values, ends, lines)
        if fault >= 0:
            line = text.count(b"\n", 0, fault)
            word = text[text.rfind(b"\n", 0, fault) + 1 :].splitlines()[0]
            raise DatasetError(
                f"{path}, line {first_line + line}: {shown(_word_at(text, fault))} is no whole number of at most "
                f"{MOST_DIGITS} digits (the line is {shown(word)})"
            )
        yield NumberLines(values[:num_values], ends[:num_lines], lines[:num_lines] + first_line)


def _word_at(text: bytes, place: int) -> bytes:
    start = max(text.rfind(mark, 0, place) for mark in (b" ", b"\t", b"\n")) + 1
    return text[start : start + 100].split()[0]


@njit(cache=True, nogil=True)
def _numbers(raw, values, ends, lines):  # type: ignore[no-untyped-def]
    """Fill the arrays; returns (numbers, lines, the place of a byte that is wrong or -1)."""
    at, count, out, line = 0, 0, 0, 0
    size = len(raw)
    while at < size:
        comment = False
        fresh = True
        while at < size and raw[at] != 10:
            byte = raw[at]
            if byte == 32 or byte == 9 or byte == 13:
                at += 1
                continue
            if byte == 37 and fresh:
                comment = True
                while at < size and raw[at] != 10:
                    at += 1
                break
            fresh = False
            negative = byte == 45
            if negative:
                at += 1
            value, digits = np.int64(0), 0
            while at < size and 48 <= raw[at] <= 57:
                value = value * 10 + (raw[at] - 48)
                digits += 1
                at += 1
                if digits > MOST_DIGITS:
                    return count, out, at - 1
            if digits == 0 or (at < size and raw[at] != 32 and raw[at] != 9 and raw[at] != 10 and raw[at] != 13):
                return count, out, min(at, size - 1)
            values[count] = -value if negative else value
            count += 1
        if not comment:
            ends[out] = count
            lines[out] = line
            out += 1
        line += 1
        at += 1
    return count, out, -1
