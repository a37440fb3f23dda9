"""A plan of mini-batches: its counts are those of drawn steps, its seconds those of the rates and the cost model."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from graphprep.cache.read import PartitionCache
from graphprep.errors import UsageError
from graphprep.plan.batch_options import BatchPlan
from graphprep.plan.batch_plan import COPIES, draw_steps, stages
from graphprep.plan.time_to_accuracy import CONTROLLED, SAMPLED, WHOLE, TrainedOn, to_accuracy
from graphprep.plan.training import TrainingPlan, batch_work, epoch_work
from graphprep.report.plan_tables import print_plan
from graphprep.topology import Topology
from graphprep.traffic import LinkModel
from pipelines.planning.pilot import run_batch_pilots
from pipelines.planning.plan import plan_training
from tests.graphs import labelled_graph
from tests.pipelines.planning.test_plan import folder, known_rates, quick
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
    common = {"num_features": 5, "row_bytes": 20, "weights_seconds": 1.0, "hidden_width": 8}
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
    rows, columns = batches["features_by"]
    assert rows["step_seconds"] == batches["step_seconds"]
    assert rows["bytes"] == pytest.approx((20 + 8) * batches["rows_fetched"])
    assert (rows["memory_bytes"], columns["memory_bytes"]) == (0, 90 * 20 // 2)
    text = io.StringIO()
    print_plan(found, text)
    assert "features by rows and by columns" in text.getvalue()
    assert "mini-batches of 16 training nodes: estimate of an epoch" in text.getvalue()
    assert "no pilot was run, so that all are assumed to need the trainer's 200 epochs" in text.getvalue()
    assert "the exact pass of control variates is counted as a validation" in text.getvalue()
    assert plan_training(str(folder), TRAINING)["batches"] is None


def test_the_ways_are_compared_by_their_time_to_one_accuracy(
    folder: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against epochs of another way, a target of another run, and passes that are counted twice."""
    curves = {WHOLE: [0.1, 0.5, 0.8], SAMPLED: [0.2, 0.795, 0.9], CONTROLLED: [0.2, 0.3, 0.4]}
    asked: list[Any] = []

    def pilots(cache: Path, ways: Any, *, epochs: int) -> Any:
        asked.append((cache, epochs, [way.batches for way in ways]))
        return curves

    monkeypatch.setattr("pipelines.planning.plan.run_batch_pilots", pilots)
    training = TRAINING.with_options(wire="int8", eval_every=2)
    plan = plan_training(str(folder), training, batches=SHAPE, pilot_epochs=3)
    options = {"batch_size": 16, "fanouts": "3,2"}
    assert asked == [(folder, 3, [{}, options, {**options, "control_variates": True}])]
    compared = json.loads(json.dumps(plan["time_to_accuracy"], allow_nan=False))
    assert (compared["target"], compared["pilot_epochs"]) == (pytest.approx(0.99 * 0.8), 3)
    by_name = {row["trained_on"]: row for row in compared["ways"]}
    assert {name: row["epochs"] for name, row in by_name.items()} == {WHOLE: 3, SAMPLED: 2, CONTROLLED: None}
    assert [row["trained_on"] for row in compared["ways"]][-1] == CONTROLLED
    assert by_name[WHOLE]["epoch_seconds"] == plan["epoch_seconds"]
    assert by_name[WHOLE]["seconds"] == pytest.approx(3 * plan["epoch_seconds"])
    never = plan_training(str(folder), training.with_options(eval_every=10**9), batches=SHAPE)
    validating = plan["epoch_seconds"] - never["epoch_seconds"]
    assert validating > 0
    assert by_name[SAMPLED]["epoch_seconds"] == pytest.approx(plan["batches"]["epoch_seconds"] + validating)
    assert by_name[CONTROLLED]["epoch_seconds"] > 3 * validating
    changed = f"graphprep train {folder} --hidden 8 --input-dropout 0.0 --eval-every 2"
    assert by_name[WHOLE]["command"] == f"{changed} --wire int8"
    assert by_name[CONTROLLED]["command"] == f"{changed} --batch-size 16 --fanouts 3,2 --control-variates"
    text = io.StringIO()
    print_plan(plan, text)
    assert "its pilot did not get there" in text.getvalue()
    assert "99 % of the whole graph's best validation, 0.7920" in text.getvalue()


def test_pilots_train_in_each_way(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against pilots with other options than the commands, and against errors that count as better."""
    used: list[Any] = []

    def train(cache: Path, output: Path, settings: dict[str, Any], *, quiet: bool) -> Any:
        used.append(settings)
        values = np.array([0.5, 0.25])
        return SimpleNamespace(result={"metric": "mae"}, history={"val_mae": values})

    monkeypatch.setattr("pipelines.planning.pilot.train_to_folder", train)
    common: dict[str, Any] = {"training": TRAINING, "epoch_seconds": 1.0, "reason": ""}
    options = {"batch_size": 16, "fanouts": "3,2", "control_variates": True}
    ways = [TrainedOn(name=WHOLE, batches={}, **common), TrainedOn(name=CONTROLLED, batches=options, **common)]
    found = run_batch_pilots(folder, ways, epochs=2)
    assert found == {WHOLE: [-0.5, -0.25], CONTROLLED: [-0.5, -0.25]}
    assert [settings.get("batch_size") for settings in used] == [None, 16]
    assert all(settings["hidden"] == 8 and settings["epochs"] == 2 for settings in used)
    assert used[1].items() >= options.items()
    compared = to_accuracy(ways, "c", found, pilot_epochs=2)
    assert [row["epochs"] for row in compared["ways"]] == [2, 2]
    assert compared["target"] == pytest.approx(-0.2525)


def test_pilots_need_something_to_compare(folder: Path) -> None:
    """Guards against pilots that nobody asked for."""
    with pytest.raises(UsageError, match="--pilot is for --best or --batch-size"):
        plan_training(str(folder), TRAINING, pilot_epochs=3)


def test_control_variates_draw_less_and_compute_twice(folder: Path) -> None:
    """Guards against steps that are planned as those without."""
    cache = PartitionCache(folder)
    plain, control = (draw_steps(cache, SHAPE, TRAINING, control_variates=each) for each in (False, True))
    assert (control.edges_PL[:, 0] < plain.edges_PL[:, 0]).all()  # GCN's own loops alone
    assert control.histories_PP.sum() > 0
    assert plain.histories_PP.sum() == 0
    assert (plain.passes, control.passes) == (1, 2)
    with_input = draw_steps(cache, SHAPE, TRAINING.with_options(input_dropout=0.5), control_variates=True)
    assert (with_input.edges_PL[:, 0] >= control.edges_PL[:, 0]).all()
    without = draw_steps(cache, SHAPE, TRAINING.with_options(dropout=0.0), control_variates=True)
    assert without.passes == 1
    once, twice = (each.works(TRAINING, PAIRS)[0].products for each in (without, control))
    assert twice == {widths: 2 * rows for widths, rows in once.items()}


def test_what_cannot_be_planned(folder: Path, quick: None) -> None:
    """Guards against tracebacks, and plans of other batches than the trainer makes."""
    with pytest.raises(UsageError, match="--fanouts has 2 numbers and the model 3 layers"):
        plan_training(str(folder), TRAINING.with_options(layers=3), batches=SHAPE)
    with pytest.raises(UsageError, match="--fanouts is for --batch-size"):
        BatchPlan(fanouts=(3, 2))
    make_store(labelled_graph(np.random.default_rng(2), 60, 300), name="plain")
    with pytest.raises(UsageError, match="--batch-size is planned for the parts of a cache"):
        plan_training("plain", TRAINING, parts=2, batches=SHAPE)
