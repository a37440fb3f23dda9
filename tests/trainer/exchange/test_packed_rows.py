"""Rows in few bits: what comes back, in how many bytes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from trainer.exchange.packed_rows import (
    NARROW_BITS,
    decode_whole,
    encode_whole,
    message_bytes,
    pack,
    quantise,
    unpack,
)

MOST_ERROR = {2: 0.16, 4: 0.012, 8: 1e-4}
"""Relative square error of rows of a normal distribution; a step for unbiased rounding makes 1 of 2 bits"""


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("bits", NARROW_BITS)
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (9, 7), (50, 64), (3, 129)])
def test_a_message_has_the_numbers_of_the_rows(bits: int, shape: tuple[int, int]) -> None:
    """Widths that fill no block and no byte, and a message without rows."""
    quantised = quantise(normal(*shape), bits)
    message = pack(quantised, bits)
    back = unpack(message, bits)
    assert message.dtype == torch.uint8
    assert len(message) == message_bytes(bits, *shape, 4)
    assert torch.equal(back.numbers_NB, quantised.numbers_NB)
    assert torch.equal(back.step_N1, quantised.step_N1)
    assert torch.equal(back.values(*shape), quantised.values(*shape))


@pytest.mark.parametrize("bits", NARROW_BITS)
def test_the_error_is_that_of_the_nearest_numbers(bits: int) -> None:
    rows = normal(200, 64)
    for values in (rows, rows.relu(), -rows.relu(), 1e-20 * rows):
        error = (quantise(values, bits).values(*values.shape) - values).double().square().sum()
        assert float(error / values.double().square().sum()) < MOST_ERROR[bits]


@pytest.mark.parametrize("bits", NARROW_BITS)
def test_zeros_stay_zeros_and_one_nan_does_not_get_lost(bits: int) -> None:
    rows = normal(4, 64)
    rows[1] = 0
    rows[2, ::2] = 0
    back = quantise(rows, bits).values(4, 64)
    assert not back[rows == 0].any()
    rows[3, 5] = torch.nan
    assert quantise(rows, bits).values(4, 64)[3].isnan().all()


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bits", [16, 32])
def test_whole_rows_are_never_wider_than_they_are_stored(bits: int, stored: torch.dtype) -> None:
    rows = normal(5, 7).to(stored)
    message = encode_whole(rows, bits)
    back = decode_whole(message, bits, 5, 7, stored)
    assert len(message) == message_bytes(bits, 5, 7, stored.itemsize)
    assert back.dtype == stored
    assert torch.equal(back, rows if bits == 32 else rows.bfloat16().to(stored))


def test_bytes_of_a_message() -> None:
    """A step in 2 bytes for 64 values, whatever the width of a row: 10 rows of 7 values are two blocks."""
    assert [message_bytes(bits, 10, 7, 4) for bits in (2, 4, 8, 16, 32)] == [36, 68, 132, 140, 280]
