"""The best ways of a cache and of a store: predictions of the plan, commands that run, one sentence where none fits."""

from __future__ import annotations

import io
import json
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from graphprep.errors import UsageError
from graphprep.plan.batch_options import BatchPlan
from graphprep.plan.batch_plan import draw_steps
from graphprep.plan.bit_budgets import BudgetPilot, sent_shares
from graphprep.plan.convergence import Pilot, fit_convergence, pilot_trainings
from graphprep.plan.search import Budget
from graphprep.plan.time_to_accuracy import CONTROLLED, SAMPLED
from graphprep.plan.training import TrainingPlan
from graphprep.report.plan_tables import print_best
from graphprep.topology import Topology
from pipelines.planning import batch_candidates, budget_candidates
from pipelines.planning import batches as plan_batches
from pipelines.planning import best as best_pipeline
from pipelines.planning import plan as plan_pipeline
from pipelines.planning.best import plan_best
from pipelines.planning.plan import plan_training
from pipelines.training import auto as train_auto
from pipelines.training.auto import chosen_options, without_auto
from tests.forks import fork_trainers
from tests.graphs import labelled_graph
from tests.pipelines.planning.test_plan import Any1, known_rates
from tests.stores import make_cache, make_store
from trainer.config.command_line import parse

BASE = TrainingPlan(hidden=8)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of a store called graph, with rates that are known."""
    monkeypatch.setattr(plan_pipeline, "measured_rates", known_rates)
    monkeypatch.setattr(plan_pipeline, "gpus_here", list)
    monkeypatch.setattr(budget_candidates, "run_budget_pilots", lambda *_, **__: [])
    store = make_store(labelled_graph(np.random.default_rng(1), 90, 700, undirected=True))
    make_cache(store, Topology.flat(2), tmp_path / "cache")
    return tmp_path / "cache"


def test_the_best_of_a_cache_is_what_its_command_would_take(folder: Path) -> None:
    """Guards against a choice by other seconds than those that the plan of the same options has."""
    found = json.loads(json.dumps(plan_best(str(folder), BASE, budget=Budget()), allow_nan=False))
    first = found["best"][0]
    graphprep, train, cache, *words = shlex.split(first["command"])
    assert (graphprep, train, cache) == ("graphprep", "train", str(folder))
    run = parse([cache, *words])
    assert (run.hidden, run.wire) == (8, first["options"].get("wire", "fp32"))
    planned = plan_training(str(folder), BASE.with_options(**first["options"]))
    assert first["epoch_seconds"] == pytest.approx(planned["epoch_seconds"])
    plain = plan_training(str(folder), BASE)
    assert first["times_faster"] == pytest.approx(plain["epoch_seconds"] / planned["epoch_seconds"])
    assert found["considered"] == 8
    shown = io.StringIO()
    print_best(found, shown)
    assert first["command"] in shown.getvalue()


def test_fixed_options_stay(folder: Path) -> None:
    """Guards against a person's choice that is overruled."""
    base = BASE.with_options(wire="fp32")
    found = plan_best(str(folder), base, fixed={"wire", "weights_wire"}, budget=Budget())
    assert all(set(way["options"]) <= {"exchange", "relay"} for way in found["best"])


@pytest.mark.slow
def test_fewer_ranks_are_considered_for_a_store(folder: Path) -> None:
    """Guards against four ranks for a graph that one trains in less time."""
    found = plan_best("graph", BASE, budget=Budget(price=1.0), parts=4)
    assert found["considered"] == 1 + 2 * 8
    assert {way["ranks"] for way in found["best"]} <= {1, 2, 4}
    for way in found["best"]:
        assert way["partition"] == f"graphprep partition graph --parts {way['ranks']}"
        assert way["cost"] == pytest.approx(way["ranks"] * way["run_seconds"] / 3600)
    assert found["is_sketch"]


def test_nothing_that_fits_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    """Guards against an empty table."""
    with pytest.raises(UsageError, match=r"no way is within the budget: the quickest takes \d+ s; allow more"):
        plan_best(str(folder), BASE, budget=Budget(within=1e-6))
    small = tmp_path / "small.yaml"
    small.write_text(
        "name: small\nmachines:\n  - count: 1\n    gpus: 2\n    memory_gb: 0.001\n    pcie: {gbytes_per_s: 12}\n"
    )
    with pytest.raises(UsageError, match="no way fits into memory: the least needs"):
        plan_best(str(folder), BASE.with_options(hidden=20_000), budget=Budget(), topology=str(small))
    with pytest.raises(UsageError, match="--pilot trains on a cache, and this is a store"):
        plan_best("graph", BASE, budget=Budget(), parts=2, pilot_epochs=3)


@pytest.mark.slow
def test_pilots_decide_whether_approximations_are_chosen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against int8 and kept rows that are advised although they did not arrive, or cost more than they save."""

    def pilots_that(factor: float):  # type: ignore[no-untyped-def]
        def run(_cache, exact, approximate, **_):  # type: ignore[no-untyped-def]
            values = [min(1.0, epoch / 2) for epoch in range(1, 41)]
            slow = [min(1.0, epoch / 2 / factor) for epoch in range(1, 41)]
            trainings = pilot_trainings(exact, approximate)
            others = [Pilot(training=each, values=slow) for each in trainings[1:]]
            return fit_convergence(Pilot(training=exact, values=values), others)

        return run

    monkeypatch.setattr(Any1, "__missing__", lambda *_: 1e-12)  # links take nearly all of an epoch
    for factor, is_chosen in ((1.0, True), (19.0, False), (100.0, False)):
        monkeypatch.setattr(best_pipeline, "run_pilots", pilots_that(factor))
        found = plan_best(str(folder), BASE, budget=Budget(), pilot_epochs=40)
        coarse = {"staleness", "staleness_grad"} & set(found["best"][0]["options"])
        assert bool(coarse) == is_chosen
        assert (len(found["pilots"]["failed"]) > 0) == (factor == 100.0)


def _quick_pilots(_cache, exact, _approximate, **_):  # type: ignore[no-untyped-def]
    return fit_convergence(Pilot(training=exact, values=[epoch / 40 for epoch in range(1, 41)]), [])


def _drawn_in_no_time(*args, **options):  # type: ignore[no-untyped-def]
    """Seconds of drawing are measured, and a busy machine must not decide here which way is the quickest."""
    drawn = draw_steps(*args, **options)
    return replace(drawn, seconds_P=np.zeros_like(drawn.seconds_P))


@pytest.mark.slow
def test_batches_are_among_the_ways_where_pilots_show_their_epochs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against batches that are advised although they did not arrive, and against epochs that are not counted."""
    monkeypatch.setattr(best_pipeline, "run_pilots", _quick_pilots)
    validations = {SAMPLED: [0.2, 0.99], CONTROLLED: [0.5]}
    monkeypatch.setattr(batch_candidates, "run_batch_pilots", lambda *_, **__: validations)
    monkeypatch.setattr(plan_batches, "draw_steps", _drawn_in_no_time)
    monkeypatch.setattr(Any1, "__missing__", lambda *_: 1e-12)
    shape, fixed = BatchPlan(batch_size=16, fanouts=(3, 2)), {"staleness", "staleness_grad", "wire", "weights_wire"}
    found = plan_best(str(folder), BASE, fixed=fixed, budget=Budget(), pilot_epochs=40, batches=shape)
    assert f"{CONTROLLED} did not reach 0.9900 in 40 epochs" in capsys.readouterr().err
    [way] = [way for way in found["best"] if "batch_size" in way["options"]]
    assert way["epochs"] == pytest.approx(2)
    assert way["run_seconds"] == pytest.approx(2 * way["epoch_seconds"])
    planned = plan_training(str(folder), BASE, batches=shape)["batches"]
    assert way["row_bytes"] == round(planned["steps"] * sum(row["bytes"] for row in planned["link_types"]))
    assert "it needs 0.05 times the epochs by the pilots" in way["reasons"]
    run = parse(shlex.split(way["command"])[2:])
    assert (run.batch_size, run.fanouts, run.control_variates) == (16, "3,2", False)
    with pytest.raises(UsageError, match="--best with --batch-size needs --pilot EPOCHS"):
        plan_best(str(folder), BASE, budget=Budget(), batches=shape)


@pytest.mark.slow
def test_budgets_are_among_the_ways_where_pilots_arrive(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against bits that are advised although they did not arrive, and against other bytes than a pilot sent."""
    shares = {(2, "forward"): 0.1, (2, "backward"): 0.3}
    of_epochs = {"--byte-budget 0.1": 50, "--byte-budget 0.04": 60, "--error-budget 0.5": 40}

    def pilots(_cache, _training, budgets, **_):  # type: ignore[no-untyped-def]
        return [
            BudgetPilot(budget=each, values=[epoch / of_epochs[each.name] for epoch in range(1, 51)], shares=shares)
            for each in budgets
        ]

    monkeypatch.setattr(best_pipeline, "run_pilots", _quick_pilots)
    monkeypatch.setattr(budget_candidates, "run_budget_pilots", pilots)
    monkeypatch.setattr(Any1, "__missing__", lambda *_: 1e-15)
    fixed = {"exchange", "relay", "weights_wire"}
    found = plan_best(str(folder), BASE, fixed=fixed, budget=Budget(), pilot_epochs=50)
    assert "--byte-budget 0.04 did not reach 0.9900 in 50 epochs" in capsys.readouterr().err
    plain = plan_training(str(folder), BASE)
    of_halo = plain["row_bytes"] / 3  # forward, backward, and the validation after each epoch
    ways = {way["options"].get("error_budget", way["options"].get("byte_budget")): way for way in found["best"]}
    way = ways[0.5]
    assert way["epochs"] == pytest.approx(40)
    assert way["row_bytes"] == pytest.approx(1.4 * of_halo, abs=1)
    assert way["communication_seconds"] < plain["communication_seconds"]
    assert "it needs 1.00 times" not in " ".join(way["reasons"])
    assert f"{100 * 1.4 / 3:.1f} % of exact bytes, validations included" in " ".join(way["reasons"])
    assert parse(shlex.split(way["command"])[2:]).error_budget == 0.5
    assert 0.04 not in ways
    for others, fixed in (({"byte_budget": 0.2}, set()), ({}, {"wire"})):
        found = plan_best(str(folder), BASE, fixed=fixed, budget=Budget(), pilot_epochs=50, others=others)
        assert not any({"byte_budget", "error_budget"} & set(way["options"]) for way in found["best"])


def test_shares_of_training_passes() -> None:
    """Guards against validations, which send all, in what a budget is said to send."""
    rows = [
        {"layer": 1, "direction": "setup", "bytes_sent": 9, "bytes_exact_boundary": 9},
        {"layer": 2, "direction": "forward", "bytes_sent": 11 + 2, "bytes_exact_boundary": 11 + 10},
        {"layer": 2, "direction": "backward", "bytes_sent": 3, "bytes_exact_boundary": 10},
    ]
    assert sent_shares(rows, 10) == pytest.approx({(2, "forward"): 0.2, (2, "backward"): 0.3})


@pytest.mark.slow
def test_pilots_are_runs_of_this_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against pilots that train something else, or leave files behind."""
    fork_trainers(monkeypatch)
    before = sorted(folder.rglob("*"))
    found = plan_best(str(folder), BASE, fixed={"relay"}, budget=Budget(), pilot_epochs=4, others={"seed": 3})
    assert found["pilots"]["epochs"] == 4
    assert 1 <= found["epochs"] <= 4
    assert sorted(folder.rglob("*")) == before


@pytest.mark.slow
def test_auto_adds_the_best_to_what_was_given(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against a choice that nobody is told of, or that overrules what was given."""
    words, pilots = without_auto(["--auto", "--hidden", "8", "--pilot=3", "--wire", "bf16"])
    assert (words, pilots) == (["--hidden", "8", "--wire", "bf16"], 3)
    chosen = chosen_options(str(folder), words, pilot_epochs=0)
    assert not any(word.startswith("--wire") for word in chosen)
    run = parse([str(folder), *words, *chosen])
    assert (run.hidden, run.wire) == (8, "bf16")
    assert "--auto chose" in capsys.readouterr().err
    with pytest.raises(UsageError, match="--auto knows gcn and sage, not --model gat"):
        chosen_options(str(folder), ["--model", "gat"], pilot_epochs=0)
    with pytest.raises(UsageError, match="steps of --batch-size exchange none"):
        chosen_options(str(folder), ["--batch-size", "16"], pilot_epochs=0)
    with pytest.raises(UsageError, match="--pilot '0' must be a whole number"):
        without_auto(["--auto", "--pilot", "0"])
    with pytest.raises(UsageError, match="--hidden"):
        chosen_options(str(folder), ["--hidden", "0"], pilot_epochs=0)
    seen: dict[str, object] = {}
    monkeypatch.setattr(train_auto, "plan_best", lambda *_, **options: seen.update(options) or {"best": [{}]})
    with pytest.raises(KeyError):
        chosen_options(str(folder), ["--error-feedback", "--seed", "4"], pilot_epochs=0)
    assert seen["others"] == {"error_feedback": True, "seed": 4}
