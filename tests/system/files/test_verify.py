"""What servers give in place of a file, told by its first bytes."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from graphprep.errors import DatasetError
from graphprep.system.files.verify import RemoteFile, substitute, verify


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"", "empty"),
        (b"\n \xef\xbb\xbf<html>"[2:], "HTML"),
        (b"\r\n<!DOCTYPE HTML PUBLIC", "HTML"),
        (b'<?xml version="1.0"?>\n<html xmlns="x">', "HTML"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "Git-LFS"),
    ],
)
def test_substitutes(head: bytes, words: str) -> None:
    """Pages begin with marks, blank lines and prologues."""
    found = substitute(head)
    assert found is not None
    assert words in found


@pytest.mark.parametrize(
    "head", [b"\n\n0 1\n", gzip.compress(b"<html>", mtime=0), b"\x80\x02c", b"<a> 1\n", b"<?xml?><graphml>"]
)
def test_data_is_not_suspected(head: bytes) -> None:
    """Data that only resembles a page must not be refused."""
    assert substitute(head) is None


def test_checksum_is_stronger_than_suspicion(tmp_path: Path) -> None:
    """What the registry pins is right, whatever it looks like, and its reader is not asked again."""

    def check(path: Path) -> None:
        raise AssertionError(path)

    page = b"<html>"
    (tmp_path / "a").write_bytes(page)
    digest = "b7d082ee12e91b756ea22e8513b8594eebcf5d39fab813da3cb55794dc888ad7"
    assert verify(tmp_path / "a", RemoteFile(url="u", name="a", bytes=6, sha256=digest, check=check)) == digest
    with pytest.raises(DatasetError, match="HTML page"):
        verify(tmp_path / "a", RemoteFile(url="u", name="a", bytes=7, sha256=digest))
