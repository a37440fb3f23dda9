"""The names and numbers of the cache format; docs/cache-format.md says what they mean."""

from __future__ import annotations

import numpy as np

CACHE_FORMAT = 1
CACHE_KIND = "cache"
MANIFEST = "manifest.json"
MANIFEST_SUM = "manifest.sha256"
ZARR_JSON = "zarr.json"
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DATA_TYPES = ("bool", *INTEGERS, "float16", "float32", "float64")


def payload_path(array_path: str, num_dimensions: int) -> str:
    """The file of an array's only chunk, relative to the cache."""
    return f"{array_path}/c/" + "/".join("0" * num_dimensions)


def part_path(part: int) -> str:
    """The folder of one part, relative to the cache."""
    return f"parts/{part}"


def data_type(dtype: np.dtype[np.generic]) -> str:
    """Zarr's name of a dtype that the format allows.

    Raises:
        ValueError: the format has no such dtype.
    """
    if dtype.name not in DATA_TYPES:
        raise ValueError(f"dtype {dtype} is not one of {', '.join(DATA_TYPES)}")
    return str(dtype.name)
