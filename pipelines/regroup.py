"""From a cache to one of another number of parts, without its store and without partitioning anew."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from graphprep.cache.as_source import CacheSource
from graphprep.cache.features import FeatureOptions
from graphprep.cache.read import PartitionCache
from graphprep.partition.engine import whole_graph
from graphprep.partition.external_assignment import ExternalAssignment
from graphprep.partition.regroup import merged, require_multiple, split
from graphprep.partition.request import PartitionRequest
from graphprep.plan.model_widths import ModelWidths
from graphprep.topology import Topology
from pipelines.partition import PartitionPlan, chosen_topology, target_of


def plan_regroup(
    cache: PartitionCache,
    operation: Literal["merge", "split"],
    *,
    parts: int | None,
    topology: str | None,
    request: PartitionRequest,
    out: Path | None,
) -> PartitionPlan:
    """Decide where each node goes; `run_partition` then writes the cache.

    Args:
        cache: what there is; all of it is compared with its checksums.
        operation: whether there are to be fewer parts or more.
        parts, topology: as for `plan_partition`.
        request: the effort says whether the result is refined for the new topology.
        out: the new cache's folder; by default HOME/caches/NAME/LABEL.

    Raises:
        UsageError, TopologyError: as for `plan_partition`.
        CacheError: a file of the cache is missing or has changed.
        PartitionError: these parts cannot become those.
    """
    cache.check_sizes()
    target_topology = chosen_topology(parts, topology)
    num_parts = target_topology.num_ranks
    source = CacheSource(cache)
    assignment_N = np.array(cache.array("assignment"))
    if operation == "merge":
        new_N = merged(assignment_N, Topology.from_long_form(cache.attributes["topology"]), num_parts)
        cache.require_unchanged()
    else:
        require_multiple(cache.num_parts, num_parts)
        cache.require_unchanged()
        with tempfile.TemporaryDirectory() as scratch:
            new_N = split(whole_graph(source), assignment_N, cache.num_parts, num_parts, request, Path(scratch))
    digest = hashlib.sha256(new_N.tobytes()).hexdigest()
    options = cache.attributes["options"]
    widths = options.get("model_widths")
    [aggregation] = {cache.aggregated(node_type) for node_type in cache.node_types}
    return PartitionPlan(
        store=source,
        topology=target_topology,
        request=replace(request, row_bytes=int(options["row_bytes"])),
        widths=None if widths is None else ModelWidths(**widths),
        target=target_of(out, source.name, target_topology),
        external=ExternalAssignment(path=cache.folder, sha256=digest, assignment_N=new_N),
        features=FeatureOptions(aggregate_features=aggregation),
    )
