"""From a cache to one of another number of parts, without its store and without partitioning anew."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from graphprep.cache.as_source import CacheSource
from graphprep.cache.read import PartitionCache
from graphprep.partition.engine import whole_graph
from graphprep.partition.regroup import merged, require_multiple, split
from graphprep.partition.request import PartitionRequest
from graphprep.topology import Topology
from pipelines.partition import PartitionPlan, chosen_topology, target_of
from pipelines.repartition.reassign import plan_reassigned


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
    return plan_reassigned(
        source,
        new_N,
        topology=target_topology,
        request=replace(request, row_bytes=int(cache.attributes["options"]["row_bytes"])),
        target=target_of(out, source.name, target_topology),
    )
