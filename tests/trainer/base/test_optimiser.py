"""Optimisers against torch's own, and schedules against what they say."""

from __future__ import annotations

import pytest
import torch

from trainer.base.errors import OptionError
from trainer.base.optimiser import clipped, optimiser
from trainer.config.lr_schedule import schedule


@pytest.mark.parametrize("kind", ["adam", "adamw", "sgd"])
def test_steps_are_those_of_torch(kind: str) -> None:
    """A bias correction that starts at the wrong step, or a decay in the wrong place, is another algorithm."""
    generator = torch.Generator().manual_seed(0)
    first = [torch.randn(4, 3, generator=generator), torch.randn(3, generator=generator)]
    ours, theirs = ([torch.nn.Parameter(value.clone()) for value in first] for _ in range(2))
    decays = (0.1, 0.0)
    mine = optimiser(kind, list(zip(ours, decays, strict=True)), momentum=0.8)
    groups = [{"params": [p], "weight_decay": decay} for p, decay in zip(theirs, decays, strict=True)]
    reference = {
        "adam": lambda: torch.optim.Adam(groups, lr=1.0),
        "adamw": lambda: torch.optim.AdamW(groups, lr=1.0),
        "sgd": lambda: torch.optim.SGD(groups, lr=1.0, momentum=0.8),
    }[kind]()
    for step in range(12):
        lr = 0.1 / (step + 1)
        gradients = [torch.randn(value.shape, generator=generator) for value in first]
        mine.step(torch.cat([gradient.reshape(-1) for gradient in gradients]), lr)
        for group in reference.param_groups:
            group["lr"] = lr
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient.clone()
        reference.step()
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_clipping_shortens_and_keeps_the_direction() -> None:
    """A gradient that is scaled up to the limit, or clipped value by value, points elsewhere."""
    gradient = torch.tensor([3.0, 4.0])
    torch.testing.assert_close(clipped(gradient, 1.0), torch.tensor([0.6, 0.8]))
    assert torch.equal(clipped(gradient, 10.0), gradient)
    assert torch.equal(clipped(gradient, 0.0), gradient)
    assert torch.equal(clipped(torch.zeros(2), 1.0), torch.zeros(2))


def factors(text: str, *, warmup: int = 0, epochs: int = 10) -> list[float]:
    factor = schedule(text, warmup=warmup, epochs=epochs)
    return [factor(epoch) for epoch in range(1, epochs + 1)]


def test_schedules() -> None:
    """A schedule that is off by one epoch, or ends above its floor, is hard to see in a loss."""
    assert factors("constant") == [1.0] * 10
    assert factors("step:3:0.5") == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125]
    assert factors("step:5")[5] == pytest.approx(0.1)
    cosine = factors("cosine:0.2", epochs=11)
    assert (cosine[0], cosine[5], cosine[10]) == (1.0, pytest.approx(0.6), pytest.approx(0.2))
    assert cosine == sorted(cosine, reverse=True)
    warmed = factors("cosine", warmup=4)
    assert warmed[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert warmed[-1] == pytest.approx(0.0)
    assert factors("cosine", epochs=1) == [1.0]


@pytest.mark.parametrize(
    "text", ["", "linear", "cosine:2", "cosine:x", "step", "step:0", "step:1.5", "step:3:0", "step:nan"]
)
def test_unknown_schedules_are_refused(text: str) -> None:
    """A word that is not understood must not mean `constant`."""
    with pytest.raises(OptionError, match="expected constant"):
        schedule(text, warmup=0, epochs=5)
