"""Lines through medians."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphprep.topology.probe.fit import Line, fit

SIZES = (4096, 65536, 2**20, 2**23)


@given(st.floats(1e-7, 1e-2), st.floats(1e6, 1e12))
def test_a_line_is_found_again(latency_s: float, bytes_per_s: float) -> None:
    """Guards against latency and bandwidth that are mixed up, at any speed."""
    line = Line(latency_s=latency_s, bytes_per_s=bytes_per_s)
    found = fit(SIZES, [line.seconds(size) for size in SIZES])
    for size in SIZES:
        assert found.seconds(size) == pytest.approx(line.seconds(size), rel=1e-6)


def test_small_messages_decide_on_the_latency() -> None:
    """Guards against a fit of absolute deviations, in which one slow large message makes up a latency of its own."""
    line = Line(latency_s=20e-6, bytes_per_s=1e10)
    seconds = [line.seconds(size) for size in SIZES]
    found = fit(SIZES, [*seconds[:-1], seconds[-1] * 1.1])
    assert found.latency_s == pytest.approx(20e-6, rel=0.1)
    assert found.bytes_per_s == pytest.approx(1e10, rel=0.12)


def test_no_latency_is_negative_and_no_bandwidth_endless() -> None:
    """Guards against a topology file that its own reader refuses."""
    assert fit(SIZES, [1e-6, 2e-5, 4e-4, 4e-3]).latency_s >= 0
    flat = fit(SIZES, [1e-4] * 4)
    assert flat.latency_s >= 0
    assert flat.bytes_per_s >= SIZES[-1] / 1e-4 / 1.01
    falling = fit(SIZES, [4e-4, 3e-4, 2e-4, 1e-4])
    assert (falling.latency_s, falling.bytes_per_s) == (1e-4, pytest.approx(SIZES[-1] / 1e-4))
    assert fit([1000], [1e-3]) == Line(latency_s=0.0, bytes_per_s=pytest.approx(1e6))
    assert fit(SIZES, [1e6] * 4).bytes_per_s >= 1e3
