"""Which columns of a Parquet file are the index of the pandas table that it was written from."""

from __future__ import annotations

import json
from typing import Any

INDEX_PREFIX = "__index_level_"
"""of the names that pandas gives to index columns without one"""


def pandas_index(schema: Any) -> tuple[str, ...]:
    """The columns that pandas wrote for the index, by what the file says of itself; none for plain row numbers.

    Args:
        schema: Arrow's.
    """
    try:
        said = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return tuple(name for name in schema.names if name.startswith(INDEX_PREFIX))
    return tuple(name for name in said if isinstance(name, str) and name in schema.names)
