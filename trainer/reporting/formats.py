"""Numbers as people read them, on a terminal and in a log."""

from __future__ import annotations

ERRORS = ("mse", "mae")
"""Metrics that are no shares, and of which less is better."""


def format_metric(value: float | None, metric: str) -> str:
    """A metric's value as people read it: a share of 0.8154 is '81.54 %', an error stays a number."""
    if value is None:
        return "-"
    return f"{value:.5g}" if metric in ERRORS else f"{100 * value:.2f} %"


def format_bytes(number: float) -> str:
    """Bytes with a decimal prefix: 1_234_567 is '1.2 MB'."""
    for prefix in ("B", "kB", "MB", "GB"):
        if abs(number) < 1000:
            return f"{number:.0f} B" if prefix == "B" else f"{number:.1f} {prefix}"
        number /= 1000
    return f"{number:.1f} TB"


def format_seconds(seconds: float) -> str:
    """Seconds in units that suit them: '1.2 ms', '3.45 s', '2 min 05 s', '3 h 07 min'."""
    if seconds < 1:
        return f"{1000 * seconds:.1f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
