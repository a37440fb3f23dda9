"""Resume the writing of a cache: steps that a killed run has finished are kept by the next one.

When all files of a step are written, their sizes and SHA-256 go to a record beside the cache, in the manifest's form. A
later run of the same content reads the files again and compares them; the step is kept only if all are unchanged.
(After a power cut a file may be truncated although its record is whole.) Records of other content, such as another
assignment, are deleted with their files.
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
from graphprep.system.files.atomic import published_file


class ResumableSteps:
    """Runs steps and collects the manifest's entries. Steps may run in threads."""

    def __init__(self, folder: Path, notes: Path, *, content: str) -> None:
        """Read the records of an earlier run.

        Args:
            folder: of the cache; created if it is missing.
            notes: folder of the records of finished steps; created if it is missing.
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
        """Run a step, unless an earlier run has finished it."""
        if self.has(name):
            self.keep(name)
            return
        writer = FolderWriter(self.folder)
        write(writer)
        self.done(name, writer.files)

    def done(self, name: str, files: Mapping[str, FileEntry]) -> None:
        """Record that a step is finished, by this process or a worker."""
        self._note(name, {path: asdict(entry) for path, entry in files.items()})
        self.files |= files

    def has(self, name: str) -> bool:
        """Whether an earlier run has finished a step, and its files are as they were; they are read once a run."""
        if name not in self._found:
            self._found[name] = self._look(self._notes / f"{name}.json")
        return self._found[name] is not None

    def keep(self, name: str) -> None:
        """Keep a step for which `has` is true."""
        self.files |= self._found[name] or {}
        self.kept += 1

    def remember(self, name: str, numbers: Mapping[str, int]) -> None:
        """Record numbers for a later run that keeps the steps."""
        self._note(name, dict(numbers))

    def remembered(self, name: str) -> dict[str, int] | None:
        """The numbers that an earlier run recorded, None if it did not."""
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
