"""What a partition cache holds, by the names that its format fixes."""

from __future__ import annotations

from typing import Any

from graphprep.cache.manifest import Manifest
from graphprep.cache.read import PartitionCache


def cache_summary(cache: PartitionCache) -> dict[str, Any]:
    """The root attributes, the pair matrices and the size on disk, as plain JSON values."""
    manifest = Manifest.read(cache.folder)
    manifest.check_sizes(cache.folder)
    return {
        "folder": str(cache.folder),
        **cache.attributes,
        "traffic_rows": cache.array("traffic_rows").tolist(),
        "cross_edges": cache.array("cross_edges").tolist(),
        "files": len(manifest.files),
        "bytes": sum(entry.size for entry in manifest.files.values()),
    }
