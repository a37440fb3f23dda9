"""Labels of nodes: classes, several labels a node, or numbers to predict; which of them an array holds.

    array                                   taken for
    whole numbers [N] or [N, 1]             classes, -1 or NaN for none
    truth values, or 0 and 1, [N, C]        labels of which a node may have several, NaN for unknown
    floats [N, 1]                           numbers to predict, NaN for unknown; classes if there are only 0, 1, -1
    floats [N, C]                           several labels or numbers, as the trainer's --task says

A column of a table has the shape [N, 1] whatever it means, and pandas makes floats of whole numbers with gaps. So the
floats of a table are classes if they are whole. `task` overrules all of this: `regression` makes numbers to predict of
any numbers, `classification` classes (or several labels) of whole ones.

Letters: N nodes, C classes, labels or numbers a node.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.choices import LabelTask
from graphprep.datasets.formats.checks import classes
from graphprep.datasets.formats.dtypes import storable
from graphprep.errors import DatasetError
from graphprep.system import progress

Array = NDArray[Any]
IF_NUMBERS = "if they are numbers to predict, give --task regression"
FLOAT32_WHOLE = 2**24
"""float32 holds all whole numbers up to here"""


def checked_labels(y: Array, *, task: LabelTask = "auto", origin: str = "labels", is_table: bool = False) -> Array:
    """`y` as labels: int64 [N] with -1 for none, or bool or float [N, C] with NaN for unknown.

    Where floats might be either, a line on standard error says what they were taken for.

    Args:
        y: any array.
        task: what they are for; `auto` goes by dtype and shape.
        origin: begins that line: the file.
        is_table: whether the array is columns of a table, so that its shape says nothing.

    Raises:
        DatasetError: something in it is no label of that task; as the end of a sentence.
    """
    if not y.size:
        raise DatasetError("it holds no labels")
    if y.dtype.kind in "biuf":
        y = storable(y, origin)
    if task == "regression":
        return _numbers(y)
    if y.ndim == 2 and y.shape[1] == 1 and (task == "classification" or _is_column_of_classes(y, origin, is_table)):
        y = y[:, 0]
    return _label_table(y, task) if y.ndim == 2 else _classes(y)


def _is_column_of_classes(y: Array, origin: str, is_table: bool) -> bool:
    """Whether an array [N, 1] is a class a node. Of floats that are whole numbers, a line says how it was decided."""
    if y.dtype.kind != "f":
        return True
    known = y[~np.isnan(y)]
    if bool((~np.isfinite(known) | (known != np.floor(known))).any()):
        return False
    are_classes = is_table or bool(((known >= -1) & (known <= 1)).all())
    chosen, other = ("classes", "regression") if are_classes else ("numbers to predict", "classification")
    progress.say(f"{origin}: a column of whole numbers as floats is taken for {chosen}; --task {other} changes that")
    return are_classes


def _numbers(y: Array) -> Array:
    """Numbers to predict, float [N, C]."""
    if y.ndim not in (1, 2) or y.dtype.kind not in "biuf":
        raise DatasetError(f"it holds shape {y.shape} and dtype {y.dtype}, not one number or more a node")
    y = y[:, None] if y.ndim == 1 else y
    if y.dtype.kind != "f":
        exact = y.dtype.kind == "b" or (int(y.min()) >= -FLOAT32_WHOLE and int(y.max()) <= FLOAT32_WHOLE)
        return y.astype(np.float32 if exact else np.float64)
    if (odd := np.isinf(y).any(axis=1)).any():
        raise DatasetError(f"row {int(np.argmax(odd))} is infinite; numbers to predict are finite, or NaN for unknown")
    return y


def _classes(y: Array) -> NDArray[np.int64]:
    if y.ndim != 1 or y.dtype.kind not in "iuf":
        raise DatasetError(f"it holds shape {y.shape} and dtype {y.dtype}, not one class a node")
    if y.dtype.kind == "f":
        y = np.where(np.isnan(y), -1, y)
        if (odd := ~np.isfinite(y) | (y != np.floor(y))).any():
            row = int(np.argmax(odd))
            raise DatasetError(f"row {row} is {y[row]}, not the number of a class; {IF_NUMBERS}")
    return classes(y, f"; {IF_NUMBERS}")


def _label_table(y: Array, task: LabelTask) -> Array:
    """Several labels a node: truth values, or numbers with NaN for unknown."""
    if y.dtype.kind == "b":
        return y
    flags = y.dtype.kind in "iuf" and bool(((y == 0) | (y == 1) | np.isnan(y)).all())
    if flags and y.dtype.kind != "f":
        return y.astype(np.bool_)
    if y.dtype.kind != "f" or bool(np.isinf(y).any()) or (task == "classification" and not flags):
        also = "" if y.dtype.kind not in "iuf" else f"; {IF_NUMBERS}"
        raise DatasetError(
            f"it holds shape {y.shape} and dtype {y.dtype}, not 0 or 1 (or NaN for unknown) for each label{also}"
        )
    return y
