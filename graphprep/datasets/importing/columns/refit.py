"""Features and labels of new rows as those of rows that are there were made: the same classes, scales and fills.

A table's own classes and means are those of its rows. Rows that are added to a store need those of the store, which its
attributes name (`features.FeatureColumns.facts`).

Letters: n new rows, F features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.datasets.importing.columns import values
from graphprep.errors import DatasetError
from graphprep.system import home
from graphprep.system.files.scratch import RowSink

Array = NDArray[Any]
Facts = Mapping[str, Any]
"""of one column"""
ROWS_AT_A_TIME = 1 << 18


def refitted_features(x_nF: Array, now: Sequence[Facts] | None, before: Sequence[Facts] | None, whose: str) -> Array:
    """Features by the classes and scales of a store.

    Args:
        x_nF: by those of the new rows.
        now: how these were made; None for features that are numbers already.
        before: how those of the store were made, likewise.
        whose: the store's name, for errors.

    Raises:
        DatasetError: they come from other columns, or a value has no place among the store's; the end of a sentence.
    """
    if now is None or (before is None and not any("classes" in one or "subtracted" in one for one in now)):
        return x_nF
    columns, known = ([(one["column"], one["as"]) for one in facts or ()] for facts in (now, before))
    if columns != known:
        shown = [
            ", ".join(f"{name!r} as {kind}" for name, kind in listed) or "no columns" for listed in (columns, known)
        ]
        raise DatasetError(f"its features are made of {shown[0]}, and those of {whose} of {shown[1]}; name the same")
    assert before is not None
    changes = [_change_of(one, other, whose) for one, other in zip(now, before, strict=True)]
    ends = np.cumsum([one["width"] for one in now])[:-1]
    folder = home.home()
    folder.mkdir(parents=True, exist_ok=True)
    sink = RowSink((len(x_nF), sum(one["width"] for one in before)), x_nF.dtype, folder)
    for start in range(0, len(x_nF), ROWS_AT_A_TIME):
        blocks = np.split(x_nF[start : start + ROWS_AT_A_TIME], ends, axis=1)
        made = [change(block) for change, block in zip(changes, blocks, strict=True)]
        sink.add(np.concatenate(made, axis=1).astype(x_nF.dtype, copy=False))
    return sink.array()


def refitted_classes(y_n: Array, now: Sequence[str] | None, before: Sequence[str] | None, whose: str) -> Array:
    """Classes by the numbers that their names have in a store; arguments and errors as for `refitted_features`."""
    if now is None:
        return y_n
    if before is None:
        raise DatasetError(f"its labels are words, and those of {whose} are numbers; give the numbers")
    found: Array = np.append(_numbers(now, before, "label", whose), -1)[y_n]
    return found


def _numbers(now: Sequence[str], before: Sequence[str], what: str, whose: str) -> NDArray[np.int64]:
    """The number of each class in the store."""
    number = {name: place for place, name in enumerate(before)}
    if unknown := [name for name in now if name not in number]:
        raise DatasetError(
            f"its {what} {values.shown(unknown[0])} occurs nowhere in {whose}, which so has no number for it; import "
            "all files together"
        )
    return np.array([number[name] for name in now], np.int64)


def _change_of(now: Facts, before: Facts, whose: str) -> Callable[[Array], Array]:
    column = now["column"]
    if "classes" in now:
        places = _numbers(now["classes"], before["classes"], f"value in the column {column!r}", whose)
        if now["as"] == "codes":
            return lambda block: np.append(places, -1)[block.astype(np.int64)]
        return lambda block: _one_hot(block[:, : len(places)], places, before["width"])
    if now["width"] != before["width"]:
        raise DatasetError(
            f"its column {column!r} makes {now['width']} features, and that of {whose} {before['width']}; give as many"
        )
    if now.get("missing") and now.get("fill") != before.get("fill"):
        raise DatasetError(
            f"its column {column!r} lacks numbers, which are filled by {now['fill']:g} and in {whose} by "
            f"{before.get('fill', 'nothing')}; give `fill` that number"
        )
    if ("subtracted" in now) != ("subtracted" in before):
        raise DatasetError(f"its column {column!r} is not normalised as that of {whose}; give the same `normalise`")
    if "subtracted" not in now:
        return lambda block: block
    shift, scale, shift_before, scale_before = (
        np.asarray(facts[name]) for facts in (now, before) for name in ("subtracted", "divided_by")
    )
    return lambda block: (block.astype(np.float64) * scale + shift - shift_before) / scale_before


def _one_hot(block: Array, places: NDArray[np.int64], width: int) -> Array:
    wide = np.zeros((len(block), width), block.dtype)
    wide[:, places] = block
    return wide
