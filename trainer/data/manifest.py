"""The manifest of a cache: which files it has, how long they are, and their SHA-256.

A rank reads few files, and most of them it maps rather than reads. So the small ones (JSON) are checked against their
digest whenever they are read, the large ones against their size before they are mapped, and the large ones' digests
only on request (--verify), because that reads every byte.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.base.errors import CacheError
from trainer.base.regular_file import regular_file

_NAME = "manifest.json"
_DIGEST_NAME = "manifest.sha256"


def is_finished(folder: Path) -> bool:
    """Whether a folder looks like a finished cache: it has a manifest with its checksum."""
    return all((folder / name).is_file() for name in (_NAME, _DIGEST_NAME))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The files of one cache folder, by their path inside it."""

    folder: Path
    key: str
    """64 hex digits over all that determines the cache's content."""
    entries: Mapping[str, _Entry]

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read and check `manifest.json`.

        Raises:
            CacheError: the cache was never finished, or its manifest is not the one that was written.
        """
        for name in (_NAME, _DIGEST_NAME):
            if not (folder / name).is_file():
                raise CacheError(
                    f"{folder} is not a finished cache: it has no {name}; "
                    "make it (again) with graphprep partition, or copy all of it"
                )
        text = _read(folder, _NAME)
        stated = _read(folder, _DIGEST_NAME).decode("ascii", "replace").strip()
        if hashlib.sha256(text).hexdigest() != stated:
            raise _damaged(folder, _NAME, f"differs from the checksum in {_DIGEST_NAME}")
        content = _parse(folder, _NAME, text)
        try:
            files = {
                name: _Entry(size=int(entry["size"]), sha256=str(entry["sha256"]))
                for name, entry in content["files"].items()
            }
            return cls(folder=folder, key=str(content["key"]), entries=files)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise _damaged(folder, _NAME, f"does not have the form of a manifest ({error!r})") from error

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def json(self, name: str) -> dict[str, Any]:
        """The object in the JSON file `name`, after its size and digest are checked.

        Raises:
            CacheError: the file is missing, changed or no JSON object.
        """
        self.sized(name)
        text = _read(self.folder, name)
        if hashlib.sha256(text).hexdigest() != self.entries[name].sha256:
            raise _damaged(self.folder, name, "differs from its checksum in the manifest")
        return _parse(self.folder, name, text)

    def sized(self, name: str) -> Path:
        """The path of file `name`, after its size is checked.

        Raises:
            CacheError: the manifest does not list the file, it is missing, or its size is wrong.
        """
        if name not in self.entries:
            raise _damaged(self.folder, name, "is not listed in the manifest")
        path = self.folder / name
        try:
            size = regular_file(path).stat().st_size
        except OSError as error:
            raise _damaged(self.folder, name, f"cannot be read ({error.strerror})") from error
        if size != self.entries[name].size:
            raise _damaged(self.folder, name, f"has {size} bytes and should have {self.entries[name].size}")
        return path

    def verify(self, prefix: str) -> int:
        """Check the digest of every file whose path starts with `prefix`.

        Returns:
            the number of bytes read.

        Raises:
            CacheError: a file is missing or differs.
        """
        total = 0
        for name in self._below(prefix):
            path = self.sized(name)
            try:
                with regular_file(path).open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise _damaged(self.folder, name, f"cannot be read ({error.strerror})") from error
            if digest != self.entries[name].sha256:
                raise _damaged(self.folder, name, "differs from its checksum in the manifest")
            total += self.entries[name].size
        return total

    def _below(self, prefix: str) -> Iterator[str]:
        return (name for name in self.entries if name.startswith(prefix))

    def damaged(self, name: str, what: str) -> CacheError:
        """The error that file or folder `name` of this cache `what`."""
        return _damaged(self.folder, name, what)


def read_unlisted_json(folder: Path, name: str) -> dict[str, Any]:
    """The object in the JSON file `name`, before any manifest vouches for it.

    Raises:
        CacheError: the file cannot be read or is no JSON object.
    """
    return _parse(folder, name, _read(folder, name))


def _read(folder: Path, name: str) -> bytes:
    try:
        return regular_file(folder / name).read_bytes()
    except OSError as error:
        raise _damaged(folder, name, f"cannot be read ({error.strerror})") from error


def _parse(folder: Path, name: str, text: bytes) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise _damaged(folder, name, "is not JSON") from error
    except RecursionError as error:
        raise _damaged(folder, name, "has JSON that is nested too deeply") from error
    if not isinstance(content, dict):
        raise _damaged(folder, name, "has no JSON object")
    return content


def _damaged(folder: Path, name: str, what: str) -> CacheError:
    return CacheError(f"{folder / name} {what}; run graphprep verify {folder}, or partition again")
