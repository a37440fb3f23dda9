"""Writing a topology to a file that a person will read and edit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from graphprep.errors import UsageError
from graphprep.system.files.atomic import published_file
from graphprep.topology.network import Topology
from graphprep.topology.units import folder_name

MAX_COMMENT = 118
"""Characters of a comment line without its mark."""


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
