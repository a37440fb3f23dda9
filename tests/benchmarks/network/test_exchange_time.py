"""Seconds of exchanges, and what is fitted to them."""

from __future__ import annotations

import pytest

from benchmarks.network import relays
from benchmarks.network.calibration import fitted
from benchmarks.network.exchange_time import EXCHANGES, measured_seconds
from benchmarks.network.parts import summary


def test_an_epoch_is_one_of_each_exchange_on_the_slowest_rank() -> None:
    """Guards against validations that count as training, the first layer's rows, and the greatest of each exchange."""
    result = {
        "exchanges": [
            {"layer": 0, "direction": "setup", "exchanges": 1, "seconds_by_rank": [100.0, 100.0]},
            {"layer": 1, "direction": "forward", "exchanges": 4, "seconds_by_rank": [100.0, 100.0]},
            {"layer": 2, "direction": "backward", "exchanges": 2, "seconds_by_rank": [2.0, 8.0]},
            {"layer": 2, "direction": "forward", "exchanges": 4, "seconds_by_rank": [20.0, 4.0]},
        ]
    }
    assert measured_seconds(result) == 6.0


def test_share_and_start_are_found_again() -> None:
    """Guards against a fit that mixes up what grows with the bytes and what does not."""
    predicted = [0.1, 1.0, 5.0]
    share, start = fitted(predicted, [EXCHANGES * 0.03 + seconds / 0.9 for seconds in predicted])
    assert (share, start) == (pytest.approx(0.9), pytest.approx(0.03))


def test_ours_is_held_against_metis_case_by_case() -> None:
    """Guards against a mean of other cases than those that both ways were measured in."""

    def row(graph: str, parts: str, seconds: float) -> dict[str, object]:
        return {
            **{"graph": graph, "links": "l", "kind": "equal", "parts": parts, "ratio": 1 + seconds / 10},
            "calibrates": False,
            **{"measured_seconds": seconds, "bottleneck_seconds": seconds, "predicted_seconds": seconds},
        }

    rows = [row("a", "metis", 4.0), row("a", "best", 1.0), row("b", "metis", 1.0), row("b", "best", 1.0)]
    found = summary([*rows, row("c", "default", 7.0)])
    assert found["over_metis"] == {
        "equal": {"best": {"measured": pytest.approx(0.5), "bottleneck": pytest.approx(0.5)}}
    }
    assert (found["share_near"], found["rank_correlation"]) == (0.6, pytest.approx(1.0))


def test_relays_are_judged_by_what_nothing_was_fitted_to() -> None:
    """Guards against a prediction of the runs that calibrate it, and a ratio of runs that had no relays."""

    def row(graph: str, ratio: float, over_auto: float, over_off: float, *, has_relays: bool) -> dict[str, object]:
        of_each = {"measured_over_predicted_auto": over_auto, "measured_over_predicted_off": over_off}
        return {"graph": graph, "ratio": ratio, "has_relays": has_relays, **of_each}

    found = relays.summary(
        [
            row("sbm", 1.5, 1.0, 9.0, has_relays=False),
            row("sbm", 0.9, 1.3, 9.0, has_relays=True),
            row("rmat", 0.6, 0.8, 1.1, has_relays=True),
        ]
    )
    assert found["share_near"] == pytest.approx(2 / 3)
    assert found["greatest_ratio_where_chosen"] == 0.9
    assert found["ratios"] == {"sbm": [1.5, 0.9], "rmat": [0.6]}
