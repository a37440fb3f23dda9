"""Groups of consecutive snapshots, one a rank, with seconds as equal as the order allows.

What a snapshot costs is fitted to the seconds of a pass: seconds = a + b edges + c nodes, by least squares with a, b
and c not below 0. The groups are the consecutive ones whose largest sum of costs is smallest, by binary search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor

_HALVINGS = 60
"""Of the interval that has the smallest largest sum: more than a float has digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one snapshot takes."""

    base: float
    """Seconds of a snapshot without edges and nodes"""
    edge: float
    """Seconds an edge"""
    node: float
    """Seconds a node"""

    def seconds(self, edges: Sequence[int], nodes: Sequence[int]) -> list[float]:
        """By snapshot."""
        return [self.base + self.edge * e + self.node * n for e, n in zip(edges, nodes, strict=True)]

    def __str__(self) -> str:
        return f"{1e3 * self.base:.3g} ms + {1e6 * self.edge:.3g} us an edge + {1e6 * self.node:.3g} us a node"


def fitted_cost(seconds: Sequence[float], edges: Sequence[int], nodes: Sequence[int]) -> Cost:
    """The cost with the least squares of errors, of those without a negative term.

    Args:
        seconds: of each snapshot, at least one.
        edges: of each.
        nodes: of each.
    """
    columns = torch.tensor([[1.0] * len(seconds), list(edges), list(nodes)], dtype=torch.float64)
    target = torch.tensor(list(seconds), dtype=torch.float64)
    best, least = torch.zeros(3, dtype=torch.float64), float("inf")
    for subset in range(1, 8):  # the best of all subsets without a negative term is the best without one
        used = [place for place in range(3) if subset >> place & 1]
        some = _least_squares(columns[used].T, target)
        error = float((columns[used].T @ some - target).square().sum())
        if bool((some >= 0).all()) and error < least:
            least, best = error, torch.zeros(3, dtype=torch.float64)
            best[used] = some
    base, edge, node = best.tolist()
    return Cost(base=base, edge=edge, node=node)


def _least_squares(columns: Tensor, target: Tensor) -> Tensor:
    """By columns of length 1, since edges and nodes are of other sizes than 1; columns may depend on each other."""
    lengths = torch.linalg.vector_norm(columns, dim=0).clamp(min=1e-300)
    solution: Tensor = torch.linalg.lstsq(columns / lengths, target.unsqueeze(1), driver="gelsd").solution.squeeze(1)
    return solution.div(lengths)


def balanced_groups(costs: Sequence[float], number: int) -> list[int]:
    """The borders of `number` groups: group r has the snapshots borders[r] .. borders[r + 1] - 1; some may be empty."""
    low, high = max(costs, default=0.0), sum(costs)
    low = max(low, high / number)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if len(_filled(costs, middle)) <= number else (middle, high)
    borders = [0, *_filled(costs, high)]
    return borders + [len(costs)] * (number + 1 - len(borders))


def equal_groups(num_snapshots: int, number: int) -> list[int]:
    """The borders of groups with equally many snapshots."""
    return [num_snapshots * group // number for group in range(number + 1)]


def loads(costs: Sequence[float], borders: Sequence[int]) -> list[float]:
    """The sum of each group."""
    sums = list(accumulate(costs, initial=0.0))
    return [sums[end] - sums[begin] for begin, end in pairwise(borders)]


def imbalance(loads: Sequence[float]) -> float:
    """The largest by the mean; 1 where there is no load."""
    mean = sum(loads) / len(loads)
    return max(loads) / mean if mean else 1.0


def _filled(costs: Sequence[float], limit: float) -> list[int]:
    """Where groups end that are filled up to the limit one after the other; a single cost above it has its own."""
    ends, load = list[int](), 0.0
    for number, cost in enumerate(costs):
        if number and load + cost > limit:
            ends.append(number)
            load = 0.0
        load += cost
    return [*ends, len(costs)]
