"""JSON files: parsed whole, and lists in them as arrays.

Python's parser takes NaN, numbers of any length and rows of any lengths; what is no table of numbers is an error here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import DatasetError
from graphprep.system.files.regular_file import regular_file
from graphprep.system.files.verify import HEAD_BYTES, substitute


def load_json(path: Path) -> Any:
    """The value in a JSON file.

    Raises:
        DatasetError: it is no JSON, or is cut short.
        OSError: it cannot be read.
    """
    data = regular_file(path).read_bytes()
    if suspect := substitute(data[:HEAD_BYTES]):
        raise DatasetError(suspect)
    return parse_json(data)


def parse_json(data: bytes) -> Any:
    """See `load_json`."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as problem:
        raise DatasetError(f"it is no JSON, or is cut short ({problem})") from problem


def numbers(values: Any, kinds: str, ndim: int, what: str) -> NDArray[Any]:
    """Lists from JSON as an array.

    Raises:
        DatasetError: they hold something that is no number of these NumPy kinds, or rows of unequal length.
    """
    try:
        array = np.array(values)
    except (ValueError, TypeError, OverflowError) as problem:  # rows of unequal length
        raise DatasetError(f"its {what} are no table of numbers") from problem
    if not array.size and array.ndim == ndim:
        return array.astype({"i": np.int64, "b": np.bool_, "f": np.float64}[kinds[0]])
    if array.dtype.kind not in kinds or array.ndim != ndim:
        raise DatasetError(f"its {what} have dtype {array.dtype} and {array.ndim} dimensions, not numbers in {ndim}")
    return array
