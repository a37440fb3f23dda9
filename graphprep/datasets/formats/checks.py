"""Checks of labels, features and splits that all readers of published datasets share.

All errors are the ends of sentences that begin with the file; `reading` puts the file in front. Labels out of range,
features that are not finite and node numbers that do not exist would show much later, as an index error in a kernel or
a loss of NaN.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphprep.errors import DatasetError
from graphprep.system.files.scratch import NoRoomError, RowSink

if TYPE_CHECKING:
    from graphprep.datasets.entry import DatasetEntry

Array = NDArray[Any]
ROWS_AT_ONCE_BYTES = 16 << 20


def file_of(folder: Path, entry: DatasetEntry) -> Path:
    """The one file of an entry.

    Raises:
        DatasetError: the registry lists none, or several.
    """
    if len(entry.files) != 1:
        raise DatasetError(f"{entry.name}: the reader {entry.source} takes one file, not {len(entry.files)}")
    return folder / entry.files[0].file_name


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Makes whole sentences of the errors about `path`.

    Raises:
        DatasetError: what the block raised, or that the file cannot be read.
        NoRoomError: as the block raised it; the file is not to blame.
    """
    try:
        yield
    except NoRoomError:
        raise
    except DatasetError as problem:
        raise DatasetError(f"{path} is damaged: {problem}; remove it and fetch again") from problem
    except OSError as problem:
        reason = problem.strerror or problem
        raise DatasetError(f"{path} cannot be read ({reason}); fetch the dataset again") from problem


def classes(y: Array, hint: str = "") -> NDArray[np.int64]:
    """Labels as int64 [N], -1 for none; `hint` ends the error of those that are none.

    Raises:
        DatasetError: a label is below -1, or is N or above.
    """
    if len(odd := np.flatnonzero((y < -1) | (y >= max(len(y), 2)))):
        raise DatasetError(
            f"row {odd[0]} has the class {y[odd[0]]}: classes are numbered from 0, -1 is no class, and there cannot be "
            f"more of them than the {len(y):,} nodes{hint}"
        )
    return y.astype(np.int64)


def features(x: Array, folder: Path) -> Array:
    """Features [N, F], finite, float64 narrowed to float32 as PyTorch Geometric reads them.

    Args:
        x: numbers, in memory or mapped.
        folder: where a large narrowed copy goes.

    Raises:
        DatasetError: a value is not finite, also after it is narrowed.
        NoRoomError: the copy is large, and the disk has no room for it.
    """
    if x.dtype.kind != "f":
        return x
    rows = max(1, ROWS_AT_ONCE_BYTES // max(1, x.shape[1] * x.itemsize))
    narrowed = RowSink(x.shape, np.dtype(np.float32), folder) if x.dtype == np.float64 else None
    for start in range(0, len(x), rows):
        piece = x[start : start + rows]
        if narrowed is not None:
            with np.errstate(over="ignore"):
                piece = piece.astype(np.float32)
            narrowed.add(piece)
        if not (fine := np.isfinite(piece).all(axis=1)).all():
            raise DatasetError(f"row {start + int(np.argmin(fine))} of its features holds a value that is not finite")
    return x if narrowed is None else narrowed.array()


def flags(y: Array) -> NDArray[np.bool_]:
    """A table of 0 and 1 as truth values [N, C].

    Raises:
        DatasetError: it holds something else.
    """
    if not (fine := ((y == 0) | (y == 1)).all(axis=1)).all():
        raise DatasetError(f"row {int(np.argmin(fine))} of its labels holds something else than 0 and 1")
    return y.astype(np.bool_)


def node_mask(nodes: Array, num_nodes: int, what: str) -> NDArray[np.bool_]:
    """The mask of a list of nodes, bool [N, 1].

    Raises:
        DatasetError: a node does not exist, or is named twice; `what` says of which list.
    """
    mask = np.zeros((num_nodes, 1), np.bool_)
    mask[node_ids(nodes, num_nodes, what)] = True
    if int(mask.sum()) != len(nodes):
        raise DatasetError(f"{what} names a node twice")
    return mask


def disjoint(masks: Mapping[str, NDArray[np.bool_]]) -> dict[str, NDArray[np.bool_]]:
    """The same masks, bool [N, S] by their names in the file, after `require_disjoint`."""
    require_disjoint({f"its {name}": mask for name, mask in masks.items()})
    return dict(masks)


def require_disjoint(masks: Mapping[str, NDArray[np.bool_]]) -> None:
    """Masks of one split may not share a node.

    Args:
        masks: bool [N, S] by what they are called.

    Raises:
        DatasetError: two do, or they are for different numbers of splits.
    """
    for (other_name, other), (name, mask) in itertools.combinations(masks.items(), 2):
        if mask.shape != other.shape:
            raise DatasetError(
                f"{name} has {mask.shape[1]} splits but {other_name} has {other.shape[1]}; they must agree"
            )
        if len(both := np.argwhere(mask & other)):
            node, split = both[0]
            of_split = f" of split {split}" if mask.shape[1] > 1 else ""
            raise DatasetError(
                f"{name} and {other_name} share the node {node}{of_split}; a node can be in one of them only"
            )


def node_ids(ids: Array, num_nodes: int, what: str) -> Array:
    """The same ids, after making sure that all are nodes.

    Raises:
        DatasetError: one is not.
    """
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < num_nodes:
        odd = int(np.argmax((ids.ravel() < 0) | (ids.ravel() >= num_nodes)))
        raise DatasetError(f"{what} names the node {ids.ravel()[odd]}, but nodes are 0 .. {num_nodes - 1:,}")
    return ids
