"""The workers of a rank: while one computes a snapshot's sparse product, another can compute another one's dense one.

A worker is a thread, since torch's products run without the interpreter's lock. Each has the snapshots of its own
residue, its own clock and its own sums of gradients, so the result does not depend on which worker is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import torch

from trainer.base.traffic_log import Clock

Span = tuple[str, float, float]


class Workers:
    """The workers of one rank."""

    def __init__(self, number: int, device: torch.device) -> None:
        self.clocks = [Clock(device) for _ in range(number)]
        self._threads = ThreadPoolExecutor(number) if number > 1 else None
        self._streams: list[torch.cuda.Stream] = []
        if device.type == "cuda":
            self._streams = [torch.cuda.Stream(device) for _ in range(number)]  # type: ignore[no-untyped-call]

    @property
    def number(self) -> int:
        return len(self.clocks)

    def map(self, do: Callable[[int, int], None], items: Sequence[int]) -> None:
        """Call `do(item, worker)` for all items, and return when all are done."""
        if self._threads is None:
            self._some(do, items, 0)
            return
        futures = [
            self._threads.submit(self._some, do, items[worker :: self.number], worker) for worker in range(self.number)
        ]
        for future in futures:
            future.result()

    def _some(self, do: Callable[[int, int], None], items: Sequence[int], worker: int) -> None:
        if not self._streams:
            for item in items:
                do(item, worker)
            return
        stream = self._streams[worker]
        default = torch.cuda.default_stream(stream.device)
        stream.wait_stream(default)
        with torch.cuda.stream(stream):
            for item in items:
                do(item, worker)
        default.wait_stream(stream)


def overlap_seconds(spans: Sequence[Sequence[Span]], first: str, second: str) -> float:
    """Seconds in which one worker did `first` and another one `second` at the same time.

    Args:
        spans: of each worker.
        first: an activity.
        second: another.
    """
    total = 0.0
    for worker, one in enumerate(spans):
        others = [span for place, spans_of in enumerate(spans) if place != worker for span in spans_of]
        total += _common(_merged(one, first), _merged(others, second))
    return total


def _merged(spans: Sequence[Span], activity: str) -> list[tuple[float, float]]:
    """The spans of one activity in order, those that meet as one."""
    merged: list[tuple[float, float]] = []
    for begin, end in sorted((begin, end) for name, begin, end in spans if name == activity):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def _common(one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> float:
    """Seconds in which both are."""
    points = sorted(
        [(time, step) for pair in one for time, step in zip(pair, (1, -1), strict=True)]
        + [(time, step) for pair in other for time, step in zip(pair, (2, -2), strict=True)]
    )
    state, total = 0, 0.0
    for (time, step), (following, _) in pairwise(points):
        state += step
        total += (following - time) * (state == 3)
    return total
