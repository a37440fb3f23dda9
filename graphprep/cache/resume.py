"""The steps in which a cache is written: what a killed run has finished is kept by the next one.

When all files of a step are written, their sizes and sums go to a file beside the cache, as they will stand in the
manifest. A later run of the same content reads the files again and compares them; only if all are as they were is the
step kept. (After a power cut a file may be shorter than it was, and the note of it whole.) Notes of other content, such
as an assignment that was lost and made anew, are thrown away with all that they stand for.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from graphprep.cache.array_writer import FolderWriter
from graphprep.cache.manifest import FileEntry, file_sha256
from graphprep.system.atomic import published_file


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
        self._found: dict[str, dict[str, FileEntry] | None] = {}
        self.kept = 0
        """steps that an earlier run had finished"""
        for path in (folder, notes):
            path.mkdir(parents=True, exist_ok=True)
        with published_file(of) as file:
            file.write(content.encode())

    def run(self, name: str, write: Callable[[FolderWriter], None]) -> None:
        """Do a step, unless it is done."""
        if self.has(name):
            self.keep(name)
            return
        writer = FolderWriter(self.folder)
        write(writer)
        self.done(name, writer.files)

    def done(self, name: str, files: Mapping[str, FileEntry]) -> None:
        """Note that a step has been done, whoever did it."""
        self._note(name, {path: asdict(entry) for path, entry in files.items()})
        self.files |= files

    def has(self, name: str) -> bool:
        """Whether an earlier run has finished a step, and its files are as they were; they are read once a run."""
        if name not in self._found:
            self._found[name] = self._look(self._notes / f"{name}.json")
        return self._found[name] is not None

    def keep(self, name: str) -> None:
        """Take a step that `has` was true of as it is."""
        self.files |= self._found[name] or {}
        self.kept += 1

    def remember(self, name: str, numbers: Mapping[str, int]) -> None:
        """Keep numbers that were found on the way, for a run that finds the steps done."""
        self._note(name, dict(numbers))

    def remembered(self, name: str) -> dict[str, int] | None:
        """What an earlier run has kept, None if it has not."""
        try:
            found = json.loads((self._notes / f"{name}.json").read_bytes())
            return {str(key): int(value) for key, value in found.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return None

    def _note(self, name: str, content: dict[str, Any]) -> None:
        with published_file(self._notes / f"{name}.json") as file:
            file.write(json.dumps(content).encode())

    def _look(self, note: Path) -> dict[str, FileEntry] | None:
        try:
            found = {path: FileEntry(**entry) for path, entry in json.loads(note.read_bytes()).items()}
            whole = all(
                (self.folder / path).stat().st_size == entry.size and file_sha256(self.folder / path) == entry.sha256
                for path, entry in found.items()
            )
        except (OSError, ValueError, TypeError, AttributeError):
            return None
        return found if found and whole else None
