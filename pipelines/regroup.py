"""From a cache to one of another number of parts, without its store and without partitioning anew."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Literal

import numpy as np

from graphprep.cache.as_source import WholeCache
from graphprep.cache.features import FeatureOptions
from graphprep.cache.read import PartitionCache
from graphprep.partition.engine import whole_graph
from graphprep.partition.external_assignment import GivenAssignment
from graphprep.partition.regroup import merged, require_multiple, split
from graphprep.partition.request import PartitionRequest
from graphprep.topology import Topology
from pipelines.partition import PartitionPlan, chosen_topology, target_of


def plan_regroup(
    cache: PartitionCache,
    way: Literal["merge", "split"],
    *,
    parts: int | None,
    topology: str | None,
    request: PartitionRequest,
    out: Path | None,
) -> PartitionPlan:
    """Decide where each node goes; `run_partition` then writes the cache.

    Args:
        cache: what there is; all of it is compared with its checksums.
        way: whether there are to be fewer parts or more.
        parts, topology: as for `plan_partition`.
        request: the effort says whether the result is refined for the new topology.
        out: the new cache's folder; by default HOME/caches/NAME/LABEL.

    Raises:
        UsageError, TopologyError: as for `plan_partition`.
        CacheError: a file of the cache is missing or has changed.
        PartitionError: these parts cannot become those.
    """
    cache.check_sizes()
    chosen = chosen_topology(parts, topology)
    source = WholeCache(cache)
    assignment_N = np.array(cache.array("assignment"))
    before = Topology.from_long_form(cache.attributes["topology"])
    if way == "merge":
        new_N = merged(assignment_N, before, chosen.num_ranks)
        cache.require_unchanged()
    else:
        require_multiple(cache.num_parts, chosen.num_ranks)
        cache.require_unchanged()
        with tempfile.TemporaryDirectory() as scratch:
            new_N = split(whole_graph(source), assignment_N, cache.num_parts, chosen.num_ranks, request, Path(scratch))
    given = GivenAssignment(path=cache.folder, sha256=hashlib.sha256(new_N.tobytes()).hexdigest(), assignment_N=new_N)
    target = target_of(out, source.name, chosen)
    [how] = {cache.aggregated(node_type) for node_type in cache.node_types}
    return PartitionPlan(
        store=source,
        topology=chosen,
        request=request,
        target=target,
        given=given,
        features=FeatureOptions(aggregate_features=how),
    )
