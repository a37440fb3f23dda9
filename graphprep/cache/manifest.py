"""The manifest: every file of a cache with its size and SHA-256, and the sum of the manifest itself.

It is written last, so its presence says that all the rest was written before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from graphprep.cache.format import CACHE_FORMAT, KNOWN_FORMATS, MANIFEST, MANIFEST_SUM
from graphprep.errors import CacheError
from graphprep.system.files.regular_file import regular_file


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file of the cache."""

    size: int
    """bytes"""
    sha256: str
    """64 hex digits"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a whole cache consists of."""

    key: str
    files: Mapping[str, FileEntry]
    """by path relative to the cache, with / between folders"""

    def write(self, folder: Path) -> None:
        """Write manifest.json and manifest.sha256 into `folder`."""
        text = json.dumps(
            {
                "graphprep_format": CACHE_FORMAT,
                "key": self.key,
                "files": {
                    path: {"size": entry.size, "sha256": entry.sha256} for path, entry in sorted(self.files.items())
                },
            },
            indent=1,
        )
        payload = text.encode()
        (folder / MANIFEST).write_bytes(payload)
        (folder / MANIFEST_SUM).write_text(hashlib.sha256(payload).hexdigest() + "\n")

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read and check the manifest of a cache.

        Raises:
            CacheError: it is absent (the cache is unfinished), damaged, or of another format.
        """
        try:
            payload = regular_file(folder / MANIFEST).read_bytes()
            expected = regular_file(folder / MANIFEST_SUM).read_text(errors="replace").strip()
        except OSError as error:
            raise CacheError(
                f"{folder} is not a finished partition cache: {Path(str(error.filename)).name} is missing or cannot be "
                "read; run `graphprep partition` again"
            ) from error
        if hashlib.sha256(payload).hexdigest() != expected:
            raise CacheError(f"{folder}: manifest.json does not match manifest.sha256; partition again with --replace")
        try:
            document = json.loads(payload)
            if document["graphprep_format"] not in KNOWN_FORMATS:
                raise CacheError(other_format(folder, document["graphprep_format"]))
            files = {path: FileEntry(**entry) for path, entry in document["files"].items()}
            return cls(key=document["key"], files=files)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise CacheError(
                f"{folder}: manifest.json is not of the form of one; partition again with --replace"
            ) from error

    def check_sizes(self, folder: Path) -> None:
        """Compare every file's size; quick, since nothing is read.

        Raises:
            CacheError: the first file that is missing or of another size.
        """
        for path, entry in self.files.items():
            try:
                size = regular_file(folder / path).stat().st_size
            except OSError as error:
                missing = isinstance(error, FileNotFoundError | NotADirectoryError)
                reason = "is missing" if missing else f"cannot be read ({error.strerror})"
                raise CacheError(f"{folder}: {path} {reason}; partition again with --replace") from error
            if size != entry.size:
                raise CacheError(
                    f"{folder}: {path} has {size} bytes, the manifest says {entry.size}; partition again with --replace"
                )

    def check_file(self, folder: Path, path: str) -> None:
        """Read one file and compare its SHA-256.

        Raises:
            CacheError: it differs, or cannot be read.
        """
        try:
            found = file_sha256(folder / path)
        except OSError as error:
            raise CacheError(
                f"{folder}: {path} cannot be read ({error.strerror}); partition again with --replace"
            ) from error
        if found != self.files[path].sha256:
            raise CacheError(f"{folder}: {path} has changed since it was written; partition again with --replace")

    def unlisted(self, folder: Path) -> list[str]:
        """Files below `folder` that the manifest does not list, sorted."""
        known = {*self.files, MANIFEST, MANIFEST_SUM}
        found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
        return sorted(path for path in found if path not in known)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file as hex digits."""
    with regular_file(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def other_format(folder: Path, found: object) -> str:
    """What to say of a cache whose format this release does not know."""
    return (
        f"{folder} has cache format {found}, this release reads formats {' and '.join(map(str, KNOWN_FORMATS))}; "
        "partition again with this release, or install the one that wrote it"
    )
