"""graphprep.json, by which an exported folder is known as one, and which says what was exported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from graphprep.cache.read import PartitionCache
from graphprep.system.files.regular_file import regular_file
from graphprep.version import __version__

MARKER = "graphprep.json"
EXPORT_KIND = "export"
FILES = "files"
KEPT = (
    "dataset",
    "num_parts",
    "node_types",
    "edge_types",
    "node_offsets",
    "directed",
    "num_features",
    "num_classes",
    "num_splits",
    "task",
)
"""Root attributes of the cache that a reader of the export may want."""


def marker_of(cache: PartitionCache, name: str) -> dict[str, Any]:
    """What graphprep.json says of a cache exported in the format called `name`."""
    return {
        "graphprep_kind": EXPORT_KIND,
        "format": name,
        "cache_key": cache.key,
        "cache_content": cache.content_sha256,
        "tool_version": __version__,
        **{attribute: cache.attributes[attribute] for attribute in KEPT},
    }


def write_marker(folder: Path, marker: dict[str, Any]) -> None:
    """Write graphprep.json into `folder`, with the sizes of the files that are there."""
    (folder / MARKER).write_text(json.dumps({**marker, FILES: _sizes(folder)}, indent=1, allow_nan=False) + "\n")


def says(found: dict[str, Any], marker: dict[str, Any]) -> bool:
    """Whether what `read_marker` gave is about the same cache in the same format as `marker`."""
    return {name: value for name, value in found.items() if name != FILES} == marker


def missing_files(folder: Path, found: dict[str, Any]) -> list[str]:
    """The files of an export that are not there, or have another size than when they were written.

    Args:
        folder: of the export.
        found: what `read_marker` gave.
    """
    written, there = found.get(FILES), _sizes(folder)
    if not isinstance(written, dict):
        return [MARKER]
    return sorted(name for name, size in written.items() if there.get(name) != size)


def _sizes(folder: Path) -> dict[str, int]:
    """By path from the folder on, of all files but graphprep.json."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path != folder / MARKER)
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in sorted(paths)}


def read_marker(folder: Path) -> dict[str, Any] | None:
    """What graphprep.json says, None for a folder that is no export."""
    try:
        found = json.loads(regular_file(folder / MARKER).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.get("graphprep_kind") == EXPORT_KIND else None
