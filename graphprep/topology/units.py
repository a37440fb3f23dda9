"""Words and numbers that people write in a topology, each with its limits.

The limits lie far beyond any machine. They are there so that no sum over links can become infinite. Truth values are
refused: YAML reads a bare `on` or `yes` as true, and pydantic would read true as the number 1.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, StrictInt

MAX_GBYTES_PER_S = 1e6


def _no_truth_value(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"a number is needed, not the truth value {str(value).lower()}")  # noqa: TRY004
    return value


def _one_word(name: str) -> str:
    if not name or "->" in name or name.split() != [name]:
        raise ValueError(f"{name[:100]!r} is not one word without spaces and without '->'")
    if len(name) > 100:
        raise ValueError(f"{name[:40] + '...'!r} is a name of {len(name):,} letters; use up to 100")
    return name


def folder_name(name: str) -> str:
    """`name` itself, if it can name a topology and so a cache's folder.

    Raises:
        ValueError: it cannot; the message says why.
    """
    if not name.replace("-", "a").replace(".", "a").replace("_", "a").isalnum() or name[0] in ".-" or len(name) > 100:
        raise ValueError(
            f"{name[:100]!r} cannot name a cache's folder: use up to 100 letters, digits, '-', '_' and '.', "
            "and begin with a letter, a digit or '_'"
        )
    return name


def _one_line(text: str) -> str:
    if not text.strip() or not text.isprintable() or len(text) > 100:
        raise ValueError(f"{text[:100]!r} is not up to 100 characters on one line")
    return text


Word = Annotated[str, AfterValidator(_one_word)]
GpuName = Annotated[str, AfterValidator(_one_line)]
"""What the driver calls a GPU."""
FolderName = Annotated[str, AfterValidator(folder_name)]
Number = Annotated[float, BeforeValidator(_no_truth_value)]
Bandwidth = Annotated[Number, Field(gt=0, ge=1e-6, le=MAX_GBYTES_PER_S, allow_inf_nan=False)]
"""Gigabytes (1e9 bytes) a second in each direction."""
Latency = Annotated[Number, Field(ge=0, le=1e9, allow_inf_nan=False)]
"""Microseconds."""
Speed = Annotated[Number, Field(gt=0, ge=1e-6, le=1e6, allow_inf_nan=False)]
"""Work a second, against the other ranks."""
Memory = Annotated[Number, Field(gt=0, ge=1e-3, le=1e6, allow_inf_nan=False)]
"""Gigabytes (1e9 bytes)."""
Count = Annotated[StrictInt, Field(ge=1)]
Place = Annotated[StrictInt, Field(ge=0)]
