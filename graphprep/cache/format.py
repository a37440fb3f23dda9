"""The names and numbers of the cache format; docs/cache-format.md says what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphprep.core import bfloat16

CACHE_FORMAT = 3
KNOWN_FORMATS = (2, 3)
"""Those that are read: format 2 has no relays."""
CACHE_KIND = "cache"
MANIFEST = "manifest.json"
MANIFEST_SUM = "manifest.sha256"
ZARR_JSON = "zarr.json"
BITS_OF = "bits_of"
"""the attribute of a uint16 array that holds numbers which Zarr has no name for"""
X_AGGREGATED = "x_aggregated"
"""the node array of neighbour sums of x"""
RELAY_ROWS, RELAY_MESSAGES, RELAY_BATCHES = "relay_rows", "relay_messages", "relay_batches"
"""the arrays of relayed exchange that all parts share, absent where every row is sent by its owner"""
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DATA_TYPES = ("bool", *INTEGERS, "float16", "float32", "float64")


def payload_path(array_path: str, num_dimensions: int) -> str:
    """The file of an array's only chunk, relative to the cache."""
    return f"{array_path}/c/" + "/".join("0" * num_dimensions)


def part_path(part: int) -> str:
    """The folder of one part, relative to the cache."""
    return f"parts/{part}"


def data_type(dtype: np.dtype[Any]) -> tuple[str, dict[str, Any]]:
    """Zarr's name of a dtype that the format allows, and the attributes of an array of it.

    Raises:
        ValueError: the format has no such dtype.
    """
    if bfloat16.is_bfloat16(dtype):
        return "uint16", {BITS_OF: bfloat16.NAME}
    if dtype.name not in DATA_TYPES:
        raise ValueError(f"dtype {dtype} is not one of {', '.join(DATA_TYPES)}")
    return str(dtype.name), {}


def dtype_of(metadata: Mapping[str, Any]) -> np.dtype[Any] | None:
    """The little-endian dtype that an array's metadata names; None if the format has no such dtype."""
    name, attributes = metadata.get("data_type"), metadata.get("attributes")
    bits_of = attributes.get(BITS_OF) if isinstance(attributes, dict) else None
    if bits_of is not None:
        return bfloat16.BFLOAT16 if (name, bits_of) == ("uint16", bfloat16.NAME) else None
    return np.dtype(name).newbyteorder("<") if name in DATA_TYPES else None
