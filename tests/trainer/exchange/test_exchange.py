"""Whole runs over every exchange, policy, wire and precision."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.handmade_cache import traffic_rows
from tests.trainer.rank_group import Run, among_ranks, train_once

pytestmark = pytest.mark.slow

WORLD, EPOCHS, WIDTH, CLASSES = 3, 13, 8, 3
NAME = "directed, weighted, uneven"
EXCHANGES = ("boundary", "broadcast")
"""Those that keep copies."""
STRICTEST = ("fixed:1", "adaptive:0", "variation:0")
NARROW = {"layers": 3, "dropout": 0.3}
"""Layer 2 sends rows before dropout, layer 3, which narrows, sends products."""
ATTENDING = {"gatv2": {"model": "gatv2", "heads": 2}, "sage, max": {"model": "sage", "aggregator": "max"}}


@pytest.fixture(scope="module")
def runs_of_policies(caches: dict[tuple[str, int], Path]) -> dict[Any, Run]:
    cases: dict[Any, dict[str, Any]] = {}
    for exchange in EXCHANGES:
        cases[exchange] = {"exchange": exchange}
        for text in STRICTEST:
            cases[exchange, text] = {"exchange": exchange, "staleness": text, "staleness_grad": text}
        stale = {"exchange": exchange, "staleness": "fixed:4", "staleness_grad": "fixed:2", "wire": "int8"}
        cases[exchange, "stale"] = stale
        cases[exchange, "stale, warm-up"] = {**stale, "warmup": 4, "settle": 3}
        cases[exchange, "variation"] = {"exchange": exchange, "staleness": "variation:0.8"}
    for model in ("gcn", "gat"):
        cases[model, "sequential"] = {"exchange": "sequential", "model": model}
    for name, model in ATTENDING.items():
        for text in ("none", "fixed:1", "variation:0", "fixed:4"):
            cases[name, text] = {**model, "staleness": text, "staleness_grad": text}
    cases["wire int8, sequential"] = {"exchange": "sequential", "wire": "int8"}
    cases |= {
        "bf16": {"precision": "bf16"},
        "fp16": {"precision": "fp16"},
        "wire bf16": {"wire": "bf16"},
        "wire fp16": {"wire": "fp16"},
        "wire int8": {"wire": "int8"},
        "weights bf16": {"weights_wire": "bf16"},
    }
    tasks = [
        partial(train_once, cache=str(caches[NAME, WORLD]), **{"epochs": EPOCHS, **NARROW, **changes})
        for changes in cases.values()
    ]
    return dict(zip(cases, among_ranks(WORLD, tasks), strict=True))


def row(run: Run, layer: int, direction: str) -> dict[str, Any]:
    [found] = [entry for entry in run.result["exchanges"] if (entry["layer"], entry["direction"]) == (layer, direction)]
    return found


@pytest.mark.parametrize("text", STRICTEST)
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_the_strictest_policies_are_the_exact_run_bit_for_bit(
    runs_of_policies: dict[Any, Run], exchange: str, text: str
) -> None:
    """A policy that is off by one, or a copy that is not quite what was sent, changes the last bits first."""
    exact, strict = runs_of_policies[exchange], runs_of_policies[exchange, text]
    assert strict.losses == exact.losses
    assert strict.result["test_accuracy"] == exact.result["test_accuracy"]
    assert row(strict, 2, "forward")["bytes_skipped"] == 0


def test_exchanges_agree(runs_of_policies: dict[Any, Run]) -> None:
    """Whole blocks with the wrong rows picked from them, or sums placed on the wrong rows, give other losses."""
    boundary, broadcast = (runs_of_policies[exchange] for exchange in EXCHANGES)
    assert broadcast.losses == pytest.approx(boundary.losses, rel=1e-4)


@pytest.mark.parametrize("name", ATTENDING)
def test_policies_go_with_attention_and_maxima(runs_of_policies: dict[Any, Run], name: str) -> None:
    """A copy that is overwritten before the backward pass has used it, or one that is never used."""
    exact, stale = runs_of_policies[name, "none"], runs_of_policies[name, "fixed:4"]
    for text in ("fixed:1", "variation:0"):
        assert runs_of_policies[name, text].losses == exact.losses
    assert stale.losses[0] == exact.losses[0]
    assert stale.losses != exact.losses
    assert min(stale.losses) < stale.losses[0]
    assert row(stale, 2, "forward")["bytes_skipped"] > 0


def test_one_peer_after_the_other_agrees_and_sends_no_more(runs_of_policies: dict[Any, Run]) -> None:
    """A round that is counted as an exchange of its own makes the exact exchange, which it is compared with, larger."""
    boundary, sequential = runs_of_policies["boundary"], runs_of_policies["gcn", "sequential"]
    assert sequential.losses == pytest.approx(boundary.losses, rel=1e-4)
    for direction in ("forward", "backward"):
        one, other = ({**row(run, 3, direction), "seconds_by_rank": None} for run in (sequential, boundary))
        assert one == other
    rounded = runs_of_policies["wire int8, sequential"]
    assert rounded.losses == pytest.approx(boundary.losses, rel=0.03)


def test_attention_fetches_rows_again_and_books_them(runs_of_policies: dict[Any, Run], caches: dict[Any, Path]) -> None:
    """Rows that come three times in a training pass (forward, the layer made again, backward) and are counted once make
    recomputation look free."""
    run = runs_of_policies["gat", "sequential"]
    needed, heads = int(traffic_rows(caches[NAME, WORLD], WORLD).sum()), 4
    for layer, width in ((1, WIDTH * heads), (2, WIDTH * heads), (3, CLASSES * heads)):
        forward, backward = row(run, layer, "forward"), row(run, layer, "backward")
        assert forward["bytes_sent"] == needed * width * 4 * (3 * EPOCHS + EPOCHS + 1)
        assert forward["bytes_exact_boundary"] == needed * width * 4 * (2 * EPOCHS + 1)
        assert forward["share_sent"] == backward["share_sent"] == 1
        assert backward["bytes_sent"] == needed * width * 4 * EPOCHS


def test_stale_rows_change_the_losses_after_the_first_skip_only(runs_of_policies: dict[Any, Run]) -> None:
    """A policy that does nothing would pass for a perfect one."""
    exact, warm = runs_of_policies["boundary"], runs_of_policies["boundary", "variation"]
    assert warm.losses[0] == exact.losses[0]
    assert warm.losses != exact.losses
    assert warm.losses == pytest.approx(exact.losses, rel=0.2)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_bytes_of_a_stale_run(runs_of_policies: dict[Any, Run], caches: dict[Any, Path], exchange: str) -> None:
    """Bytes that are counted where none were sent, or in fp32 where int8 was, make the saving a fiction.

    In 13 epochs `fixed:4` sends in epochs 1, 5, 9 and 13. Evaluations, of 13 epochs and of the best weights, are exact.
    """
    run = runs_of_policies[exchange, "stale"]
    needed = int(traffic_rows(caches[NAME, WORLD], WORLD).sum())
    rows = needed if exchange == "boundary" else 60 * (WORLD - 1)
    forward, backward = row(run, 3, "forward"), row(run, 2, "backward")
    assert forward["bytes_sent"] == rows * (4 * (CLASSES + 2) + (EPOCHS + 1) * CLASSES * 4)
    assert forward["bytes_skipped"] == rows * (EPOCHS - 4) * CLASSES * 4
    assert backward["bytes_sent"] == rows * 7 * (WIDTH + 2)
    assert backward["bytes_skipped"] == rows * (EPOCHS - 7) * WIDTH * 4
    assert forward["bytes_exact_boundary"] == needed * (2 * EPOCHS + 1) * CLASSES * 4
    assert forward["bytes_whole_block_broadcast"] == 60 * (WORLD - 1) * (2 * EPOCHS + 1) * CLASSES * 4
    assert forward["share_sent"] == pytest.approx((4 + EPOCHS + 1) / (2 * EPOCHS + 1))


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_first_and_last_epochs_send_everything(runs_of_policies: dict[Any, Run], exchange: str) -> None:
    """Epochs 1 to 4 and 11 to 13 are exact; between them `fixed:4` sends in epoch 8 alone, four after the fourth."""
    forward = row(runs_of_policies[exchange, "stale, warm-up"], 2, "forward")
    sends = 4 + 1 + 3
    assert forward["share_sent"] == pytest.approx((sends + EPOCHS + 1) / (2 * EPOCHS + 1))


def test_pairs_add_up(runs_of_policies: dict[Any, Run]) -> None:
    """Bytes between a pair of ranks that are recorded on another pair are put down to the wrong link."""
    for run in (runs_of_policies["boundary", "stale"], runs_of_policies["broadcast", "variation"]):
        assert sum(pair["bytes_sent"] for pair in run.result["pairs"]) == run.result["row_bytes_sent"]
        assert sum(pair["bytes_skipped"] for pair in run.result["pairs"]) == run.result["bytes_skipped"]
        assert run.result["link_types"] == [
            {
                "link_type": "network",
                "bytes_sent": run.result["row_bytes_sent"],
                "bytes_skipped": run.result["bytes_skipped"],
            }
        ]


def test_bytes_of_each_pair_are_those_of_the_traffic_matrix(
    runs_of_policies: dict[Any, Run], caches: dict[Any, Path]
) -> None:
    """A backward pass that is recorded in the forward direction hides which link is the slow one."""
    traffic, run = traffic_rows(caches[NAME, WORLD], WORLD), runs_of_policies["boundary"]
    for pair in run.result["pairs"]:
        source, destination = pair["source"], pair["destination"]
        if pair["layer"] == 2 and pair["direction"] == "forward":
            assert pair["bytes_sent"] == traffic[source, destination] * WIDTH * 4 * (2 * EPOCHS + 1)
        if pair["layer"] == 2 and pair["direction"] == "backward":
            assert pair["bytes_sent"] == traffic[destination, source] * WIDTH * 4 * EPOCHS


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        ("bf16", 0.02),
        ("fp16", 5e-3),
        ("wire bf16", 0.01),
        ("wire fp16", 1e-3),
        ("wire int8", 0.03),
        ("weights bf16", 0.02),
    ],
)
def test_half_precision_stays_near_fp32(runs_of_policies: dict[Any, Run], name: str, tolerance: float) -> None:
    """A scale that is not divided out, or sums that are rounded on the way, show in the first losses; a setting that
    is parsed and dropped shows in losses that are equal."""
    exact, half = runs_of_policies["boundary"], runs_of_policies[name]
    assert half.losses == pytest.approx(exact.losses, rel=tolerance)
    assert half.losses != exact.losses


def test_half_precision_halves_what_is_sent(runs_of_policies: dict[Any, Run]) -> None:
    """Rows that are stored in two bytes and sent in four."""
    exact, half, wire = (runs_of_policies[name] for name in ("boundary", "bf16", "wire bf16"))
    for direction in ("forward", "backward"):
        assert row(half, 2, direction)["bytes_sent"] * 2 == row(exact, 2, direction)["bytes_sent"]
    assert row(half, 1, "forward")["bytes_sent"] * 2 == row(exact, 1, "forward")["bytes_sent"]
    assert row(wire, 2, "backward")["bytes_sent"] * 2 == row(exact, 2, "backward")["bytes_sent"]
    assert row(wire, 1, "forward")["bytes_sent"] == row(exact, 1, "forward")["bytes_sent"]
