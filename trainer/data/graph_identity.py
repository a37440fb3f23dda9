"""What makes two caches caches of one graph, whatever their parts: checkpoints of a run on one suit the other."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from trainer.data.cache import Cache
from trainer.data.events import EventCache


def graph_identity(cache: Cache | EventCache) -> dict[str, Any]:
    """What makes two caches caches of one graph, whatever the number of parts: as JSON, with a digest of the source."""
    if isinstance(cache, EventCache):
        source = json.dumps(cache.source, sort_keys=True)
        return {
            "dataset": cache.dataset,
            "nodes": cache.num_nodes,
            "events": cache.num_events,
            "split": list(cache.split),
            "source": hashlib.sha256(source.encode()).hexdigest(),
        }
    source = json.dumps([cache.source, cache.feature_options], sort_keys=True)
    return {
        "dataset": cache.dataset,
        "nodes": cache.num_nodes,
        "edges": cache.num_edges,
        "features": cache.num_features,
        "classes": cache.num_classes,
        "splits": cache.num_splits,
        "task": cache.task,
        "source": hashlib.sha256(source.encode()).hexdigest(),
    } | _types_identity(cache)


def _types_identity(cache: Cache) -> dict[str, Any]:
    """The further entries for a graph of several types."""
    if cache.is_plain:
        return {}
    return {
        "target": cache.node_type,
        "types": {kind.name: [kind.num_nodes, kind.num_features] for kind in cache.node_types},
        "relations": {relation.key: relation.num_edges for relation in cache.relations},
    }
