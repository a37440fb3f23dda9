"""One column of a batch as what its role needs: words, numbers, times or lists of numbers.

An empty field is a missing value in every format, and so are NaN, and in text NA, null and none where a number belongs.
White space around a word does not count. Functions raise `ValueFault` for the first value that does not fit.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import DatasetError

MISSING_NUMBERS = ("", "na", "n/a", "nan", "null", "none")
TRUTH = {"true": 1.0, "false": 0.0}
LONGEST_SHOWN = 40
INT64 = 2**63
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
WHOLE = r"^(0|-?[1-9][0-9]{0,18})(\.0+)?$"
"""whole numbers without zeros before them, also as pandas writes those of a column with gaps: 10.0"""
BETWEEN_NUMBERS = r"[\s,;]+"


class ValueFault(DatasetError):
    """A value that does not fit the role of its column; the end of a sentence."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position
        """in the batch"""


def shown(value: object) -> str:
    """A value for messages."""
    return repr(value if not isinstance(value, str) or len(value) <= LONGEST_SHOWN else value[:LONGEST_SHOWN] + "...")


def is_words(array: Any) -> bool:
    """Whether an Arrow array is text, dictionary-encoded or not."""
    import pyarrow as pa

    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_lists(array: Any) -> bool:
    """Whether each value of an Arrow array is a list."""
    import pyarrow as pa

    kind = array.type
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_fractions(array: Any) -> bool:
    """Whether an Arrow array without missing values is of floats that are not all whole numbers."""
    import pyarrow as pa

    return bool(pa.types.is_floating(array.type)) and whole_numbers(array) is None


def words(array: Any) -> Any:
    """An Arrow array of strings; null where a value is missing. Whole floats are written as whole numbers.

    Raises:
        ValueFault: values are lists or bytes.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    array = _decoded(array)
    if pa.types.is_null(array.type):
        return array.cast(pa.string())
    if is_words(array):
        trimmed = pc.utf8_trim_whitespace(array.cast(pa.string()))
        return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)
    if pa.types.is_floating(array.type):
        values = numbers(array)
        there = ~np.isnan(values)
        if there.any() and (values[there] == np.floor(values[there])).all() and np.abs(values[there]).max() < INT64:
            whole = np.where(there, values, 0).astype(np.int64)
            return pa.array(whole, mask=~there).cast(pa.string())
        return pa.array(values, mask=~there).cast(pa.string())
    try:
        return array.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
        raise ValueFault(0, f"values of the type {array.type} are no words") from problem


def is_number(text: str) -> bool:
    """Whether a word is a number in digits."""
    return NUMBER.fullmatch(text) is not None


def whole_numbers(array: Any) -> NDArray[np.int64] | None:
    """An array without missing values as whole numbers; None if some value is no whole number as numbers are written.

    Raises:
        ValueFault: one is beyond 64 bits.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    array = _decoded(array)
    if is_words(array):
        trimmed = pc.utf8_trim_whitespace(array.cast(pa.string()))
        if not pc.all(pc.match_substring_regex(trimmed, WHOLE)).as_py():
            return None
        array = pc.replace_substring_regex(trimmed, r"\.0+$", "")
    elif pa.types.is_floating(array.type):
        values = array.to_numpy(zero_copy_only=False)
        if not (np.isfinite(values).all() and (values == np.floor(values)).all() and (np.abs(values) < INT64).all()):
            return None
        whole: NDArray[np.int64] = values.astype(np.int64)
        return whole
    elif not pa.types.is_integer(array.type) and not pa.types.is_null(array.type):
        return None
    try:
        return np.asarray(array.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)
    except pa.ArrowInvalid as problem:
        raise ValueFault(0, "a value is beyond 64 bits") from problem


def numbers(array: Any) -> NDArray[np.float64]:
    """Floats, NaN where a value is missing; truth values are 0 and 1.

    Raises:
        ValueFault: a value is no finite number.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    array = _decoded(array)
    kind = array.type
    if is_words(array):
        trimmed = pc.utf8_trim_whitespace(array.cast(pa.string()))
        missing = pc.is_in(pc.utf8_lower(trimmed), value_set=pa.array(MISSING_NUMBERS))
        trimmed = pc.if_else(missing, pa.scalar(None, pa.string()), trimmed)
        try:
            array = trimmed.cast(pa.float64())
        except pa.ArrowInvalid:
            array = pa.array(_one_by_one(trimmed.to_pylist()), pa.float64())
    elif not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    ):
        raise ValueFault(0, f"values of the type {kind} are no numbers")
    values: NDArray[np.float64] = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if (infinite := np.isinf(values)).any():
        raise ValueFault(int(np.argmax(infinite)), "the value is infinite")
    return values


def _one_by_one(texts: list[str | None]) -> list[float | None]:
    """Words as numbers or truth values, after Arrow has found one that is no number."""
    values: list[float | None] = []
    for position, text in enumerate(texts):
        if text is None or text.lower() in TRUTH:
            values.append(None if text is None else TRUTH[text.lower()])
            continue
        try:
            values.append(float(text))
        except ValueError:
            raise ValueFault(position, f"{shown(text)} is no number") from None
        if "_" in text:
            raise ValueFault(position, f"{shown(text)} is no number")
    return values


def times(array: Any) -> tuple[NDArray[np.int64] | NDArray[np.float64], bool]:
    """Numbers as they are, or dates as seconds since 1970 (UTC), and whether they were dates; whole ones as int64.

    Raises:
        ValueFault: a value is missing, or is neither a number nor a date.
    """
    import pyarrow as pa

    array = _decoded(array)
    if is_words(array):
        trimmed = words(array)
        _require_all(trimmed, "time")
        array = _dates(trimmed) if not _are_numbers(trimmed) else trimmed
    _require_all(array, "time")
    if not (pa.types.is_timestamp(array.type) or pa.types.is_date(array.type)):
        whole = whole_numbers(array) if not pa.types.is_floating(array.type) else None
        values = numbers(array) if whole is None else whole
        if values.dtype.kind == "f" and (odd := np.isnan(values)).any():
            raise ValueFault(int(np.argmax(odd)), "there is no time")
        return values, False
    micros = array.cast(pa.timestamp("us"), safe=False).cast(pa.int64()).to_numpy(zero_copy_only=False)
    exact = bool((micros % 1_000_000 == 0).all())
    return (micros // 1_000_000 if exact else micros / 1e6), True


def _are_numbers(texts: Any) -> bool:
    import pyarrow as pa

    try:
        texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _dates(texts: Any) -> Any:
    """ISO dates, with or without a time of day and a zone."""
    import pyarrow as pa

    for kind in (pa.timestamp("us"), pa.timestamp("us", tz="UTC")):
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            continue
    for position in range(len(texts)):
        one = texts.slice(position, 1)
        fits = []
        for kind in (pa.float64(), pa.timestamp("us"), pa.timestamp("us", tz="UTC")):
            try:
                one.cast(kind)
            except pa.ArrowInvalid:
                continue
            fits.append(kind)
        if not fits:
            raise ValueFault(
                position, f"{shown(one[0].as_py())} is no time: neither a number nor a date such as 2024-05-31 18:00:00"
            )
    raise ValueFault(0, "times are written in several ways; write all as numbers, or all as dates of one form")


def lists(array: Any) -> tuple[NDArray[np.float32], int]:
    """The values of lists of equal length, one after the other, and that length; in text `[0.1, 0.2]`.

    Raises:
        ValueFault: a list is missing, is of another length, or holds what is no finite number.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    array = _decoded(array)
    if is_words(array):
        trimmed = words(array)
        _require_all(trimmed, "list")
        inside = pc.utf8_trim(pc.utf8_trim(trimmed, "[](){}"), " ")
        array = pc.split_pattern_regex(inside, BETWEEN_NUMBERS)
    elif not is_lists(array):
        raise ValueFault(0, f"values of the type {array.type} are no lists of numbers")
    _require_all(array, "list")
    lengths = pc.list_value_length(array).to_numpy(zero_copy_only=False)
    width = int(lengths[0]) if len(lengths) else 0
    if (odd := lengths != width).any():
        position = int(np.argmax(odd))
        raise ValueFault(position, f"the list has {lengths[position]} values where others have {width}")
    if len(lengths) and not width:
        raise ValueFault(0, "the list is empty")
    flat = pc.list_flatten(array)
    try:
        kept = flat.to_numpy(zero_copy_only=False) if pa.types.is_floating(flat.type) else numbers(flat)
    except ValueFault as problem:
        raise ValueFault(problem.position // max(1, width), f"in the list, {problem}") from problem
    if (odd := ~np.isfinite(kept)).any():
        raise ValueFault(int(np.argmax(odd)) // width, "a value of the list is missing, or is not finite")
    return kept.astype(np.float32, copy=False), width


def _require_all(array: Any, what: str) -> None:
    if array.null_count:
        raise ValueFault(int(np.argmax(array.is_null().to_numpy(zero_copy_only=False))), f"there is no {what}")


def _decoded(array: Any) -> Any:
    import pyarrow as pa

    return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array
