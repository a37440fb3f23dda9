"""Writing a topology to a file that a person will read and edit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from graphprep.errors import UsageError
from graphprep.system.atomic import published_file
from graphprep.topology.network import Topology
from graphprep.topology.units import folder_name

MAX_COMMENT = 118
"""Characters of a comment line without its mark."""


def checked_out(out: Path, *, replace: bool, called: str = "--out") -> Path:
    """Where the file goes, asked before any work; `called` is the option that gave it.

    Raises:
        UsageError: the place is no file in a folder that exists, or there is a file that was not to be replaced.
    """
    if not out.name or out.is_dir() or not out.absolute().parent.is_dir():
        raise UsageError(f"{called} {str(out)!r} is no file in a folder that exists; give another path")
    if out.exists() and not replace:
        raise UsageError(f"{called} {out} exists already; give another path, or --replace")
    return out.absolute()


def chosen_name(name: str | None, out: Path | None, otherwise: str) -> str:
    """A topology's name: `name`, else that of its file with `-` for what cannot stand in a name, else `otherwise`.

    Raises:
        UsageError: `name` cannot name a topology.
    """
    if name is None:
        return re.sub(r"[^\w.-]+", "-", out.stem if out else "").lstrip(".-")[:100] or otherwise
    try:
        return folder_name(name)
    except ValueError as problem:
        raise UsageError(f"--name {problem}") from problem


def as_text(topology: Topology, comments: Sequence[str]) -> str:
    """The long form below `comments`, each on a line of its own and cut where it is far too long."""
    lines = [re.sub(r"\s+", " ", comment) for comment in comments]
    return "".join(f"# {line[:MAX_COMMENT]}\n" for line in lines) + topology.to_yaml()


def save(topology: Topology, comments: Sequence[str], out: Path) -> None:
    """Write the long form; the file has its name only when it is whole."""
    text = as_text(topology, comments)
    Topology.from_text(text, origin=str(out))
    with published_file(out) as file:
        file.write(text.encode())
