"""A plan of mini-batches: its counts are those of drawn steps, its seconds those of the rates and the cost model."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from graphprep.cache.read import PartitionCache
from graphprep.errors import UsageError
from graphprep.plan.batch_options import BatchPlan
from graphprep.plan.batch_plan import COPIES, draw_steps, stages
from graphprep.plan.training import TrainingPlan, batch_work, epoch_work
from graphprep.report.plan_tables import print_plan
from graphprep.topology import Topology
from graphprep.traffic import LinkModel
from pipelines.plan import plan_training
from tests.graphs import labelled_graph
from tests.plan.test_plan import folder, known_rates, quick
from tests.stores import make_store

__all__ = ["folder", "quick"]  # fixtures

TRAINING = TrainingPlan(hidden=8, input_dropout=0.0)
PAIRS = TRAINING.widths(5, 3)
SHAPE = BatchPlan(batch_size=16, fanouts=(3, 2))


def test_one_batch_of_everything_is_the_work_of_the_whole_graph(folder: Path) -> None:
    """Guards against layers in the wrong order, and edges or rows of the wrong hop."""
    cache = PartitionCache(folder)
    drawn = draw_steps(cache, BatchPlan(batch_size=1000, fanouts=(-1, -1)), TRAINING)
    assert drawn.steps == drawn.drawn == 1
    seeds = [int(cache.node_array(part, "node", "train_mask")[:, 0].sum()) for part in range(2)]
    assert drawn.rows_PL[:, 0].tolist() == seeds
    assert (np.diff(drawn.rows_PL, axis=1) >= 0).all()
    assert (drawn.edges_PL[:, 0] >= drawn.edges_PL[:, 1]).all()
    assert (np.diagonal(drawn.rows_PP) == 0).all()
    assert (drawn.rows_PP.sum(axis=0) < drawn.rows_PL[:, -1]).all()
    dropped = TRAINING.with_options(input_dropout=0.3, eval_every=10**9)
    whole = epoch_work(dropped, PAIRS, rows=40, halo=0, edges=300)
    step = batch_work(dropped, PAIRS, [(40, 0, 340), (40, 0, 340)])
    for kind in ("edges", "products", "gradients", "masked", "passed"):
        for width, amount in getattr(whole, kind).items():
            assert getattr(step, kind)[width] == pytest.approx(amount), kind


def test_a_step_is_as_long_as_its_slowest_stage(folder: Path, quick: None) -> None:
    """Guards against stages that are added up though they overlap, and seconds of other counts."""
    cache = PartitionCache(folder)
    drawn = draw_steps(cache, SHAPE, TRAINING)
    works = drawn.works(TRAINING, PAIRS)
    rates, model = (
        known_rates(cache.block(0, cache.edge_types[0], 0), works[0], processes=1),
        LinkModel.of(Topology.flat(2)),
    )
    common = {"num_features": 5, "row_bytes": 20, "weights_seconds": 1.0}
    found = stages(drawn, works, [rates] * 2, model, **common)  # type: ignore[arg-type]
    by_stage = {row["stage"]: row["seconds"] for row in found["stages"]}
    assert by_stage["copy"] == pytest.approx(COPIES * 1e-4 * drawn.rows_PL[:, -1].max())
    assert by_stage["train"] == pytest.approx(1 + max(sum(rates.seconds(work).values()) for work in works))
    assert by_stage["sample"] == drawn.seconds_P.max()
    assert by_stage["fetch"] > model.seconds(drawn.rows_PP, 20).max()
    assert found["bottleneck"] == "train"
    assert found["epoch_seconds"] == pytest.approx(found["steps"] * found["step_seconds"])
    assert by_stage["train"] < found["step_seconds"] <= by_stage["train"] + by_stage["copy"]
    slow = stages(replace(drawn, seconds_P=np.array([2.0, 50.0])), works, [rates] * 2, model, **common)  # type: ignore[arg-type]
    assert (slow["bottleneck"], slow["step_seconds"]) == ("sample", 50.0)


def test_a_plan_has_both(folder: Path, quick: None) -> None:
    """Guards against a plan that is no JSON, and one whose text leaves batches out."""
    found = json.loads(json.dumps(plan_training(str(folder), TRAINING, batches=SHAPE), allow_nan=False))
    batches = found["batches"]
    assert (batches["batch_size"], batches["fanouts"], batches["drawn_steps"]) == (16, [3, 2], batches["steps"])
    assert sum(row["rows"] for row in batches["link_types"]) == pytest.approx(batches["rows_fetched"])
    assert batches["link_types"][0]["bytes"] == pytest.approx(20 * batches["link_types"][0]["rows"])
    text = io.StringIO()
    print_plan(found, text)
    assert "mini-batches of 16 training nodes: estimate of an epoch" in text.getvalue()
    assert "after how many epochs they are as accurate" in text.getvalue()
    assert plan_training(str(folder), TRAINING)["batches"] is None


def test_what_cannot_be_planned(folder: Path, quick: None) -> None:
    """Guards against tracebacks, and plans of other batches than the trainer makes."""
    with pytest.raises(UsageError, match="--fanouts has 2 numbers and the model 3 layers"):
        plan_training(str(folder), TRAINING.with_options(layers=3), batches=SHAPE)
    with pytest.raises(UsageError, match="--fanouts is for --batch-size"):
        BatchPlan(fanouts=(3, 2))
    make_store(labelled_graph(np.random.default_rng(2), 60, 300), name="plain")
    with pytest.raises(UsageError, match="--batch-size is planned for the parts of a cache"):
        plan_training("plain", TRAINING, parts=2, batches=SHAPE)
