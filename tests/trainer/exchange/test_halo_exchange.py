"""Copies: which rows a rank sees when its peers do not send, on three ranks whose rows say who made them and when."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.trainer.rank_group import among_ranks, fetch_halo, run_options, send_back_halo
from trainer.base.pass_context import PassContext
from trainer.base.traffic_log import TrafficLog
from trainer.data.cache import open_cache
from trainer.data.part import load_part
from trainer.dist.communicator import Communicator
from trainer.exchange.exchange import Exchange
from trainer.exchange.halo_exchange import relative_change
from trainer.sparse.feature_rows import SparseRows

WORLD, EPOCHS, WIDTH = 3, 8, 5
NAME = "directed, weighted, uneven"
EXCHANGES = ("boundary", "broadcast")
"""Those that keep copies."""
Seen = list[list[float]]
"""By epoch, the values that rank 0's halo has from each peer; one value, where all of a peer's rows have the same."""


def seen_by_rank_0(
    communicator: Communicator, *, cache: str, direction: str, warmup: int = 0, still: int = -1, **options: Any
) -> Seen:
    """What rank 0 gets in each epoch, when all rows of rank r hold 100 (r + 1) + epoch; rank `still`'s never change."""
    communicator.connect()
    exchange, part, _ = opened(communicator, cache, **options)
    found = []
    for epoch in range(1, EPOCHS + 1):
        value = 100.0 * (communicator.rank + 1) + (1 if communicator.rank == still else epoch)
        step = PassContext(epoch=epoch, training=True, may_skip=epoch > warmup)
        if direction == "forward":
            halo = fetch_halo(exchange, torch.full((part.num_rows, WIDTH), value), 2, step)
            pieces = torch.split(halo, [part.halo_rows(peer) for peer in communicator.peers])
            found.append([only_value(piece) for piece in pieces])
        else:
            # Rank 2 counts in thousands, so that the sum of both tells what each has sent.
            partial_HF = torch.full((exchange.num_halo, WIDTH), value * (1000 if communicator.rank == 2 else 1))
            sums = send_back_halo(exchange, partial_HF, 2, step)
            if communicator.rank == 0:
                from_1, from_2 = (sums[part.send_rows[peer].long()] for peer in communicator.peers)
                found.append([only_value(from_1 % 1000), only_value(from_2 // 1000)])
    return found


def opened(communicator: Communicator, cache: str, **options: Any) -> tuple[Exchange, Any, TrafficLog]:
    part = load_part(open_cache(cache), communicator.rank, split=0)
    traffic_log = TrafficLog(
        num_rows=part.num_rows, num_sent=0, num_halo=0, rank=communicator.rank, world=communicator.world
    )
    return Exchange(run_options(cache, **options), part, communicator, traffic_log), part, traffic_log


def only_value(rows: Tensor) -> float:
    values = rows.unique().tolist()
    assert len(values) == 1, values
    return float(values[0])


def evaluation_between(communicator: Communicator, *, cache: str, exchange: str) -> Seen:
    """What rank 0 gets in a training epoch, an evaluation with other rows, and a training epoch that skips."""
    communicator.connect()
    there, part, _ = opened(communicator, cache, exchange=exchange, staleness="fixed:9", wire="int8")
    found = []
    for value, step in (
        (1.0, PassContext(epoch=1, training=True)),
        (2.0, PassContext.evaluation(1)),
        (3.0, PassContext(epoch=2, training=True, may_skip=True)),
    ):
        halo = fetch_halo(there, torch.full((part.num_rows, WIDTH), value), 2, step)
        found.append(halo.flatten().unique().tolist())
    return found


def errors_of_int8(communicator: Communicator, *, cache: str, error_feedback: bool) -> float:
    """How far the mean of 64 deliveries of the same rows is from them, on rank 0."""
    communicator.connect()
    there, part, _ = opened(communicator, cache, wire="int8", error_feedback=error_feedback)
    ids = part.ids_n.float().unsqueeze(1)
    rows = torch.cat([ids.cos(), ids.sin() / 7, torch.ones_like(ids)], dim=1)
    deliveries = [fetch_halo(there, rows, 2, PassContext(epoch=epoch, training=True)).clone() for epoch in range(1, 65)]
    halo = torch.cat([part.halo_ids[peer] for peer in communicator.peers]).float().unsqueeze(1)
    expected = torch.cat([halo.cos(), halo.sin() / 7, torch.ones_like(halo)], dim=1)
    return float((torch.stack(deliveries).mean(0) - expected).abs().max())


def halo_of_sparse_rows(communicator: Communicator, *, cache: str, exchange: str) -> tuple[Tensor, Tensor]:
    """What rank 0 gets of rows of which most entries are 0, and some rows all; and the rows that it needs."""
    communicator.connect()
    there, part, _ = opened(communicator, cache, exchange=exchange)

    def rows_of(ids: Tensor) -> Tensor:
        ids = ids.unsqueeze(1)
        return torch.where(((ids + torch.arange(7)) % 4 == 0) & (ids % 5 > 0), ids + 1.0, 0.0)

    own = SparseRows.of(rows_of(part.ids_n), torch.device("cpu"), torch.float32)
    needed = torch.cat([part.halo_ids[peer] for peer in communicator.peers])
    return there.fetch_features(own).dense(), rows_of(needed)


@pytest.fixture(scope="module")
def seen(caches: dict[tuple[str, int], Path]) -> dict[Any, Any]:
    cache = str(caches[NAME, WORLD])
    cases: dict[Any, Any] = {}
    for exchange in EXCHANGES:
        for direction, option in (("forward", "staleness"), ("backward", "staleness_grad")):
            for text in ("none", "fixed:3", "adaptive:2", "variation:0.015:50", "variation:1000:2"):
                cases[exchange, direction, text] = partial(
                    seen_by_rank_0, cache=cache, exchange=exchange, direction=direction, **{option: text}
                )
        cases[exchange, "evaluation"] = partial(evaluation_between, cache=cache, exchange=exchange)
        cases[exchange, "sparse"] = partial(halo_of_sparse_rows, cache=cache, exchange=exchange)
        cases[exchange, "warm-up"] = partial(
            seen_by_rank_0, cache=cache, exchange=exchange, direction="forward", staleness="fixed:3", warmup=4
        )
        cases[exchange, "still"] = partial(
            seen_by_rank_0, cache=cache, exchange=exchange, direction="forward", staleness="variation:0", still=1
        )
    for error_feedback in (False, True):
        cases["int8", error_feedback] = partial(errors_of_int8, cache=cache, error_feedback=error_feedback)
    return dict(zip(cases, among_ranks(WORLD, list(cases.values())), strict=True))


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_sparse_rows_arrive_by_their_entries(seen: dict[Any, Any], exchange: str) -> None:
    """Counts, columns and values are three messages: a row that takes another's entries has other features."""
    found, expected = seen[exchange, "sparse"]
    assert torch.equal(found, expected)
    assert (expected == 0).all(1).any()


def epochs_of(seen: Seen, peer: int) -> list[int]:
    """Of which epoch the copy of `peer` was in each epoch."""
    return [int(values[peer - 1]) - 100 * (peer + 1) for values in seen]


BOTH_WAYS = [(exchange, direction) for exchange in EXCHANGES for direction in ("forward", "backward")]


@pytest.mark.parametrize(("exchange", "direction"), BOTH_WAYS)
def test_none_sends_in_every_epoch(seen: dict[Any, Any], exchange: str, direction: str) -> None:
    """The exact exchange must not see yesterday's rows."""
    for peer in (1, 2):
        assert epochs_of(seen[exchange, direction, "none"], peer) == list(range(1, EPOCHS + 1))


@pytest.mark.parametrize(("exchange", "direction"), BOTH_WAYS)
def test_fixed_keeps_copies_for_k_epochs(seen: dict[Any, Any], exchange: str, direction: str) -> None:
    """A copy that is overwritten while its source is silent, or taken for another peer's, is no epoch's rows at all."""
    for peer in (1, 2):
        assert epochs_of(seen[exchange, direction, "fixed:3"], peer) == [1, 1, 1, 4, 4, 4, 7, 7]


@pytest.mark.parametrize(("exchange", "direction"), BOTH_WAYS)
def test_adaptive_sources_send_in_different_epochs(seen: dict[Any, Any], exchange: str, direction: str) -> None:
    """A receiver that takes one source's turn for another's waits for rows that are not coming."""
    found = seen[exchange, direction, "adaptive:2"]
    assert epochs_of(found, 1) == [1, 1, 1, 4, 4, 4, 7, 7]
    assert epochs_of(found, 2) == [1, 2, 2, 2, 5, 5, 5, 8]


@pytest.mark.parametrize(("exchange", "direction"), BOTH_WAYS)
def test_variation_measures_from_the_last_delivery(seen: dict[Any, Any], exchange: str, direction: str) -> None:
    """Rank 1 moves by 1 in 201 an epoch and rank 2 by 1 in 301: past 1.5 % after 4 and 5 epochs. A change that is
    measured from the epoch before never gets there, however far the rows drift."""
    found = seen[exchange, direction, "variation:0.015:50"]
    assert epochs_of(found, 1) == [1, 1, 1, 1, 5, 5, 5, 5]
    assert epochs_of(found, 2) == [1, 1, 1, 1, 1, 6, 6, 6]


@pytest.mark.parametrize(("exchange", "direction"), BOTH_WAYS)
def test_variation_has_an_oldest_age(seen: dict[Any, Any], exchange: str, direction: str) -> None:
    """A threshold that is never reached must not freeze a copy for the whole run."""
    for peer in (1, 2):
        assert epochs_of(seen[exchange, direction, "variation:1000:2"], peer) == [1, 1, 1, 4, 4, 4, 7, 7]


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_variation_sends_only_what_changes(seen: dict[Any, Any], exchange: str) -> None:
    """One flag for all sources sends the still ones along with the others, or holds the others back."""
    assert epochs_of(seen[exchange, "still"], 1) == [1] * EPOCHS
    assert epochs_of(seen[exchange, "still"], 2) == list(range(1, EPOCHS + 1))


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_nothing_is_skipped_in_the_warm_up(seen: dict[Any, Any], exchange: str) -> None:
    """Copies age from the last delivery of the warm-up, not from its first."""
    assert epochs_of(seen[exchange, "warm-up"], 1) == [1, 2, 3, 4, 4, 4, 7, 7]


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_an_evaluation_is_exact_and_leaves_copies_alone(seen: dict[Any, Any], exchange: str) -> None:
    """An accuracy of stale or rounded rows is not the model's; rows without dropout must not become copies."""
    first, evaluated, stale = seen[exchange, "evaluation"]
    assert evaluated == [2.0]
    assert first == stale
    assert first == pytest.approx([1.0] * len(first), rel=0.01)


def test_error_feedback_cancels_over_time(seen: dict[Any, Any]) -> None:
    """With it the mean of K deliveries is off by one rounding divided by K, without by its square root."""
    assert seen["int8", True] < 1.1 / 127 / 64 * 2
    assert seen["int8", False] > 2 * seen["int8", True]


@pytest.mark.parametrize(
    ("now", "then", "expected"),
    [
        ([3.0, 4.0], [3.0, 4.0], 0.0),
        ([3.0, 4.5], [3.0, 4.0], 0.1),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([1.0, 0.0], [0.0, 0.0], float("inf")),
        ([], [], 0.0),
    ],
)
def test_relative_change(now: list[float], then: list[float], expected: float) -> None:
    """0/0 that comes out as NaN sends the rows of a dead layer for ever."""
    assert relative_change(torch.tensor(now), torch.tensor(then)) == pytest.approx(expected)


def test_the_change_from_or_to_nan_is_nan() -> None:
    """A comparison with NaN that counts as no change keeps a copy that should be replaced."""
    for now, then in ((float("nan"), 1.0), (1.0, float("nan"))):
        change = relative_change(torch.tensor([now]), torch.tensor([then]))
        assert change != change
