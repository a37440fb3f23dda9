"""From a cache and what training on it took to one whose parts suit the ranks' measured speeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.as_source import CacheSource
from graphprep.cache.read import PartitionCache
from graphprep.errors import TrainingError, UsageError
from graphprep.partition.request import PartitionRequest
from graphprep.plan.measured_speeds import MeasuredSpeeds
from graphprep.report.formats import duration
from graphprep.report.summary.cache_summary import quality_of
from graphprep.system import progress
from graphprep.topology import Topology
from graphprep.traffic import EDGE_COST, LIMITS, NODE_COST
from pipelines.partition import PartitionOutcome, PartitionPlan, target_of
from pipelines.repartition.reassign import plan_reassigned

LINES = 5
"""Validated epochs whose medians decide."""
EFFORT = "fast"
"""Of the refinement: annealing would move nodes to and fro that need not move."""
WORTH_MOVING = 1.15
"""Seconds of the slowest rank over those with balanced parts, from which other parts are worth their making."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """What became of the parts."""

    speeds: MeasuredSpeeds
    moved_nodes: int
    num_nodes: int
    expected_seconds: float
    """of computing on the slowest rank in an epoch, with the new parts"""

    @classmethod
    def of(cls, speeds: MeasuredSpeeds, before: PartitionCache, outcome: PartitionOutcome) -> Rebalance:
        """Compare the cache that was made with the one before."""
        then_N, now_N = (np.array(cache.array("assignment")) for cache in (before, outcome.cache))
        unit = speeds.seconds_P * speeds.speed_P / work_of(before)  # the same for all ranks but for rounding
        return cls(
            speeds=speeds,
            moved_nodes=int((then_N != now_N).sum()),
            num_nodes=len(now_N),
            expected_seconds=float((np.median(unit) * work_of(outcome.cache) / speeds.speed_P).max()),
        )

    def say(self) -> None:
        """Say it in a line."""
        now, then = self.expected_seconds, float(self.speeds.seconds_P.max())
        progress.say(
            f"{self.moved_nodes:,} of {self.num_nodes:,} nodes move; the slowest rank is estimated to compute for "
            f"{duration(now)} in an epoch, and {duration(then)} before"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "speeds": self.speeds.speed_P.tolist(),
            "compute_seconds": self.speeds.seconds_P.tolist(),
            "balanced_seconds": self.speeds.balanced_seconds,
            "expected_seconds": self.expected_seconds,
            "moved_nodes": self.moved_nodes,
        }


def speeds_of_run(cache: PartitionCache, lines: Sequence[Mapping[str, Any]], *, last: int = LINES) -> MeasuredSpeeds:
    """The speeds of a cache's ranks.

    Args:
        cache: that was trained on.
        lines: of the run's history.
        last: how many of them count.

    Raises:
        TrainingError: they have no seconds by rank, or other ranks.
    """
    rows = [[rank["compute_seconds"] for rank in line.get("ranks", ())] for line in lines[-last:]]
    if not rows or any(len(row) != cache.num_parts for row in rows):
        raise TrainingError(
            f"the run has no seconds of {cache.num_parts} ranks, as a run on {cache.folder} has; train on it first"
        )
    if any(seconds is None for row in rows for seconds in row):
        raise TrainingError("what GPUs spend their seconds on is not measured, so that their speeds are unknown")
    epochs = _epochs_a_line(lines, len(rows))
    seconds_TP = np.array(rows, np.float64) / np.array(epochs)[:, None]
    return MeasuredSpeeds.of(work_of(cache), np.maximum(seconds_TP, 1e-9))


def _epochs_a_line(lines: Sequence[Mapping[str, Any]], count: int) -> list[int]:
    """How many epochs each of the last lines stands for."""
    numbers = [0, *(int(line["epoch"]) for line in lines)]
    return [max(1, now - before) for before, now in zip(numbers[-count - 1 :], numbers[-count:], strict=False)]


def work_of(cache: PartitionCache) -> NDArray[np.float64]:
    """What each rank computes, in units of one in-edge."""
    work = [EDGE_COST * rank["edges"] + NODE_COST * rank["nodes"] for rank in quality_of(cache)["ranks"]]
    return np.maximum(np.array(work, np.float64), EDGE_COST)


def plan_rebalance(
    cache: PartitionCache, speeds: MeasuredSpeeds, *, out: Path | None = None, seed: int = 0
) -> PartitionPlan:
    """Decide where each node goes, from where it is now; `run_partition` then writes the cache.

    Args:
        cache: what there is; all of it is compared with its checksums.
        speeds: of its ranks.
        out: the new cache's folder; by default HOME/caches/NAME/LABEL-rebalanced.
        seed: of the refinement.

    Raises:
        CacheError: a file of the cache is missing or has changed.
        UsageError: nothing may be written to `out`.
    """
    cache.check_sizes()
    cache.require_unchanged()
    source = CacheSource(cache)
    before = Topology.from_long_form(cache.attributes["topology"])
    topology = speeds.topology(before)
    options = cache.attributes["options"]
    kept = {
        name: options[name] for name in ("imbalance", "row_bytes", "balance", "minimise", "relay") if name in options
    }
    seconds = options.get("row_seconds")
    label = replace(topology, name=f"{before.name}-rebalanced")
    return plan_reassigned(
        source,
        np.array(cache.array("assignment")),
        topology=topology,
        request=PartitionRequest(
            seed=seed,
            effort=EFFORT,
            limits=tuple(options.get("limits", LIMITS)),
            row_seconds=None if seconds is None else tuple(seconds),
            **kept,
        ),
        target=target_of(out, source.name, label),
    )


def require_worth(speeds: MeasuredSpeeds, cache: PartitionCache) -> None:
    """Refuse parts that would gain next to nothing.

    Raises:
        UsageError: the present ones are balanced well enough.
    """
    if speeds.imbalance < WORTH_MOVING:
        raise UsageError(
            f"the slowest rank of {cache.folder} computes {speeds.imbalance:.2f} times as long as with parts by the "
            f"measured speeds, and other parts are made from {WORTH_MOVING} on; keep it, or give --anyway"
        )
