"""Dropout."""

from __future__ import annotations

import pytest
import torch

from trainer.base.pass_context import PassContext
from trainer.sparse.dropout import Dropout, Mask

IDS = torch.arange(400)


def mask(
    share: float = 0.5, *, layer: int = 1, width: int = 500, epoch: int = 1, seed: int = 0, ids: torch.Tensor = IDS
) -> Mask:
    dropout = Dropout(ids, ids[:10], num_nodes=400, seed=seed)
    found = dropout.mask(share, layer, width, PassContext(epoch=epoch, training=True))
    assert found is not None
    return found


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_share_scale_and_gradient(share: float) -> None:
    """Entries that are kept unscaled, or a gradient through another mask than the values', bias what is learnt."""
    rows = torch.ones(400, 500, requires_grad=True)
    kept = mask(share).own(rows)
    values = kept.detach().unique().tolist()
    assert values == pytest.approx([0.0, 1 / (1 - share)])
    assert (kept == 0).float().mean().item() == pytest.approx(share, abs=0.01)
    kept.sum().backward()
    assert rows.grad is not None
    assert torch.equal(rows.grad, kept.detach())


def test_a_row_is_dropped_alike_wherever_it_is() -> None:
    """A rank that drops other entries of its copy than the owner trains with noise that one rank does not have."""
    rows = torch.ones(400, 500)
    here = mask().own(rows)
    order = torch.randperm(400, generator=torch.Generator().manual_seed(0))
    elsewhere = mask(ids=IDS[order])
    assert torch.equal(elsewhere.own(rows), here[order])
    assert torch.equal(elsewhere.halo(rows[:10]), here[order[:10]])


@pytest.mark.parametrize("other", [{"layer": 2}, {"epoch": 2}, {"seed": 1}])
def test_masks_of_other_layers_epochs_and_seeds_are_independent(other: dict[str, int]) -> None:
    """A mask that comes again drops the same entries until the end: a smaller network, not dropout."""
    rows = torch.ones(400, 500)
    both = (mask().own(rows) > 0) & (mask(**other).own(rows) > 0)
    assert both.float().mean().item() == pytest.approx(0.25, abs=0.01)


def test_rows_and_columns_are_independent() -> None:
    """Windows that start at neighbouring places for neighbouring nodes give each the mask of the next, moved by one."""
    kept = (mask(width=64).own(torch.ones(400, 64)) > 0).float() - 0.5
    for products in (kept @ kept.T / 64, kept.T @ kept / 400):
        off_diagonal = products[~torch.eye(len(products), dtype=torch.bool)]
        assert off_diagonal.mean().item() == pytest.approx(0.0, abs=0.01)
    by_shift = [(kept[:-1, shift:] * kept[1:, : 64 - shift]).mean().item() for shift in range(3)]
    assert by_shift == pytest.approx([0.0] * 3, abs=0.01)


def test_evaluation_drops_nothing() -> None:
    """A mask in evaluation makes accuracies that nobody can repeat."""
    dropout = Dropout(IDS, IDS, num_nodes=400, seed=0)
    assert dropout.mask(0.5, 1, 8, PassContext.evaluation(1)) is None
    assert dropout.mask(0.0, 1, 8, PassContext(epoch=1, training=True)) is None
