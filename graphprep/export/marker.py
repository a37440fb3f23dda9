"""graphprep.json, by which an exported folder is known as one, and which says what was exported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from graphprep import __version__
from graphprep.cache.read import PartitionCache

MARKER = "graphprep.json"
EXPORT_KIND = "export"
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
        "tool_version": __version__,
        **{attribute: cache.attributes[attribute] for attribute in KEPT},
    }


def write_marker(folder: Path, marker: dict[str, Any]) -> None:
    """Write graphprep.json into `folder`."""
    (folder / MARKER).write_text(json.dumps(marker, indent=1, allow_nan=False) + "\n")


def read_marker(folder: Path) -> dict[str, Any] | None:
    """What graphprep.json says, None for a folder that is no export."""
    try:
        found = json.loads((folder / MARKER).read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("graphprep_kind") == EXPORT_KIND else None
