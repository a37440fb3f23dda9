"""Predict mini-batches of a cache, and what they take until an accuracy beside the whole graph.

Some steps are drawn before the rates are known, since what they do says which rates are measured; afterwards their
stages have seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphprep.cache.read import PartitionCache
from graphprep.errors import UsageError
from graphprep.plan.batch_options import BatchPlan
from graphprep.plan.batch_plan import DrawnSteps, draw_steps, stages
from graphprep.plan.rank_rates import RankRates
from graphprep.plan.time_to_accuracy import CONTROLLED, SAMPLED, WHOLE, TrainedOn
from graphprep.plan.training import TrainingPlan, Work
from graphprep.report.formats import duration
from graphprep.system import progress
from graphprep.traffic import LinkModel

NOT_OF_BATCHES = ("exchange", "wire", "staleness", "staleness_grad")
"""Options of the exchange of halo rows, of which steps on batches have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatches:
    """Stages of a step in seconds, as `graphprep.plan.batch_plan.stages` gives them."""

    sampled: Mapping[str, Any]
    controlled: Mapping[str, Any]
    """With control variates, without their exact pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnBatches:
    """Steps that were drawn here, plain ones and those of control variates."""

    cache: PartitionCache
    shape: BatchPlan
    training: TrainingPlan
    pairs: list[tuple[int, int]]
    """The widths of the rows that go in and out of each layer."""
    steps: tuple[DrawnSteps, DrawnSteps]
    works: tuple[list[Work], list[Work]]
    """What each rank does in a step."""

    @classmethod
    def draw(
        cls, location: Path, shape: BatchPlan, training: TrainingPlan, pairs: list[tuple[int, int]]
    ) -> DrawnBatches:
        """Draw some steps for every part.

        Args:
            location: the folder of a cache of one node type and one edge type.
            shape: of the batches.
            training: the model.
            pairs: its widths.

        Raises:
            UsageError: batches cannot be planned with these options, or there are no training nodes.
        """
        if training.edge_features is not None:
            raise UsageError("--batch-size cannot be with --edge-features; leave one of them out")
        cache = PartitionCache(location)
        with progress.task("drawing some mini-batches"):
            sampled, controlled = (
                draw_steps(cache, shape, training, control_variates=control) for control in (False, True)
            )
        works = sampled.works(training, pairs), controlled.works(training, pairs)
        works[0][0].passed[pairs[0][0]] += 0  # so that the rate of copying is measured
        return cls(cache=cache, shape=shape, training=training, pairs=pairs, steps=(sampled, controlled), works=works)

    @property
    def work(self) -> list[Work]:
        """What rates are needed for."""
        return [work for of_kind in self.works for work in of_kind]

    def planned(self, rates: RankRates, model: LinkModel, *, weights_seconds: float) -> PlannedBatches:
        """The seconds of a step's stages.

        Args:
            rates: of the ranks.
            model: of the links.
            weights_seconds: of adding up the gradients of weights.
        """
        num_features = self.pairs[0][0]
        kept = [width for width, _ in self.pairs[1:]]  # each layer's rows but the first's; sums but for the last's
        history_bytes = 4 * (num_features + sum(kept) + sum(kept[:-1]))
        sampled, controlled = (
            stages(
                drawn,
                works,
                rates.of_ranks,
                model,
                num_features=num_features,
                row_bytes=_feature_bytes(self.cache),
                weights_seconds=weights_seconds,
                hidden_width=self.pairs[0][1],
                history_bytes=size,
            )
            for drawn, works, size in zip(self.steps, self.works, (0, history_bytes), strict=True)
        )
        return PlannedBatches(sampled=sampled, controlled=controlled)

    def ways(self, planned: PlannedBatches, *, whole_seconds: float, validating: float) -> list[TrainedOn]:
        """The whole graph, batches, and batches with control variates.

        Args:
            planned: of the batches.
            whole_seconds: of an epoch on the whole graph, with its share of the validations.
            validating: of these that share.
        """
        exact = validating * self.training.eval_every
        plain = self.training.with_options(**{name: getattr(TrainingPlan(), name) for name in NOT_OF_BATCHES})
        fanouts = self.shape.of_layers(self.training.layers)
        options = {
            "batch_size": self.shape.batch_size,
            "fanouts": ",".join("all" if each < 0 else str(each) for each in fanouts),
        }
        steps = f"{planned.sampled['steps']:,} steps an epoch, whose bottleneck is to"
        validated = f"{duration(validating)} of an epoch are validation on the whole graph"
        return [
            TrainedOn(
                name=WHOLE,
                training=self.training,
                batches={},
                epoch_seconds=whole_seconds,
                reason=f"one step an epoch; {validated}",
            ),
            TrainedOn(
                name=SAMPLED,
                training=plain,
                batches=options,
                epoch_seconds=planned.sampled["epoch_seconds"] + validating,
                reason=f"{steps} {planned.sampled['bottleneck']}; {validated}",
            ),
            TrainedOn(
                name=CONTROLLED,
                training=plain,
                batches={**options, "control_variates": True},
                epoch_seconds=planned.controlled["epoch_seconds"] + validating + exact,
                reason=(
                    f"{steps} {planned.controlled['bottleneck']}; {validated}, and {duration(exact)} the exact pass"
                ),
            ),
        ]


def _feature_bytes(cache: PartitionCache) -> int:
    """Of one node."""
    (node_type,) = cache.node_types
    x_nF = cache.node_array(0, node_type, "x")
    return int(x_nF.shape[1]) * x_nF.dtype.itemsize
