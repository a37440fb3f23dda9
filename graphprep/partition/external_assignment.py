"""An assignment that was made elsewhere: one part number a node, read from a file and checked.

    .npy          an array of N whole numbers
    .npz          the array `assignment`, or the only one that the file holds
    .pt           a tensor, or a dictionary with one under `assignment`, or with nothing else; no pickle is run
    .txt, .K      one number a line, as METIS writes GRAPH.part.K

Part p goes to rank p of the topology, so every rank's number has to occur and no other.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.datasets.formats import torch_file
from graphprep.datasets.formats.arrays import Npz, map_npy
from graphprep.datasets.importing.edges.number_lines import number_lines
from graphprep.errors import DatasetError, PartitionError, UsageError
from graphprep.system.files.archive import Archive
from graphprep.system.files.regular_file import regular_file

ASSIGNMENT = "assignment"
"""The name of the method in reports, and of the array in files that hold several."""
Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExternalAssignment:
    """An assignment that was made elsewhere, checked against the graph and the topology."""

    path: Path | None
    """None for an array"""
    sha256: str
    """of the file or the array, 64 hex digits"""
    assignment_N: NDArray[np.int32]


def read_assignment(path: Path | Array, *, num_nodes: int, num_parts: int) -> ExternalAssignment:
    """Read an assignment and check it against the numbers of nodes and parts.

    Args:
        path: of the file, or the assignment itself, whole numbers [N].
        num_nodes, num_parts: N, and how many parts there are.

    Raises:
        UsageError: the file name has an unknown extension.
        PartitionError: there is no such file, it is damaged, or it is no assignment of so many nodes to so many parts.
    """
    if not isinstance(path, Path):
        if path.ndim != 1 or path.dtype.kind not in "iu":
            raise PartitionError(
                f"--assignment has shape {path.shape} and dtype {path.dtype}; give one part number a node"
            )
        _check(path, "(an array)", num_nodes, num_parts)
        parts_N = np.ascontiguousarray(path, np.int32)
        return ExternalAssignment(path=None, sha256=hashlib.sha256(parts_N.data).hexdigest(), assignment_N=parts_N)
    reader = _reader(path)
    try:
        parts = reader(path)
        with regular_file(path).open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except DatasetError as error:
        reason = str(error).removeprefix(f"{path}, ").removeprefix(f"{path}: ")
        raise PartitionError(f"--assignment {path}: {reason}; give one part number a node") from error
    except OSError as error:
        raise PartitionError(f"--assignment {path} cannot be read: {error.strerror}; give another file") from error
    _check(parts, path, num_nodes, num_parts)
    return ExternalAssignment(path=path, sha256=sha256, assignment_N=np.ascontiguousarray(parts, np.int32))


def _reader(path: Path) -> Callable[[Path], Array]:
    ending = path.suffix.lower()
    if ending == ".txt" or re.fullmatch(r"\.[0-9]+", ending):
        return _from_lines
    try:
        return {".npy": _from_npy, ".npz": _from_npz, ".pt": _from_pt}[ending]
    except KeyError:
        raise UsageError(
            f"--assignment {path} has an unknown extension; give .npy, .npz, .pt, .txt or METIS's GRAPH.part.K"
        ) from None


def _from_npy(path: Path) -> Array:
    return map_npy(path, "iu", (None,))


def _from_npz(path: Path) -> Array:
    with Archive(path) as archive:
        arrays = Npz(archive)
        return arrays.array(_the_one(sorted(arrays.names)), "iu", (None,))


def _from_pt(path: Path) -> Array:
    data = regular_file(path).read_bytes()
    if not data.startswith(torch_file.ZIP_MAGIC):
        raise DatasetError("it is no PyTorch file, or one of a release before 1.6")
    parts = torch_file.load(data)
    if isinstance(parts, dict):
        parts = parts[_the_one([name for name in parts if isinstance(name, str)])]
    if not isinstance(parts, np.ndarray) or parts.ndim != 1 or parts.dtype.kind not in "iu":
        raise DatasetError("it holds no tensor of whole numbers with one dimension")
    return parts


def _the_one(names: list[str]) -> str:
    if ASSIGNMENT in names:
        return ASSIGNMENT
    if len(names) != 1:
        raise DatasetError(f"it has no array {ASSIGNMENT!r}, but {', '.join(names) or 'nothing'}")
    return names[0]


def _from_lines(path: Path) -> Array:
    pieces = [np.zeros(0, np.int64)]
    for run in number_lines(path):
        odd = np.flatnonzero(np.diff(run.ends, prepend=0) != 1)
        if len(odd):
            raise DatasetError(f"line {run.lines[odd[0]]:,} does not hold one number")
        pieces.append(run.values)
    return np.concatenate(pieces)


def _check(parts_N: Array, path: Path | str, num_nodes: int, num_parts: int) -> None:
    """Each rule has its own error, with the expected and the actual value."""
    if len(parts_N) != num_nodes:
        raise PartitionError(
            f"--assignment {path} has {len(parts_N):,} part numbers for {num_nodes:,} nodes; "
            "it belongs to another graph, or to another order of its nodes"
        )
    odd = np.flatnonzero((parts_N < 0) | (parts_N >= num_parts))
    if len(odd):
        counted_from_1 = int(parts_N.min()) == 1 and int(parts_N.max()) == num_parts
        raise PartitionError(
            f"--assignment {path} puts node {odd[0]:,} in part {parts_N[odd[0]]}, but parts are 0 .. {num_parts - 1}; "
            + ("subtract 1 from its numbers" if counted_from_1 else "give the topology or --parts that it was made for")
        )
    sizes_P = np.bincount(parts_N, minlength=num_parts)
    if not sizes_P.all():
        empty = int(np.argmin(sizes_P))
        raise PartitionError(
            f"--assignment {path} leaves part {empty} without a node, and each of the {num_parts} ranks needs one; "
            "give the topology or --parts that it was made for"
        )
