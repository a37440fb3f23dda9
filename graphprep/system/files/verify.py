"""Verification of a downloaded file: that it is the right one, and whole.

Three ways to know, from the strongest to the weakest: its SHA-256; a `check` by its reader, which opens it and reads it
to the end; and what servers give in place of a file (nothing, an HTML page with status 200, a Git-LFS pointer), known
by its first bytes. A known checksum makes the other two needless, but they name the reason when it does not match.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from graphprep.errors import DatasetError
from graphprep.system.files.regular_file import regular_file

FileCheck = Callable[[Path], object]
"""Reads a whole file and raises DatasetError with what is wrong with it, as the end of a sentence."""

HEAD_BYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file to fetch, and all that is known about it beforehand."""

    url: str
    name: str
    """its name in the folder that it goes to"""
    bytes: int | None = None
    sha256: str | None = None
    """64 hex digits, lower case"""
    check: FileCheck | None = None
    """used where there is no checksum"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A file that lies in its folder and has been verified."""

    name: str
    url: str
    """where the registry says that it comes from, whatever mirror it was copied from"""
    path: Path
    bytes: int
    sha256: str


def substitute(head: bytes) -> str | None:
    """What `head`, the first bytes of a file, show it to be instead of data; None if nothing is suspicious."""
    if not head:
        return "it is empty"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if text.startswith(b"version https://git-lfs"):
        return "it is a Git-LFS pointer, not the data that it points to (`git lfs pull` fetches that)"
    if text.startswith((b"<!doctype html", b"<html", b"<head")) or (text.startswith(b"<?xml") and b"<html" in text):
        return "it is an HTML page, not data (a login page, an error page or a proxy's)"
    return None


def verify(path: Path, file: RemoteFile) -> str:
    """Make sure that `path` holds `file`.

    Returns:
        Its SHA-256.

    Raises:
        DatasetError: what is wrong, as the end of a sentence.
        OSError: it cannot be read.
    """
    size = regular_file(path).stat().st_size
    with path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
        stream.seek(0)
        suspect = substitute(head)
        if file.bytes is not None and size != file.bytes:
            raise DatasetError(suspect or f"it has {size:,} bytes instead of {file.bytes:,}")
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if file.sha256 is not None:
        if digest != file.sha256:
            raise DatasetError(suspect or f"its SHA-256 is {digest} instead of {file.sha256}")
        return digest
    if suspect:
        raise DatasetError(suspect)
    if file.check is not None:
        file.check(path)
    return digest
