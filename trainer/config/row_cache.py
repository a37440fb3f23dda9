"""How many feature rows of other ranks each rank keeps: a share of all nodes, or as many as some bytes are for."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.base.errors import OptionError

POLICIES = ("belady", "vip", "degree", "presampled", "lru")
"""which rows are kept; graphprep/sampling/row_cache says what each is"""
_UNITS = {"KB": 1e3, "MB": 1e6, "GB": 1e9, "B": 1.0}


def kept_share(text: str, all_bytes: float = 1.0) -> float:
    """The share of all rows, from `0.1` or `200MB`.

    Args:
        text: of the option.
        all_bytes: of all rows; at least as many bytes are a share of 1.

    Raises:
        OptionError: it is neither a share from 0 to 1 nor bytes.
    """
    words = text.strip().upper()
    unit = next((unit for unit in _UNITS if words.endswith(unit)), "")
    try:
        number = float(words.removesuffix(unit))
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf") or (not unit and number > 1):
        raise OptionError(f"expected a share from 0 to 1, as 0.1, or bytes, as 200MB, not {text!r}")
    return number if not unit else min(1.0, number * _UNITS[unit] / max(all_bytes, 1.0))


def kept_rows(text: str, num_nodes: Sequence[int], row_bytes: Sequence[int]) -> list[int]:
    """Rows of each node type that are kept, the same share of each.

    Args:
        text: of the option.
        num_nodes: of each type.
        row_bytes: of a row of each type.
    """
    share = kept_share(text, sum(number * size for number, size in zip(num_nodes, row_bytes, strict=True)))
    return [int(share * number) for number in num_nodes]
