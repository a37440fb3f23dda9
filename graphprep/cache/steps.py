"""The steps in which a cache is written: what a killed run has finished is kept by the next one.

When all files of a step are written, their sizes and sums go to a file beside the cache, as they will stand in the
manifest. A later run of the same content reads the files again and compares them; only if all are as they were is the
step kept. (After a power cut a file may be shorter than it was, and the note of it whole.) Notes of other content, such
as an assignment that was lost and made anew, are thrown away with all that they stand for.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from graphprep.cache.array_file import FolderWriter
from graphprep.cache.manifest import FileEntry, file_sha256
from graphprep.publish import published_file


class Steps:
    """Runs steps and gathers the manifest's entries. Steps may run in threads."""

    def __init__(self, folder: Path, notes: Path, *, content: str) -> None:
        """Take up what is there.

        Args:
            folder: of the cache; made if need be.
            notes: folder of what is known of finished steps; made if need be.
            content: a digest of what the cache is written from.
        """
        self.folder, self._notes = folder, notes
        of = notes / "content"
        if not of.is_file() or of.read_text() != content:
            for path in (folder, notes):
                shutil.rmtree(path, ignore_errors=True)
        self.files: dict[str, FileEntry] = {}
        self.kept = 0
        """steps that an earlier run had finished"""
        for path in (folder, notes):
            path.mkdir(parents=True, exist_ok=True)
        with published_file(of) as file:
            file.write(content.encode())

    def run(self, name: str, write: Callable[[FolderWriter], None]) -> None:
        """Do a step, unless it is done."""
        note = self._notes / f"{name}.json"
        found = self._finished(note)
        if found is None:
            writer = FolderWriter(self.folder)
            write(writer)
            found = writer.files
            with published_file(note) as file:
                file.write(json.dumps({path: asdict(entry) for path, entry in found.items()}).encode())
        else:
            self.kept += 1
        self.files |= found

    def _finished(self, note: Path) -> dict[str, FileEntry] | None:
        """What a finished step has written, if that is still as it was."""
        try:
            found = {path: FileEntry(**entry) for path, entry in json.loads(note.read_bytes()).items()}
            whole = all(
                (self.folder / path).stat().st_size == entry.size and file_sha256(self.folder / path) == entry.sha256
                for path, entry in found.items()
            )
        except (OSError, ValueError, TypeError, AttributeError):
            return None
        return found if found and whole else None
