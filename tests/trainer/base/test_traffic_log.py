"""Bytes, computed a second time by hand from the cache's own traffic matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.trainer.handmade_cache import traffic_rows
from tests.trainer.parity_cases import EPOCHS, MAIN, worlds_of
from tests.trainer.rank_group import Run

pytestmark = pytest.mark.slow

FLOAT = 4
NODES, FEATURES, HIDDEN, CLASSES = 60, 6, 8, 3
BYTES = ("bytes_sent", "row_bytes_sent", "weight_bytes_sent", "other_bytes_sent", "bytes_skipped")
USAGE = ("compute_seconds", "exchange_seconds", "waiting_seconds", "memory_bytes_max", "ranks", "links")


def row(run: Run, layer: int, direction: str) -> dict[str, Any]:
    [found] = [entry for entry in run.result["exchanges"] if (entry["layer"], entry["direction"]) == (layer, direction)]
    return found


@pytest.mark.parametrize("world", worlds_of(MAIN, "gcn"))
@pytest.mark.parametrize("model", ["gcn", "sage"])
def test_bytes_are_those_of_the_traffic_matrix(
    runs: dict[Any, Run], caches: dict[Any, Path], model: str, world: int
) -> None:
    """Bytes counted on one rank, per edge instead of per row, or without the backward pass are not what was sent.

    Every epoch is a training and a validation pass, and the test is one more pass. Layer 2 sends CLASSES values a row,
    since it multiplies by its weight first. Layer 1 sends FEATURES values a row, once.
    """
    run, halo_rows = runs[MAIN, model, world], int(traffic_rows(caches[MAIN, world], world).sum())
    passes = 2 * EPOCHS + 1
    assert (row(run, 1, "forward")["bytes_sent"], row(run, 1, "forward")["bytes_skipped"]) == (
        halo_rows * FEATURES * FLOAT,
        halo_rows * FEATURES * FLOAT * (passes - 1),
    )
    assert row(run, 2, "forward")["bytes_sent"] == halo_rows * CLASSES * FLOAT * passes
    assert row(run, 2, "backward")["bytes_sent"] == halo_rows * CLASSES * FLOAT * EPOCHS
    setup = halo_rows * FLOAT if model == "gcn" else 0
    assert run.result["row_bytes_sent"] == setup + halo_rows * FLOAT * (FEATURES + CLASSES * (passes + EPOCHS))
    assert run.result["bytes_skipped"] == halo_rows * FEATURES * FLOAT * (passes - 1)
    blocks = NODES * (world - 1) * FLOAT
    assert run.result["bytes_whole_block_broadcast"] == blocks * (
        (1 if model == "gcn" else 0) + FEATURES * passes + CLASSES * (passes + EPOCHS)
    )


@pytest.mark.parametrize("world", worlds_of(MAIN, "gcn"))
def test_lines_add_up_to_the_result(runs: dict[Any, Run], world: int) -> None:
    """Bytes that are neither in a line nor in the test pass have been lost between two counters."""
    run = runs[MAIN, "gcn", world]
    test_pass = row(run, 2, "forward")["bytes_sent"] // (2 * EPOCHS + 1)
    assert sum(line["row_bytes_sent"] for line in run.epochs) + test_pass == run.result["row_bytes_sent"]
    assert sum(entry["bytes_sent"] for entry in run.result["exchanges"]) == run.result["row_bytes_sent"]
    assert sum(line["weight_bytes_sent"] for line in run.epochs) == run.result["weight_bytes_sent"]
    kinds = ("row", "weight", "other")
    for line in (*run.epochs, run.result):
        assert sum(line[f"{kind}_bytes_sent"] for kind in kinds) == line["bytes_sent"]
    weights = run.result["parameters"] + 3  # and the loss, and two wishes
    gradients = 2 * (world - 1) * weights * FLOAT * EPOCHS
    first = (world - 1) * run.result["parameters"] * FLOAT if world > 1 else 0
    assert run.result["weight_bytes_sent"] == gradients + first
    by_purpose = {row["purpose"]: row["bytes_sent"] for row in run.result["sent_for"]}
    assert by_purpose.get("rows", 0) == run.result["row_bytes_sent"], "the accounts and what was handed over differ"
    assert sum(entry["bytes_skipped"] for entry in run.result["exchanges"]) == run.result["bytes_skipped"]


@pytest.mark.parametrize("world", worlds_of(MAIN, "gcn"))
def test_every_exchange_took_time_on_every_rank(runs: dict[Any, Run], world: int) -> None:
    """Seconds booked to another layer, twice, or in another unit: exchanges follow one another within the run."""
    run = runs[MAIN, "gcn", world]
    spent = [row(run, 2, direction)["seconds_by_rank"] for direction in ("forward", "backward")]
    assert all(len(seconds) == world and min(seconds) > 0 for seconds in spent)
    in_all = [sum(entry["seconds_by_rank"][rank] for entry in run.result["exchanges"]) for rank in range(world)]
    assert max(in_all) <= run.result["setup_seconds"] + run.result["seconds"]


def test_wide_rows_are_summed_before_the_weight(runs: dict[Any, Run], caches: dict[Any, Path]) -> None:
    """Sending the wider of the two possible rows costs bytes for nothing: layer 3 of 5 -> 3 sends 3 values a row."""
    run = runs[MAIN, "deep gcn, batch norm", 3]
    assert [row(run, layer, "forward")["width"] for layer in (1, 2, 3)] == [FEATURES, 5, CLASSES]


def test_the_result_has_its_names(runs: dict[Any, Run]) -> None:
    """Other programs read these names; a renamed one breaks them without a word."""
    run = runs[MAIN, "gcn", 2]
    assert set(run.epochs[0]) == {"epoch", "loss", "val_accuracy", "seconds", *BYTES, *USAGE}
    assert [line["epoch"] for line in run.epochs] == list(range(1, EPOCHS + 1))
    assert {
        "test_accuracy",
        "val_accuracy",
        "best_epoch",
        "epochs",
        "seconds",
        *BYTES,
        "bytes_whole_block_broadcast",
        "exchanges",
        "memory_bytes_by_rank",
        "memory_estimate_by_rank",
        "environment",
    } <= set(run.result)
