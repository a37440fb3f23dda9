"""Numbers as text, the same on a terminal and on a page."""

from __future__ import annotations

from collections.abc import Callable

Format = Callable[[float], str]


def count(value: float) -> str:
    """A whole number: 1,234."""
    return f"{value:,.0f}"


def percent(value: float) -> str:
    """A part of one: 12.3 %."""
    return f"{100 * value:.1f} %"


def ratio(value: float) -> str:
    """A number of size one: 1.234."""
    return f"{value:.3f}"


def times(value: float) -> str:
    """How often one number is in another: 1.23."""
    return f"{value:.2f}"


def short(value: float) -> str:
    """A number with four digits: 1,234 or 1.234."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them: 1.23 s, 1.234 ms, 1.2 us, 1.2 ns."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.3f} ms"
    return f"{seconds * 1e9:.1f} ns" if 0 < seconds < 1e-7 else f"{seconds * 1e6:.1f} us"


def count_or_duration(value: float) -> str:
    """A count if the value is an integer, else seconds."""
    return count(value) if isinstance(value, int) else duration(value)
