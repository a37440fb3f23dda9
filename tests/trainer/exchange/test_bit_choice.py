"""Bits and ages under a bound: none cheaper that a search over all finds by much, and none that breaks the bound."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from trainer.exchange.bit_choice import (
    AGES,
    EXACT,
    Choice,
    LinkKey,
    Measured,
    choose,
    error_of,
    unmeasured,
    unmeasured_within,
    weights_of,
)

BITS = (2, 4, 8, 16, 32)
CHOICES = [Choice(bits, age) for bits in BITS for age in AGES]
Links = dict[LinkKey, Measured]


def links_of(number: int, seed: int = 0) -> Links:
    """Links whose rows change at different rates, as rows and their gradients between pairs of ranks."""
    draw = random.Random(seed)
    found: Links = {}
    for one in range(number):
        for direction in ("forward", "backward"):
            rate, source, destination = draw.uniform(0.001, 0.1), one, one + 1
            if direction == "backward":
                source, destination = destination, source
            found[LinkKey(2, direction, source, destination)] = Measured(
                square=draw.uniform(0.1, 10),
                drift=[min(2.0, rate * k) for k in range(max(AGES))],
                residual=[min(1.0, rate * k) for k in range(max(AGES) + 1)],
                rounding={2: 0.13, 4: 0.01, 8: 4e-5, 16: 3e-6},
            )
    return found


def costs_of(links: Links, seconds_a_byte: dict[int, float] | None = None) -> dict[LinkKey, dict[Choice, float]]:
    rates = seconds_a_byte or {}
    return {key: {choice: choice.bits / choice.age * rates.get(key.source, 1.0) for choice in CHOICES} for key in links}


@pytest.mark.parametrize("budget", [0.0, 0.01, 0.05, 0.1, 0.3, 0.6, 10.0])
def test_the_error_is_at_most_the_budget(budget: float) -> None:
    links = links_of(6)
    weights = weights_of(links)
    choices = choose(links, weights, costs_of(links), budget)
    assert math.isclose(sum(weights.values()), 1.0)
    assert error_of(links, choices, weights) <= budget
    if budget == 0:
        assert set(choices.values()) == {EXACT}
    if budget == 10:
        assert set(choices.values()) == {Choice(2, 8)}


def test_what_is_chosen_is_near_the_cheapest() -> None:
    """Beside a search over every combination of two links in both directions."""
    links = links_of(1)
    weights, costs = weights_of(links), costs_of(links)
    keys = list(links)
    for budget in (0.05, 0.1, 0.2, 0.4):
        chosen = choose(links, weights, costs, budget)
        cost = sum(costs[key][choice] for key, choice in chosen.items())
        cheapest = min(
            sum(costs[key][choice] for key, choice in zip(keys, combination, strict=True))
            for combination in itertools.product(CHOICES, repeat=len(keys))
            if error_of(links, dict(zip(keys, combination, strict=True)), weights) <= budget
        )
        assert cheapest <= cost <= 1.5 * cheapest


def test_the_error_within_some_bytes_is_near_the_smallest() -> None:
    """Beside a search over every combination of two links in both directions."""
    links = links_of(1)
    weights, costs = weights_of(links), costs_of(links)
    keys, exact = list(links), sum(of[EXACT] for of in costs.values())
    for share in (0.02, 0.05, 0.2):
        chosen = choose(links, weights, costs, enough=share * exact)
        assert sum(costs[key][choice] for key, choice in chosen.items()) <= share * exact
        smallest = min(
            error_of(links, dict(zip(keys, combination, strict=True)), weights)
            for combination in itertools.product(CHOICES, repeat=len(keys))
            if sum(costs[key][choice] for key, choice in zip(keys, combination, strict=True)) <= share * exact
        )
        assert smallest <= error_of(links, chosen, weights) <= 1.5 * smallest
    assert set(choose(links, weights, costs, enough=exact).values()) == {EXACT}
    assert set(choose(links, weights, costs, enough=0.0).values()) == {Choice(2, 8)}


def test_links_that_are_slow_or_do_not_matter_get_the_fewest_bits() -> None:
    same = Measured(
        square=1.0,
        drift=[0.01 * k for k in range(max(AGES))],
        residual=[0.01 * k for k in range(max(AGES) + 1)],
        rounding={2: 0.13, 4: 0.01, 8: 4e-5, 16: 3e-6},
    )
    quick, slow = LinkKey(2, "forward", 0, 1), LinkKey(2, "forward", 1, 0)
    links = {quick: same, slow: same}
    weights = dict.fromkeys(links, 0.5)
    chosen = choose(links, weights, costs_of(links, {1: 100.0}), 0.1)
    assert chosen[slow].bits / chosen[slow].age < chosen[quick].bits / chosen[quick].age
    chosen = choose(links, {quick: 1.0, slow: 0.0}, costs_of(links), 0.05)
    assert chosen[slow] == Choice(2, 8)
    assert chosen[quick] != Choice(2, 8)


def test_the_order_of_links_and_of_choices_decides_nothing() -> None:
    """Ranks meet the same links; a dictionary of another order would make them choose otherwise on ties."""
    links = links_of(5)
    links |= {key._replace(layer=3): one for key, one in links.items()}
    other = dict(reversed(links.items()))
    costs = {key: dict(reversed(of.items())) for key, of in costs_of(other).items()}
    weights = weights_of(links)
    assert choose(links, weights, costs_of(links), 0.2) == choose(other, weights_of(other), costs, 0.2)


def test_rows_that_are_not_finite_are_sent_exactly() -> None:
    links = links_of(2)
    odd = next(iter(links))
    links[odd] = Measured(square=1.0, drift=[math.nan] * 8, residual=[math.nan] * 9, rounding=dict.fromkeys(BITS, 0.1))
    assert choose(links, weights_of(links), costs_of(links), 0.5)[odd] == EXACT


def test_before_rows_are_measured_bits_follow_the_budget() -> None:
    assert [unmeasured(budget).bits for budget in (0.5, 0.15, 0.1, 0.005, 1e-4)] == [4, 4, 8, 16, 32]
    assert [unmeasured_within(share, BITS).bits for share in (0.01, 0.0625, 0.2, 0.25, 0.9)] == [2, 2, 4, 8, 16]
