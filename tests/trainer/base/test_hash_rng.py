"""Random numbers by node and by pair."""

from __future__ import annotations

import pytest
import torch

from trainer.base.hash_rng import bernoulli, bernoulli_of_pairs, ends_of_pairs, pair_ids


@pytest.mark.parametrize("chance", [0.0, 0.3, 1 - 2.0**-33, 1.0])
def test_pairs_have_the_numbers_that_the_hash_of_both_ends_gives(chance: float) -> None:
    """A shorter way that differs in the last bits, or where products wrap around, drops other edges on other ranks."""
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randint(1 << 40, (5000,), generator=generator) for _ in range(2))
    heads, key = torch.arange(5), 0x1234567890ABCDE
    found = bernoulli_of_pairs(heads, ends_of_pairs(first)[0], ends_of_pairs(second)[1], key, chance)
    expected = bernoulli(pair_ids(heads.unsqueeze(1), pair_ids(first, second)), key, chance)
    assert torch.equal(found, expected)
    assert found.float().mean().item() == pytest.approx(chance, abs=0.01)
