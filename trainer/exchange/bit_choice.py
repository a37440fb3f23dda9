"""Chooses bits and age for each layer, direction and pair of ranks under a bound on the error. No torch here.

For each layer, direction and pair of ranks, a link, there is measured on the rows of the run

    drift[k]        |X(t + k) - X(t)|^2 over the mean of |X|^2: what a copy of age k lacks; of rows without dropout,
                    since an old mask is as good as a new one
    residual[k]     what a copy of age k does not predict of the rows that are sent: 1 - cos^2 of both
    rounding[b]     the square error of the differences that are sent, in b bits, over their own square

and the relative square error of what the receiver computes with, under b bits and a send every `age` epochs, is

    e^2 = mean of drift[0 .. age - 1]  +  residual[age] rounding[b] / (1 - rounding[b])

The last factor adds up what rounding left of earlier differences, each of which is a part of the next one. A link
counts w = |X| |G|, the norm of its rows times that of their gradients, over the sum of all: the loss changes by at most
|G| |dX| with rows that are dX off, and the weights' gradient by at most |X| |dG| with gradients that are dG off, so
both directions have the same weight. The error of all is E^2 = sum of w (e_forward^2 + e_backward^2) / 2.

The cheapest choice with E at most the budget is a knapsack, and so is the choice with the smallest E whose cost is at
most a limit. Both are filled greedily: all links begin exact, and the step along the lower hull of a link's (cost,
error) that saves the most for its error is taken first, until E would be above the budget, or the cost is within the
limit. What is chosen depends on numbers that all ranks have alike, and on nothing else.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

AGES = (1, 2, 3, 4, 6, 8)
_MOST_ROUNDING = 0.9


class Choice(NamedTuple):
    """How the rows of a link are sent."""

    bits: int
    age: int
    """Epochs from one send to the next."""


EXACT = Choice(32, 1)
_NOMINAL_ERRORS = {4: 0.15, 8: 0.01, 16: 0.004}
"""Relative errors of rounding that no block of ordinary rows exceeds, by bits."""


class LinkKey(NamedTuple):
    """A link: the rows of a layer, or their gradients, from one rank to another."""

    layer: int
    direction: str
    source: int
    destination: int

    @property
    def opposite(self) -> LinkKey:
        """The gradients of these rows, or the rows of these gradients."""
        direction = "backward" if self.direction == "forward" else "forward"
        return LinkKey(self.layer, direction, self.destination, self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured of a link."""

    square: float
    """|X|^2"""
    applied: float = 0.0
    """e^2 as it was, under the choice that was in force"""
    drift: Sequence[float]
    """By k from 0 to the greatest age less 1."""
    residual: Sequence[float]
    """By k from 0 to the greatest age."""
    rounding: Mapping[int, float]
    """By bits, of differences, and for 16 of the rows themselves."""

    def square_error(self, choice: Choice) -> float:
        """e^2 under a choice; infinite where the rows are not finite."""
        if choice == EXACT:
            return 0.0
        bits, age = choice
        of_age = sum(self.drift[:age]) / age
        of_rounding = 0.0
        if bits == 16:
            of_rounding = self.rounding[bits]
        elif bits < 16:
            rounding = min(self.rounding[bits], _MOST_ROUNDING)
            of_rounding = self.residual[age] * rounding / (1 - rounding)
        error = of_age + of_rounding
        return error if math.isfinite(error) else math.inf


def unmeasured(budget: float) -> Choice:
    """What rows are sent with in every epoch until they have been measured, under a bound on the error."""
    return Choice(next((bits for bits, error in _NOMINAL_ERRORS.items() if error <= budget), EXACT.bits), 1)


def unmeasured_within(share: float, known: Sequence[int]) -> Choice:
    """The same within a share of the bytes: the most of the known bits that keep within it, or the fewest."""
    return Choice(max((bits for bits in known if bits <= share * EXACT.bits), default=min(known)), 1)


def weights_of(links: Mapping[LinkKey, Measured]) -> dict[LinkKey, float]:
    """w / 2 of each link; they sum to 1 where each has an opposite one, and are 0 where none has a gradient."""
    products = {
        key: math.sqrt(one.square * links[key.opposite].square) if key.opposite in links else one.square
        for key, one in links.items()
    }
    total = math.fsum(products.values())
    if not 0 < total < math.inf:
        return dict.fromkeys(links, 1 / len(links))
    return {key: product / total for key, product in products.items()}


def error_of(
    links: Mapping[LinkKey, Measured], choices: Mapping[LinkKey, Choice], weights: Mapping[LinkKey, float]
) -> float:
    """E under the choices."""
    return math.sqrt(math.fsum(weights[key] * links[key].square_error(choices[key]) for key in links if weights[key]))


def choose(
    links: Mapping[LinkKey, Measured],
    weights: Mapping[LinkKey, float],
    costs: Mapping[LinkKey, Mapping[Choice, float]],
    budget: float = math.inf,
    *,
    enough: float = 0.0,
) -> dict[LinkKey, Choice]:
    """The choice of each link: costs together are small and the error is at most `budget`.

    Args:
        links: what was measured.
        weights: of each.
        costs: of each the choices that it has, with what each costs an epoch; the exact one among them.
        budget: E, 0 or more.
        enough: all costs together that need not be less, so that the error is as small as it can be.
    """
    hulls = {
        key: _hull({choice: (cost, weights[key] * one.square_error(choice)) for choice, cost in costs[key].items()})
        for key, one in links.items()
    }
    places = dict.fromkeys(links, 0)
    allowed = budget**2

    def next_step(key: LinkKey) -> tuple[float, LinkKey] | None:
        hull, place = hulls[key], places[key]
        if place + 1 == len(hull):
            return None
        (_, cost, error), (_, next_cost, next_error) = hull[place], hull[place + 1]
        return (next_error - error) / (cost - next_cost), key

    queue = [step for key in links if (step := next_step(key)) is not None]
    heapq.heapify(queue)
    used = math.fsum(hull[0].error for hull in hulls.values())
    spent = math.fsum(hull[0].cost for hull in hulls.values())
    while queue and spent > enough:
        _, key = heapq.heappop(queue)
        hull, place = hulls[key], places[key]
        with_step = used + hull[place + 1].error - hull[place].error
        if with_step > allowed:
            continue
        used, places[key] = with_step, place + 1
        spent += hull[place + 1].cost - hull[place].cost
        if (step := next_step(key)) is not None:
            heapq.heappush(queue, step)
    return {key: hulls[key][place].choice for key, place in places.items()}


class _Point(NamedTuple):
    choice: Choice
    cost: float
    error: float


def _hull(points: Mapping[Choice, tuple[float, float]]) -> list[_Point]:
    """The lower hull of (cost, error), from the smallest error to the smallest cost."""
    finite = [_Point(choice, *point) for choice, point in points.items() if math.isfinite(point[1])]
    hull: list[_Point] = []
    for point in sorted(finite, key=lambda one: (one.error, one.cost, one.choice)):
        if hull and point.cost >= hull[-1].cost:
            continue
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def _slope(point: _Point, cheaper: _Point) -> float:
    """Error that is added for each unit of cost that is saved."""
    return (cheaper.error - point.error) / (point.cost - cheaper.cost)
