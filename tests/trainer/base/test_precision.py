"""The loss scale."""

from __future__ import annotations

import math

import pytest

from trainer.base.precision import LossScale


@pytest.mark.parametrize("num_train", [1, 3, 140, 10**9])
def test_the_scale_is_a_power_of_two_of_the_order_of_the_training_nodes(num_train: int) -> None:
    """Another factor rounds gradients when it is divided out; one that does not grow with T leaves them below fp16."""
    factor = LossScale(num_train=num_train, is_needed=True).factor
    assert math.frexp(factor)[0] == 0.5
    assert 16 * num_train <= factor < 32 * num_train


def test_it_shrinks_to_one_and_no_further() -> None:
    """A loss that is divided by its own scale for ever hides that the gradients themselves are not finite."""
    scale = LossScale(num_train=1, is_needed=True)
    for _ in range(4):
        assert scale.can_shrink()
        scale.shrink()
    assert scale.factor == 1.0
    assert not scale.can_shrink()


def test_without_fp16_nothing_is_scaled() -> None:
    """fp32 and bf16 have the range; a scale there is one more thing that could be wrong."""
    scale = LossScale(num_train=1000, is_needed=False)
    assert scale.factor == 1.0
    assert not scale.can_shrink()
