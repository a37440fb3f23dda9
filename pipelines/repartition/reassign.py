"""From a cache to one of the same graph in other parts, without its store: what regrouping and rebalancing share."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.as_source import CacheSource
from graphprep.cache.features import FeatureOptions
from graphprep.partition.external_assignment import ExternalAssignment
from graphprep.partition.request import PartitionRequest
from graphprep.plan.model_widths import ModelWidths
from graphprep.topology import Topology
from pipelines.partition import PartitionPlan


def plan_reassigned(
    source: CacheSource,
    assignment_N: NDArray[np.int32],
    *,
    topology: Topology,
    request: PartitionRequest,
    target: Path,
) -> PartitionPlan:
    """Plan a cache whose refinement begins with an assignment; rows and features are those of the cache before.

    Args:
        source: the graph of a cache that has been compared with its checksums.
        assignment_N: int32 [N], the part of each node.
        topology: of as many ranks as there are parts.
        request: what refines it.
        target: the folder of the new cache.
    """
    cache = source.cache
    widths = cache.attributes["options"].get("model_widths")
    [aggregation] = {cache.aggregated(node_type) for node_type in cache.node_types}
    return PartitionPlan(
        store=source,
        topology=topology,
        request=request,
        widths=None if widths is None else ModelWidths(**widths),
        target=target,
        external=ExternalAssignment(
            path=cache.folder, sha256=hashlib.sha256(assignment_N.tobytes()).hexdigest(), assignment_N=assignment_N
        ),
        features=FeatureOptions(aggregate_features=aggregation),
    )
