"""Interfaces that a user names for gloo and NCCL."""

from __future__ import annotations

import re

import pytest

from trainer.dist import network_interfaces
from trainer.base.errors import TrainingError


@pytest.mark.parametrize(
    ("variable", "on_gpu", "value"),
    [
        (network_interfaces.GLOO, False, "lo"),
        (network_interfaces.NCCL, True, "=lo"),
        (network_interfaces.NCCL, True, "l"),
        (network_interfaces.NCCL, True, "^docker"),
        (network_interfaces.GLOO, True, "absent0"),
        (network_interfaces.GLOO, False, ""),
    ],
)
def test_what_can_be_used_is_left_alone(variable: str, on_gpu: bool, value: str) -> None:
    """A check that refuses NCCL's own ways to write a name ends runs that would work."""
    network_interfaces.check_interfaces({variable: value}, on_gpu=on_gpu)


@pytest.mark.parametrize(("variable", "on_gpu"), [(network_interfaces.GLOO, False), (network_interfaces.NCCL, True)])
def test_an_interface_that_is_not_there_is_named_at_once(variable: str, on_gpu: bool) -> None:
    """A wrong name was found after five time-outs, and the sentence did not have it."""
    expected = rf"{variable} is absent0 and .* has no network interface 'absent0', only .*lo.*; correct {variable}"
    with pytest.raises(TrainingError, match=expected):
        network_interfaces.check_interfaces({variable: "absent0"}, on_gpu=on_gpu)


def test_an_interface_without_an_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cable that nobody plugged in was waited for."""
    monkeypatch.setattr(network_interfaces, "_has_address", lambda name: False)
    with pytest.raises(TrainingError, match=re.escape("network interface lo of ")):
        network_interfaces.check_interfaces({network_interfaces.GLOO: "lo"}, on_gpu=False)


def test_the_loopback_interface_has_an_address() -> None:
    """A look at addresses that finds none refuses every run that names an interface."""
    assert network_interfaces._has_address("lo")
    assert not network_interfaces._has_address("absent0")
