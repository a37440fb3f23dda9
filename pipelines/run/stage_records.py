"""What a finished stage was made from, for stages whose result cannot say so itself: pages and verifications.

A note lies in GRAPHPREP_HOME/notes, one file a result, called by a digest of the result's path. It holds what went in
and what came out, so that a page that was edited, or a cache that was touched, is not taken for what it was.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from graphprep.system import home
from graphprep.system.files.atomic import published_file
from graphprep.system.files.regular_file import regular_file


def is_noted(stage: str, output: Path, *, key: str, state: str) -> bool:
    """Whether a stage was finished with this input and its result is as it was then.

    Args:
        stage: its kind.
        output: the result's path.
        key: over all that goes in.
        state: over what there is, as `file_state` or `folder_state` give it.
    """
    try:
        return bool(json.loads(regular_file(_path(stage, output)).read_bytes()) == _note(stage, output, key, state))
    except (OSError, ValueError, RecursionError):
        return False


def has_note(stage: str, output: Path) -> bool:
    """Whether a stage ever made this result."""
    return _path(stage, output).exists()


def note(stage: str, output: Path, *, key: str, state: str) -> None:
    """Keep that a stage has been finished. Arguments as for `is_noted`."""
    path = _path(stage, output)
    path.parent.mkdir(parents=True, exist_ok=True)
    with published_file(path) as file:
        file.write(json.dumps(_note(stage, output, key, state), indent=1).encode())


def file_state(path: Path) -> str:
    """The content of a file as 64 hex digits; an empty text if there is none."""
    try:
        return hashlib.sha256(regular_file(path).read_bytes()).hexdigest()
    except OSError:
        return ""


def folder_state(folder: Path) -> str:
    """Names, sizes and times of all files below a folder as 64 hex digits; nothing is read."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        digest.update(f"{path.relative_to(folder)}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def _path(stage: str, output: Path) -> Path:
    return home.notes_folder() / f"{stage}-{hashlib.sha256(str(output.absolute()).encode()).hexdigest()[:32]}.json"


def _note(stage: str, output: Path, key: str, state: str) -> dict[str, str]:
    return {"stage": stage, "output": str(output.absolute()), "key": key, "state": state}
