"""An assignment made elsewhere: every format says the same, and a file that is none is refused in one sentence."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from graphprep.errors import GraphprepError, PartitionError, UsageError
from graphprep.partition.external_assignment import read_assignment

PARTS = np.array([0, 2, 1, 1, 0, 2, 2], np.int64)


def as_lines(path: Path, parts: NDArray[np.int64]) -> None:
    path.write_text("".join(f"{part}\n" for part in parts))


WRITERS: dict[str, Callable[[Path, NDArray[np.int64]], object]] = {
    "a.npy": lambda path, parts: np.save(path, parts),
    "b.npy": lambda path, parts: np.save(path, parts.astype(np.uint8)),
    "a.npz": lambda path, parts: np.savez(path, assignment=parts, nodes=np.arange(9)),
    "b.npz": lambda path, parts: np.savez(path, parts.astype(np.int16)),
    "a.pt": lambda path, parts: torch.save(torch.from_numpy(parts), path),
    "b.pt": lambda path, parts: torch.save({"node_map": torch.from_numpy(parts)}, path),
    "a.txt": as_lines,
    "graph.part.3": as_lines,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_says_the_same(tmp_path: Path, name: str) -> None:
    """Guards against a reader that shifts, drops or reorders part numbers."""
    path = tmp_path / name
    WRITERS[name](path, PARTS)
    given = read_assignment(path, num_nodes=7, num_parts=3)
    assert given.assignment_N.dtype == np.int32
    assert given.assignment_N.tolist() == PARTS.tolist()
    assert given.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([0, 1, 2], "3 part numbers for 7 nodes"),
        ([], "0 part numbers for 7 nodes"),
        ([0, 1, 2, 0, 3, 1, 2], "puts node 4 in part 3, but parts are 0 .. 2"),
        ([0, 1, 2, 0, -1, 1, 2], "puts node 4 in part -1"),
        ([1, 2, 3, 1, 2, 3, 3], "subtract 1"),
        ([0, 0, 2, 2, 0, 2, 0], "leaves part 1 without a node"),
    ],
)
def test_what_is_no_assignment_is_refused(tmp_path: Path, parts: list[int], expected: str) -> None:
    """Guards against a crash, or a wrong cache, far from the file that was wrong."""
    path = tmp_path / "parts.npy"
    np.save(path, np.array(parts, np.int64))
    with pytest.raises(PartitionError, match=expected):
        read_assignment(path, num_nodes=7, num_parts=3)


class Harmful:
    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return print, ("ran",)


@pytest.mark.parametrize(
    ("name", "content", "error", "expected"),
    [
        ("parts.npy", None, PartitionError, "No such file"),
        ("parts.csv", b"0\n", UsageError, "has an unknown extension"),
        ("parts", b"0\n", UsageError, "has an unknown extension"),
        ("parts.npy", b"\x93NUMPY\x01\x00", PartitionError, "damaged"),
        ("parts.npy", b"<!DOCTYPE html><html></html>", PartitionError, "HTML"),
        ("parts.npz", b"PK\x03\x04", PartitionError, "no zip archive, or is cut short"),
        ("parts.txt", b"0\n1\n1.5\n", PartitionError, "line 3"),
        ("parts.txt", b"0\n1 2\n1\n", PartitionError, "line 2 does not hold one number"),
        ("parts.txt", b"0\n\n1\n", PartitionError, "line 2 does not hold one number"),
        ("parts.pt", pickle.dumps(Harmful()), PartitionError, "no PyTorch file"),
    ],
)
def test_files_that_are_something_else(
    tmp_path: Path,
    name: str,
    content: bytes | None,
    error: type[GraphprepError],
    expected: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Guards against tracebacks, and against a pickle that is run."""
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=expected) as caught:
        read_assignment(path, num_nodes=7, num_parts=3)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"--assignment {path}")
    assert "ran" not in capsys.readouterr().out


def test_arrays_of_another_kind(tmp_path: Path) -> None:
    """Guards against truncated fractions, and against a matrix that is read as a list."""
    for number, array in enumerate((PARTS / 2, PARTS.reshape(1, -1))):
        path = tmp_path / f"{number}.npy"
        np.save(path, array)
        with pytest.raises(PartitionError, match="not integers"):
            read_assignment(path, num_nodes=7, num_parts=3)
    path = tmp_path / "several.npz"
    np.savez(path, one=PARTS, two=PARTS)
    with pytest.raises(PartitionError, match="no array 'assignment', but one, two"):
        read_assignment(path, num_nodes=7, num_parts=3)
