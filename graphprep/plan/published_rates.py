"""The rates of a plan from the published specifications of a GPU."""

from __future__ import annotations

from collections.abc import Callable

from graphprep.plan.rates import Rates
from graphprep.topology.gpu_specs import Gpu
from graphprep.traffic.step import EDGE_BYTES, VALUE_BYTES


def published_rates(gpu: Gpu) -> Rates:
    """Seconds by width: the bytes and operations of each, over the shares of the peaks that are counted."""
    streamed, gathered = gpu.streamed_bytes_per_s, gpu.gathered_bytes_per_s

    def product(a: int, b: int) -> float:
        return max(2 * a * b / gpu.operations_per_s, VALUE_BYTES * (a + b) / streamed)

    return Rates(
        edges=ByKey(lambda width: (VALUE_BYTES * width + EDGE_BYTES) / gathered),
        products=ByKey(product),
        gradients=ByKey(product),
        masked=ByKey(lambda width: 5 * VALUE_BYTES * width / streamed),  # windows read, written, read; values; result
        passed=ByKey(lambda width: 3 * VALUE_BYTES * width / streamed),  # two read, one written
        device=gpu.name,
        threads=None,
    )


class ByKey(dict[str, float]):
    """Seconds by width or by `a,b`, computed on access."""

    def __init__(self, seconds: Callable[..., float]) -> None:
        super().__init__()
        self._seconds = seconds

    def __missing__(self, key: str) -> float:
        return self._seconds(*map(int, key.split(",")))
