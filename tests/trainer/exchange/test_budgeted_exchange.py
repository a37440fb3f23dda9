"""An error budget on three ranks: what receivers compute with, what is chosen where, and whole runs."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.error_budget import sent_shares
from tests.trainer.handmade_cache import make_cache, random_graph
from tests.trainer.rank_group import (
    Run,
    Task,
    among_ranks,
    empty_traffic_log,
    fetch_halo,
    run_options,
    train_once,
)
from trainer.base.pass_context import PassContext
from trainer.data.cache import open_cache
from trainer.data.part import load_part
from trainer.dist.communicator import Communicator
from trainer.exchange.error_budget import CYCLE, WINDOW, ErrorBudget
from trainer.exchange.exchange import Exchange

WORLD, EPOCHS, WIDTH, BUDGET = 3, 60, 24, 0.2
SETTLE = 3
LINKS = [["", "fast", "slow"], ["fast", "", "slow"], ["slow", "slow", ""]]


def rows_of(ids: Tensor, epoch: int) -> Tensor:
    """Rows of nodes that turn by an eighth in each epoch."""
    angle = ids.unsqueeze(1).float() * 1.7 + torch.arange(WIDTH) * ids.unsqueeze(1) % 31 + epoch / 8
    return angle.sin()


def budgeted(communicator: Communicator, *, cache: str, budget: float = BUDGET, epochs: int = EPOCHS) -> dict[str, Any]:
    """What all ranks see in epochs of turning rows and gradients, and what each of them has chosen."""
    communicator.connect()
    part = load_part(open_cache(cache), communicator.rank, split=0)
    there = ErrorBudget(budget, communicator, lambda source, _: 50.0 if source == 2 else 1.0, stored_bytes=4)
    log = empty_traffic_log(communicator)
    exchange = Exchange(run_options(cache, error_budget=budget), part, communicator, log, None, there)
    halo_ids = torch.cat([part.halo_ids[peer] for peer in communicator.peers])
    sent_ids = torch.cat([part.ids_n[part.send_rows[peer].long()] for peer in communicator.peers])
    [one] = exchange.rounds
    as_received = replace(one.routes.backward, unpack=lambda returned_RF: returned_RF)
    errors, owed, within = [], torch.zeros(len(sent_ids), WIDTH), []
    for epoch in range(1, epochs + 1):
        step = PassContext(epoch=epoch, training=True, may_skip=epoch <= epochs - SETTLE)
        expected, returned = rows_of(halo_ids, epoch), rows_of(sent_ids, epoch)
        seen = fetch_halo(exchange, rows_of(part.ids_n, epoch), 2, step)
        gradients = one.backward.exchange(expected, 2, step, route=as_received).wait()
        owed += returned - gradients
        within.append(float(owed.norm() / returned.norm()))
        ends = (seen - expected, expected, gradients - returned, returned)
        squares = communicator.all_reduce(torch.stack([rows.square().sum() for rows in ends]).double())
        errors.append(float((squares[0] / squares[1] + squares[2] / squares[3]) / 2))
    evaluated = fetch_halo(exchange, rows_of(part.ids_n, 1), 2, PassContext.evaluation(epochs))
    choices = communicator.all_gather_object({"table": json.dumps(there.table(LINKS))})
    return {
        "square_errors": errors,
        "owed": within,
        "tables": [one["table"] for one in choices],
        "summary": there.summary(LINKS),
        "bytes": communicator.all_reduce_numbers(log.amounts())[0],
        "evaluation": torch.equal(evaluated, rows_of(halo_ids, 1)),
    }


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    graph = random_graph(num_nodes=90, num_edges=300)
    return str(make_cache(tmp_path_factory.mktemp("budget") / "cache", graph, torch.arange(90).numpy() % WORLD, WORLD))


@pytest.fixture(scope="module")
def found(cache: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    checkpoint = str(tmp_path_factory.mktemp("checkpoints"))
    train = partial(train_once, cache=cache, epochs=30, eval_every=10, layers=3)
    tasks: dict[str, Task] = {
        "steady": partial(budgeted, cache=cache),
        "small": partial(budgeted, cache=cache, budget=1e-4, epochs=30),
        "exact": train,
        "tiny": partial(train, error_budget=1e-9),
        "some": partial(train, error_budget=0.2, checkpoint=checkpoint, epochs=24),
        "bytes": partial(train, byte_budget=0.05, epochs=60),
        "attention": partial(train, error_budget=0.2, model="gat", layers=2, precision="bf16"),
        "resumed": partial(train, error_budget=0.2, checkpoint=checkpoint, resume=True, epochs=40),
    }
    return dict(zip(tasks, among_ranks(WORLD, list(tasks.values())), strict=True))


@pytest.mark.slow
def test_the_error_stays_within_the_budget(found: dict[str, Any]) -> None:
    """Of what receivers compute with, rows and gradients, from the first choice on; and by its own measurements."""
    steady = found["steady"]
    chosen = steady["square_errors"][CYCLE:-SETTLE]
    assert 0.05 < (sum(chosen) / len(chosen)) ** 0.5 <= BUDGET
    assert max(steady["square_errors"][:WINDOW]) <= BUDGET**2
    assert 0.05 < steady["summary"]["greatest_error"] <= BUDGET
    assert steady["summary"]["predicted_error"] <= BUDGET
    assert max(found["small"]["square_errors"]) <= 1e-8


@pytest.mark.slow
def test_a_budget_saves_bytes_and_a_larger_one_more(found: dict[str, Any]) -> None:
    assert found["steady"]["bytes"] / EPOCHS < 0.35 * found["small"]["bytes"] / 30


@pytest.mark.slow
def test_every_rank_makes_the_same_choice(found: dict[str, Any]) -> None:
    tables = found["steady"]["tables"]
    assert tables == [tables[0]] * WORLD
    rows = json.loads(tables[0])
    assert len(rows) == 2 * WORLD * (WORLD - 1)
    assert {row["link_type"] for row in rows} == {"fast", "slow"}


@pytest.mark.slow
def test_slow_links_get_fewer_bits_and_greater_ages(found: dict[str, Any]) -> None:
    rows = json.loads(found["steady"]["tables"][0])
    of_slow, of_others = (
        [row["bytes_an_epoch"] / row["bytes_exact"] for row in rows if (row["source"] == 2) is slow]
        for slow in (True, False)
    )
    assert sum(of_slow) / len(of_slow) < sum(of_others) / len(of_others)


@pytest.mark.slow
def test_what_is_owed_of_gradients_does_not_grow(found: dict[str, Any]) -> None:
    """The sum of all that was applied is the sum of all gradients, but for a few epochs' errors."""
    owed = found["steady"]["owed"]
    assert max(owed[EPOCHS // 2 :]) <= 1.5 * max(owed[: EPOCHS // 2])
    assert max(owed) < 1.5


@pytest.mark.slow
def test_an_evaluation_is_exact(found: dict[str, Any]) -> None:
    assert found["steady"]["evaluation"]


@pytest.mark.slow
def test_everything_is_sent_exactly_in_the_last_epochs(found: dict[str, Any]) -> None:
    errors = found["steady"]["square_errors"]
    assert max(errors[-SETTLE:]) < 1e-12 < errors[-SETTLE - 1]


@pytest.mark.slow
def test_no_budget_is_exact_bit_for_bit(found: dict[str, Any]) -> None:
    exact, tiny = found["exact"], found["tiny"]
    assert exact.result["error_budget"] is None
    assert tiny.losses == exact.losses
    assert tiny.result["row_bytes_sent"] == exact.result["row_bytes_sent"]


@pytest.mark.slow
def test_a_run_reports_errors_bits_and_ages(found: dict[str, Any]) -> None:
    run: Run = found["some"]
    of_run, line = run.result["error_budget"], run.epochs[-1]["error_budget"]
    assert run.losses != found["exact"].losses
    assert run.losses[-1] == pytest.approx(found["exact"].losses[-1], rel=0.2)
    assert of_run["predicted_error"] <= of_run["budget"] == 0.2
    assert {(row["layer"], row["direction"]) for row in line["links"]} == {
        (layer, direction) for layer in (2, 3) for direction in ("forward", "backward")
    }
    assert len(of_run["choices"]) == 4 * WORLD * (WORLD - 1)
    assert all(0 < row["bits"] <= 32 and row["age"] >= 1 for row in line["links"])
    assert sum(row["bytes_saved"] for row in line["links"]) > 0
    assert found["attention"].result["error_budget"]["predicted_error"] <= 0.2


@pytest.mark.slow
def test_a_run_keeps_within_its_bytes(found: dict[str, Any]) -> None:
    """Its first epochs send more, which those after them make up for."""
    run: Run = found["bytes"]
    of_run = run.result["error_budget"]
    _, of_training = sent_shares([run.result], eval_every=10)
    assert 0.03 < of_training <= 0.05
    assert (of_run["budget"], of_run["byte_budget"]) == (None, 0.05)
    assert run.losses[-1] < 1.3 * found["exact"].losses[-1]


@pytest.mark.slow
def test_a_resumed_run_measures_again(found: dict[str, Any]) -> None:
    """Copies and choices are not saved: a cycle begins with the first epoch after the resumption."""
    resumed: Run = found["resumed"]
    assert resumed.result["resumed_after"] == 24
    assert resumed.result["epochs"] == 40
    assert resumed.result["error_budget"]["predicted_error"] is not None
    assert resumed.losses[-1] < found["some"].losses[-1]
