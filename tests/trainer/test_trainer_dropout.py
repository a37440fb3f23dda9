"""Dropout."""

from __future__ import annotations

import pytest
import torch

from trainer.dropout import dropped


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_share_scale_and_gradient(share: float) -> None:
    """Entries that are kept unscaled, or a gradient through another mask than the values', bias what is learnt."""
    torch.manual_seed(0)
    rows = torch.ones(400, 500, requires_grad=True)
    kept = dropped(rows, share, training=True)
    values = kept.detach().unique().tolist()
    assert values == pytest.approx([0.0, 1 / (1 - share)])
    assert (kept == 0).float().mean().item() == pytest.approx(share, abs=0.01)
    kept.sum().backward()
    assert rows.grad is not None
    assert torch.equal(rows.grad, kept.detach())


def test_evaluation_drops_nothing() -> None:
    """A mask in evaluation makes accuracies that nobody can repeat."""
    rows = torch.randn(3, 4)
    assert dropped(rows, 0.5, training=False) is rows
    assert dropped(rows, 0.0, training=True) is rows
