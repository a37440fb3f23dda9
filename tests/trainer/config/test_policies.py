"""Policies as pure decisions."""

from __future__ import annotations

import math

import pytest

from trainer.base.errors import OptionError
from trainer.config.policies import Adaptive, Fixed, Policy, StalenessQuery, Variation, policy


def ask(chosen: Policy, *, epoch: int = 1, age: int = 1, source: int = 0, world: int = 4, change: float = 1.0) -> bool:
    return chosen.is_due(StalenessQuery(epoch=epoch, age=age, source=source, world=world, change=change))


def sends(chosen: Policy, *, source: int, world: int = 4, epochs: int = 60) -> list[int]:
    """The epochs in which a source sends after it sent in epoch 1."""
    last, found = 1, []
    for epoch in range(2, epochs):
        if ask(chosen, epoch=epoch, age=epoch - last, source=source, world=world):
            last = epoch
            found.append(epoch)
    return found


@pytest.mark.parametrize("text", ["none", "fixed:1", "adaptive:0", "variation:0:0"])
def test_the_strictest_of_each_policy_always_sends(text: str) -> None:
    """The strictest setting of a policy has to be the exact run; a bound that is off by one skips every other epoch."""
    chosen = policy(text)
    assert sends(chosen, source=3) == list(range(2, 60))
    assert not chosen.keeps


def test_fixed_sends_every_k_epochs() -> None:
    """Counted from the last send, not from epoch 0, or the first gap after the warm-up has another length."""
    assert sends(Fixed(5), source=0) == list(range(6, 60, 5))


@pytest.mark.parametrize("oldest", [1, 2, 3, 7])
def test_adaptive_keeps_its_bound_and_its_rate(oldest: int) -> None:
    """A copy older than its bound breaks the promise; one that is sent too early, or twice, breaks the saving."""
    for source in range(4):
        found = sends(Adaptive(oldest), source=source)
        gaps = [later - earlier for earlier, later in zip([1, *found], found, strict=False)]
        assert max(gaps) <= oldest + 1
        assert set(gaps[1:]) == {oldest + 1}


@pytest.mark.parametrize(("oldest", "most"), [(3, 1), (7, 1), (1, 2), (2, 2)])
def test_adaptive_sources_take_turns(oldest: int, most: int) -> None:
    """Sources that all send in one epoch load the links as `fixed` does, and gain nothing."""
    found = [set(sends(Adaptive(oldest), source=source)) for source in range(4)]
    loads = [sum(epoch in epochs for epochs in found) for epoch in range(20, 50)]
    assert max(loads) == most


def test_variation_sends_what_changed_enough_or_got_too_old() -> None:
    """A threshold of 0 skips nothing that changed, and a copy of a converged source is refreshed some time."""
    assert ask(Variation(0.0), change=1e-30)
    assert not ask(Variation(0.0), change=0.0)
    assert not ask(Variation(0.1), change=0.1)
    assert ask(Variation(0.1), change=0.11)
    assert not ask(Variation(0.1, 5), change=0.0, age=5)
    assert ask(Variation(0.1, 5), change=0.0, age=6)


def test_variation_never_hides_a_nan() -> None:
    """A peer that goes on with finite old rows while their owner's are NaN trains a model that nobody has."""
    assert ask(Variation(1e9), change=math.nan)
    assert ask(Variation(1e9), change=math.inf)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none", Fixed(1)),
        ("fixed", Fixed(4)),
        ("adaptive", Adaptive(3)),
        ("variation", Variation(0.8)),
        ("fixed:3", Fixed(3)),
        ("adaptive:4", Adaptive(4)),
        ("variation:0.25", Variation(0.25)),
        ("variation:0.25:7", Variation(0.25, 7)),
    ],
)
def test_words_of_the_command_line(text: str, expected: Policy) -> None:
    """A number that lands in the wrong field changes what is trained, silently."""
    assert policy(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "fixed:", "fixed:0", "fixed:1.5", "fixed:2:3", "adaptive:-1", "variation:-1", "variation:nan", "variation:inf",
     "variation:0.1:x", "variation:0.1:2:3", "none:1", "sometimes:3"],
)  # fmt: skip
def test_other_words_are_refused_in_one_sentence(text: str) -> None:
    """A policy that is misspelt and taken for `none` sends everything and says nothing."""
    with pytest.raises(OptionError, match="staleness policy") as caught:
        policy(text)
    assert "\n" not in str(caught.value)
