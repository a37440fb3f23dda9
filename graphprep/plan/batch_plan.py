"""What a step of mini-batches takes, by its stages: sample, fetch, copy, train.

Some steps are drawn for every part, as the trainer's samplers draw them; their rows, edges and seconds are averaged.
The cost model says what the rows take on the links; the rates of the devices what copying and training take. Samplers,
links and the trainer work at the same time, on different batches, and copying and training take turns; so a step takes
as long as the slowest of: sampling, fetching, copying and training together.

Letters: P parts, L layers.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.read import PartitionCache
from graphprep.cache.rebuild import rebuild_rows
from graphprep.errors import UsageError
from graphprep.plan.batch_options import BatchPlan
from graphprep.plan.feature_columns import ways_to_features
from graphprep.plan.rates import Rates
from graphprep.plan.training import TrainingPlan, Work, batch_work
from graphprep.sampling.batch_options import BatchOptions
from graphprep.sampling.batches import PartBatches
from graphprep.traffic import LinkModel
from graphprep.traffic.batch_figures import ID_BYTES

DRAWN_STEPS = 6
COPIES = 2
"""Passes over the rows of a batch: from a part, from others or from the cache, and into the batch."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DrawnSteps:
    """Averages over some steps that were drawn here."""

    shape: BatchPlan
    steps: int
    """of an epoch"""
    drawn: int
    rows_PL: NDArray[np.float64]
    """[P, L + 1]: nodes before the first hop and after each"""
    edges_PL: NDArray[np.float64]
    """[P, L]: of each layer, the first one first"""
    rows_PP: NDArray[np.float64]
    """rows of part p that part q requests"""
    seconds_P: NDArray[np.float64]
    """of one sampler process"""
    histories_PP: NDArray[np.float64]
    """rows of histories of part p that part q requests, with control variates"""
    num_nodes: int
    """of the graph"""
    passes: int = 1
    """over a batch: with control variates and dropout each is computed without it too"""

    def works(self, training: TrainingPlan, pairs: list[tuple[int, int]]) -> list[Work]:
        """What each rank does in a step."""
        return [
            Work.of_all(
                [
                    batch_work(
                        training,
                        pairs,
                        [
                            (rows[-2 - layer], rows[-1 - layer] - rows[-2 - layer], edges[layer])
                            for layer in range(len(edges))
                        ],
                    )
                ]
                * self.passes
            )
            for rows, edges in zip(self.rows_PL.tolist(), self.edges_PL.tolist(), strict=True)
        ]


def draw_steps(
    cache: PartitionCache, shape: BatchPlan, training: TrainingPlan, *, control_variates: bool = False
) -> DrawnSteps:
    """Draw some steps for every part.

    Args:
        cache: of one node type and one edge type.
        shape: of the batches.
        training: the model.
        control_variates: whether batches are drawn as for `--control-variates`.

    Raises:
        UsageError: fanouts are not one a layer, or there are no training nodes.
    """
    fanouts, (name,) = shape.of_layers(training.layers), cache.node_types
    if "train_mask" not in cache.node_arrays(0, name):
        raise UsageError("--batch-size needs training nodes, and the cache has no train_mask")
    seeds = np.flatnonzero(rebuild_rows(cache, name, "train_mask")[:, 0])
    if not len(seeds):
        raise UsageError("--batch-size needs training nodes, and the first split has none")
    has_dropout = bool(training.dropout or training.first_dropout)
    if control_variates and not training.first_dropout:
        fanouts = (*fanouts[:-1], 0)
    options = BatchOptions(
        batch_size=shape.batch_size,
        fanouts=fanouts,
        seed=0,
        sums="gcn" if training.model == "gcn" else "mean",
        is_typed=False,
        node_type=name,
        histories=control_variates,
        roots=control_variates and has_dropout,
    )
    first = PartBatches(cache, 0, seeds, options, (1, 1))
    parts, layers = cache.num_parts, training.layers
    number = min(DRAWN_STEPS, first.steps)
    rows_PL, edges_PL = np.zeros((parts, layers + 1)), np.zeros((parts, layers))
    rows_PP, histories_PP = np.zeros((2, parts, parts))
    seconds_PS = np.zeros((parts, number))
    first.make(1, 0)  # compiles
    for part in range(parts):
        batches = first.of_part(part)
        for step in range(number):
            started = time.perf_counter()
            arrays = batches.make(1, step)
            seconds_PS[part, step] = time.perf_counter() - started
            rows_PL[part] += arrays["counts"].sum(axis=1)
            rows_PP[:, part] += arrays[f"rows/{name}/requested_per_part"]
            if control_variates:
                histories_PP[:, part] += arrays[f"histories/{name}/requested_per_part"]
            for layer in range(layers):
                edges_PL[part, layer] += sum(
                    len(arrays[f"layer/{layer + 1}/{side}_indices"]) for side in ("own", "halo")
                )
    return DrawnSteps(
        shape=shape,
        steps=first.steps,
        drawn=number,
        rows_PL=rows_PL / number,
        edges_PL=edges_PL / number,
        rows_PP=rows_PP / number,
        seconds_P=np.median(seconds_PS, axis=1),  # other work on this machine lengthens some of them
        histories_PP=histories_PP / number,
        num_nodes=cache.node_types[name],
        passes=2 if control_variates and has_dropout else 1,
    )


def stages(
    drawn: DrawnSteps,
    works: Sequence[Work],
    rates: Sequence[Rates],
    model: LinkModel,
    *,
    num_features: int,
    row_bytes: int,
    weights_seconds: float,
    hidden_width: int,
    history_bytes: int = 0,
) -> dict[str, Any]:
    """What a step takes by its stages, as plain JSON values.

    Args:
        drawn: the steps.
        works: of each rank in a step.
        rates: of each rank.
        model: of the links.
        num_features: of a node.
        row_bytes: of its features.
        weights_seconds: of adding up the gradients of weights.
        hidden_width: of the rows that layer 1 computes.
        history_bytes: of a row of histories, with control variates.
    """
    copied = [
        COPIES * float(rows[-1]) * of_rank.passed[str(num_features)]
        for rows, of_rank in zip(drawn.rows_PL, rates, strict=True)
    ]
    trained = [sum(of_rank.seconds(work).values()) for work, of_rank in zip(works, rates, strict=True)]
    requests = model.seconds(drawn.rows_PP.T, ID_BYTES).max(initial=0.0)
    histories = model.seconds(drawn.histories_PP, history_bytes).max(initial=0.0) if history_bytes else 0.0
    seconds = {
        "sample": float(drawn.seconds_P.max()),
        "fetch": float(histories + requests + model.seconds(drawn.rows_PP, row_bytes).max(initial=0.0)),
        "copy": max(copied),
        "train": max(trained) + weights_seconds,
    }
    together = {name: seconds[name] for name in ("sample", "fetch")}
    together["train"] = max(c + t for c, t in zip(copied, trained, strict=True)) + weights_seconds
    bottleneck = max(together, key=lambda name: together[name])
    by_columns = None
    if len(drawn.rows_PL) > 1 and not history_bytes:
        by_columns = ways_to_features(
            model,
            requested_PP=drawn.rows_PP,
            computed_P=drawn.rows_PL[:, -2],
            nodes_P=drawn.rows_PL[:, -1],
            edges_P=drawn.edges_PL[:, 0],
            row_bytes=row_bytes,
            hidden_bytes=4 * hidden_width,
            num_nodes=drawn.num_nodes,
            fetch_seconds=seconds["fetch"],
            stage_seconds=(together["sample"], together["train"]),
        )
    rows_T = model.crossings_of_types(drawn.rows_PP)
    return {
        **asdict(drawn.shape),
        "steps": drawn.steps,
        "drawn_steps": drawn.drawn,
        "stages": [{"stage": name, "seconds": each} for name, each in seconds.items()],
        "bottleneck": bottleneck,
        "step_seconds": together[bottleneck],
        "epoch_seconds": drawn.steps * together[bottleneck],
        "rows": float(drawn.rows_PL[:, -1].max()),
        "rows_fetched": float(drawn.rows_PP.sum()),
        "link_types": [
            {"type": name, "rows": float(rows), "bytes": float(rows) * row_bytes}
            for name, rows in zip(model.types, rows_T, strict=True)
        ],
        "features_by": by_columns,
    }
