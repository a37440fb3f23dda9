"""What the checks of a GPU are made of: sizes, lines of the table, errors and seconds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
PRECISIONS = {"fp32": 1e-4, "fp16": 1e-2, "bf16": 5e-2}
"""The greatest error against float64, over the greatest value."""
SIZES: dict[str, dict[str, int]] = {
    "cuda": {
        "hub": 70_000,
        "width": 128,
        "words": 8_000,
        "nodes": 100_000,
        "edges": 1_000_000,
        "epochs": 20,
        "rows": 400_000,
        "copied": 1 << 28,
        "messages": 200_000,
    },
    "cpu": {
        "hub": 7_000,
        "width": 16,
        "words": 400,
        "nodes": 2_000,
        "edges": 8_000,
        "epochs": 3,
        "rows": 2_000,
        "copied": 1 << 22,
        "messages": 100,
    },
}


def row(case: str, value: float, unit: str, limit: float | None = None) -> Row:
    """One line of the table; with a limit it is right or wrong."""
    return {"case": case, "value": value, "unit": unit, "limit": limit, "ok": None if limit is None else value <= limit}


def error(mine: Any, expected: Any) -> float:
    """The greatest difference, over the greatest value."""
    return float((mine - expected).abs().max() / expected.abs().max().clamp(min=1e-12))


def median_seconds(work: Callable[[], object], place: Any) -> float:
    """The median of a few calls, after one that is not counted."""
    import torch

    def wait() -> None:
        if place.type == "cuda":
            torch.cuda.synchronize(place)

    seconds = []
    for _ in range(8):
        wait()
        started = time.perf_counter()
        work()
        wait()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[1:])
