"""Dense products in every type."""

from __future__ import annotations

import pytest
import torch

from trainer.base.pass_context import PassContext
from trainer.base.traffic_log import Clock
from trainer.sparse import dropout
from trainer.sparse.dense import dense

CLOCK = Clock(torch.device("cpu"))


@pytest.mark.parametrize("width", [4, 16, 20])
@pytest.mark.parametrize(
    ("stored", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 2e-2), (torch.float16, 3e-3)]
)
def test_product_and_both_gradients(stored: torch.dtype, tolerance: float, width: int) -> None:
    """A gradient that is transposed, on either way to it, or of another type than Adam's, fails late or not at all."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(50, 18, generator=generator).to(stored).requires_grad_()
    weight = torch.randn(18, width, generator=generator).requires_grad_()
    direction = torch.randn(50, width, generator=generator)
    found = dense(rows, weight, CLOCK)
    assert found.dtype == stored
    (found.float() * direction).sum().backward()
    expected = rows.detach().float() @ weight.detach()
    assert rows.grad is not None
    assert weight.grad is not None
    assert (rows.grad.dtype, weight.grad.dtype) == (stored, torch.float32)
    for one, other in (
        (found.float(), expected),
        (rows.grad.float(), direction @ weight.detach().T),
        (weight.grad, rows.detach().float().T @ direction),
    ):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * float(other.abs().max()))


@pytest.mark.parametrize("gathered", [200, 1 << 21])
@pytest.mark.parametrize("width", [4, 16, 20])
@pytest.mark.parametrize(
    ("stored", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2), (torch.float16, 3e-3)]
)
def test_dropping_some_rows_at_a_time_is_dropping_all(
    stored: torch.dtype, tolerance: float, width: int, gathered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against rows that get the mask of others, or none on the way back, and against the last few left out."""
    monkeypatch.setattr(dropout, "_GATHERED_ON_CPU", gathered)
    monkeypatch.setattr(dropout, "_GATHERED_BY_THREAD", 0)
    ids = torch.arange(53) * 7
    mask = dropout.Dropout(ids, ids[:2], num_nodes=400, seed=0).mask(0.5, 1, 18, PassContext(epoch=1, training=True))
    assert mask is not None
    direction = torch.randn(53, width, generator=torch.Generator().manual_seed(1))
    found = []
    for fused in (True, False):
        generator = torch.Generator().manual_seed(0)
        rows = torch.randn(53, 18, generator=generator).to(stored).requires_grad_()
        weight = torch.randn(18, width, generator=generator).requires_grad_()
        out = dense(rows, weight, CLOCK, mask) if fused else dense(mask.own(rows), weight, CLOCK)
        (out.float() * direction).sum().backward()
        assert rows.grad is not None
        assert weight.grad is not None
        assert bool((rows.grad == 0).any())
        found.append((out.detach().float(), rows.grad.float(), weight.grad))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * float(other.abs().max()))


def test_rows_that_need_no_gradient_get_none() -> None:
    """The features' gradient is a product of N x F x G that nobody reads."""
    rows, weight = torch.ones(3, 2), torch.ones(2, 2, requires_grad=True)
    dense(rows, weight, CLOCK).sum().backward()
    assert rows.grad is None
    assert weight.grad is not None


def test_its_seconds_are_counted() -> None:
    """What is not timed is looked for elsewhere."""
    clock = Clock(torch.device("cpu"))
    dense(torch.ones(3, 2), torch.ones(2, 2, requires_grad=True), clock).sum().backward()
    assert clock.seconds["dense product"] > 0
