"""What a step of mini-batches fetches from other ranks, on average, and what that takes on the links.

Letters: P parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphprep.topology import Topology
from graphprep.traffic.counts import Assignments, Matrices
from graphprep.traffic.links import LinkModel
from graphprep.traffic.visits import BatchShape, fetched_rows

ID_BYTES = 8
"""of the number of a row that is requested"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLinkType:
    """All links of one type in one step."""

    type: str
    rows: float
    """of the pairs of ranks whose route crosses this type, each counted once"""
    bytes: float
    seconds_max: float
    """of its slowest link direction"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRank:
    """One rank in one step."""

    rank: int
    seeds: float
    rows_fetched: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFigures:
    """Averages over the steps of mini-batches, by visit probabilities; nothing is kept from step to step."""

    fanouts: tuple[int, ...]
    batch_size: int
    row_bytes: int
    """of a node's features"""
    steps: int
    """of an epoch"""
    rows: float
    """that all ranks fetch in a step"""
    bottleneck_seconds: float
    """of the slowest link direction in a step"""
    sum_seconds: float
    """of all link directions"""
    link_types: tuple[BatchLinkType, ...]
    ranks: tuple[BatchRank, ...]


def batch_figures(
    matrices: Matrices,
    assignments: Assignments,
    training_masks: Mapping[str, NDArray[np.bool_]],
    topology: Topology,
    shape: BatchShape,
    *,
    row_bytes: int,
    model: LinkModel | None = None,
) -> BatchFigures:
    """The figures of an assignment.

    Args:
        matrices: in-edges of every edge type.
        assignments: int32 [N] for every node type; part p is on rank p.
        training_masks: bool [N] for the node types that have training nodes.
        topology: one rank a part.
        shape: of the batches.
        row_bytes: bytes of a node's features.
        model: of the topology, if that is at hand.
    """
    model = model or LinkModel.of(topology)
    num_parts = topology.num_ranks
    rows_PP = fetched_rows(matrices, assignments, training_masks, num_parts, shape)
    seconds_D = model.seconds(rows_PP, row_bytes)
    training_P = np.zeros(num_parts)
    for name, mask_N in training_masks.items():
        training_P += np.bincount(assignments[name][mask_N], minlength=num_parts)
    count = float(training_P.sum())
    seeds_P = min(shape.batch_size, count) * training_P / max(count, 1.0)
    rows_T = model.crossings_of_types(rows_PP)
    link_types = tuple(
        BatchLinkType(
            type=name,
            rows=float(rows_T[number]),
            bytes=float(rows_T[number]) * row_bytes,
            seconds_max=float(seconds_D[model.type_D == number].max(initial=0.0)),
        )
        for number, name in enumerate(model.types)
    )
    return BatchFigures(
        fanouts=shape.fanouts,
        batch_size=shape.batch_size,
        row_bytes=row_bytes,
        steps=-(-int(count) // shape.batch_size),
        rows=float(rows_PP.sum()),
        bottleneck_seconds=float(seconds_D.max(initial=0.0)),
        sum_seconds=float(seconds_D.sum()),
        link_types=link_types,
        ranks=tuple(
            BatchRank(rank=rank, seeds=float(seeds), rows_fetched=float(rows))
            for rank, (seeds, rows) in enumerate(zip(seeds_P, rows_PP.sum(axis=0), strict=True))
        ),
    )
