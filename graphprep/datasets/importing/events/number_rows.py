"""CSV of numbers after a line of names, in blocks, with the line of what is wrong.

Arrow parses a block; where it refuses one, or a value is not what its column is for, that block alone is read again
line by line.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from graphprep.datasets.formats.text_file import first_bytes, line_blocks
from graphprep.errors import DatasetError

Kind = Literal["id", "time", "state", "number", "index"]
"""of a column: id and index are whole and not negative, a state is whole, times and numbers are finite"""
WORDS = {
    "id": "a whole number from 0 on, as ids of nodes are",
    "index": "a whole number from 0 on",
    "state": "a whole number, as states are",
    "time": "a finite number, as times are",
    "number": "a finite number, as features are",
}
FIRST_BYTES = 1 << 20
MOST_SHOWN = 40
MOST_STATE = 2**53
"""whole numbers below are exact in float64"""


def num_fields(path: Path) -> int:
    """The fields of the first row after the line of names.

    Raises:
        DatasetError: there is no such row.
    """
    lines = first_bytes(path, FIRST_BYTES).split(b"\n")
    if len(lines) < 2 or not lines[1].strip():
        raise DatasetError(f"{path} has no row after its first line, which names the columns")
    return lines[1].count(b",") + 1


def number_rows(path: Path, kinds: Sequence[Kind]) -> Iterator[list[NDArray[Any]]]:
    """The columns of each block: int64, or float64 for numbers; times are either.

    Raises:
        DatasetError: a row has another number of fields, or a field is not what its column is for.
    """
    import pyarrow as pa
    from pyarrow import csv

    names = [str(place) for place in range(len(kinds))]
    types = {
        name: pa.int64() if kind in ("id", "index") else pa.float64()
        for name, kind in zip(names, kinds, strict=True)
        if kind != "time"
    }
    for first_line, text in line_blocks(path):
        skipped = int(first_line == 1)
        block = text.split(b"\n", 1)[1] if skipped and b"\n" in text else b"" if skipped else text
        if not block.strip():
            continue
        try:
            table = csv.read_csv(
                io.BytesIO(block),
                read_options=csv.ReadOptions(column_names=names, use_threads=False, block_size=len(block) + 1),
                convert_options=csv.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False),
            )
        except pa.ArrowInvalid:
            _find_fault(path, block, first_line + skipped, kinds)
        columns = [_column(table.column(place), kind) for place, kind in enumerate(kinds)]
        if any(column is None for column in columns):
            _find_fault(path, block, first_line + skipped, kinds)
        yield [column for column in columns if column is not None]


def _column(column: Any, kind: Kind) -> NDArray[Any] | None:
    """The values; None where one is not of its kind."""
    import pyarrow as pa

    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return None
    values: NDArray[Any] = column.to_numpy()
    if kind in ("id", "index"):
        return values if not len(values) or int(values.min()) >= 0 else None
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return None
    if kind != "state":
        return values
    if len(values) and float(np.abs(values).max()) >= MOST_STATE:
        return None
    whole = values.astype(np.int64)
    return whole if np.array_equal(whole, values) and (not len(whole) or int(whole.min()) >= -1) else None


def _find_fault(path: Path, block: bytes, first_line: int, kinds: Sequence[Kind]) -> NoReturn:
    """Raise the error of the first row that is wrong."""
    for number, line in enumerate(block.split(b"\n"), first_line):
        if not line.strip():
            continue
        fields = line.decode("utf-8", "replace").strip().split(",")
        if len(fields) != len(kinds):
            raise DatasetError(
                f"{path}, line {number}: there are {len(fields)} fields and the first row has {len(kinds)}; give every "
                "event as many"
            )
        for place, (field, kind) in enumerate(zip(fields, kinds, strict=True), 1):
            if not _is_of(field, kind):
                shown = field if len(field) <= MOST_SHOWN else f"{field[:MOST_SHOWN]}..."
                raise DatasetError(f"{path}, line {number}, column {place}: {shown!r} is not {WORDS[kind]}; correct it")
    raise DatasetError(f"{path}: the rows from line {first_line} on cannot be read as numbers; correct them")


def _is_of(field: str, kind: Kind) -> bool:
    try:
        value = float(field)
    except ValueError:
        return False
    if not math.isfinite(value):
        return False
    if kind in ("id", "index"):
        return field.strip().isdecimal() and int(field) < 2**63
    return kind != "state" or (value.is_integer() and -1 <= value < MOST_STATE)
