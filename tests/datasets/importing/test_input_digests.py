"""The checksums of a user's files."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from graphprep.datasets.importing import input_digests
from graphprep.datasets.importing.input_digests import InputDigests
from graphprep.errors import DatasetError


def test_all_files_with_their_roles(tmp_path: Path) -> None:
    """A store's key covers every byte of every file, also of files longer than one read."""
    long = os.urandom(2 * input_digests.BYTES_AT_A_TIME + 5)
    (tmp_path / "edges").write_bytes(long)
    (tmp_path / "labels").write_bytes(b"")
    with InputDigests([("edges", tmp_path / "edges"), ("labels", tmp_path / "labels")]) as digests:
        found = digests.result()
    assert found == [
        {"role": "edges", "name": "edges", "bytes": len(long), "sha256": hashlib.sha256(long).hexdigest()},
        {"role": "labels", "name": "labels", "bytes": 0, "sha256": hashlib.sha256(b"").hexdigest()},
    ]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """It is named before anything else is done."""
    with pytest.raises(DatasetError, match="none cannot be read"), InputDigests([("edges", tmp_path / "none")]):
        pass


def test_a_file_that_changes_meanwhile(tmp_path: Path) -> None:
    """The checksum of one content is never kept for the edges of another."""
    path = tmp_path / "edges"
    path.write_text("0 1\n")
    with InputDigests([("edges", path)]) as digests:
        digests.result()
        path.write_text("0 1\n1 2\n")
        with pytest.raises(DatasetError, match="has changed while it was being read"):
            digests.result()


def test_leaving_early_does_not_wait_for_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the first line of a file of many gigabytes is said at once."""
    path = tmp_path / "edges"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole, which takes minutes to read
    started = time.monotonic()
    with pytest.raises(DatasetError, match="first line"), InputDigests([("edges", path)]):
        raise DatasetError("first line")
    assert time.monotonic() - started < 30  # a terabyte's reading takes minutes
