"""What is left of rows after they went over the wire."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from trainer.exchange.wire import Wire, wire

CPU = torch.device("cpu")
NAMES = ("fp32", "bf16", "fp16", "int8")
LARGEST_ERROR = {"fp32": 0.0, "bf16": 2.0**-8, "fp16": 2.0**-11, "int8": 1 / 126}
"""Relative to the greatest entry of a row."""


def form(name: str, stored: torch.dtype = torch.float32, seed: int = 0) -> Wire:
    return wire(name, stored, CPU, seed=seed)


def sent(wire: Wire, rows: Tensor) -> Tensor:
    message = wire.encode(rows)
    assert message.dtype == torch.uint8
    assert message.shape == (len(rows), wire.row_bytes(rows.shape[1]))
    return wire.decode(message)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (1, 7), (50, 64)])
def test_rows_come_back(name: str, stored: torch.dtype, shape: tuple[int, int]) -> None:
    """Odd widths put a row's scale at an odd byte; an empty message is what a part without halo gets."""
    rows = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(stored)
    back = sent(form(name, stored), rows)
    assert back.dtype == stored
    assert back.shape == shape
    if len(rows):
        error = (back.float() - rows.float()).abs().amax(1) / rows.float().abs().amax(1)
        rounding_twice = {torch.float32: 0.0, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-10}[stored]
        assert float(error.max()) <= LARGEST_ERROR[name] + rounding_twice


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_selected_on_the_way(name: str) -> None:
    """Rows of other nodes, or a stream of random numbers that is as long as all rows."""
    rows, picks = torch.randn(20, 7, generator=torch.Generator().manual_seed(1)), torch.tensor([3, 3, 0, 19])
    one, other = form(name), form(name)
    for _ in range(2):
        assert torch.equal(one.encode(rows, picks), other.encode(rows[picks]))


def test_bytes_of_a_row() -> None:
    """A scale in fp32, or a wire that widens what is stored, gives away a third of the saving on narrow rows."""
    assert [form(name).row_bytes(7) for name in NAMES] == [28, 14, 14, 9]
    assert [form(name, torch.bfloat16).row_bytes(7) for name in NAMES] == [14, 14, 14, 9]


def test_fp32_keeps_every_bit() -> None:
    """The exact run goes over this wire too."""
    rows = torch.tensor([[0.0, -0.0, 1e-45, float("inf"), 3.0e38]])
    assert torch.equal(sent(form("fp32"), rows).view(torch.int32), rows.view(torch.int32))


def test_int8_rounds_without_bias() -> None:
    """Rounding to the nearest step loses every gradient below half a step, in every epoch anew."""
    rows = torch.tensor([[1.0, 0.001, -0.002, 0.5]]).repeat(20_000, 1)
    mean = sent(form("int8"), rows).mean(0)
    torch.testing.assert_close(mean, rows[0], atol=3 * (1 / 127) / 20_000**0.5, rtol=1e-5)


def test_int8_keeps_rows_apart() -> None:
    """One scale for all rows rounds the small ones to nothing; a row of zeros has no scale at all."""
    rows = torch.tensor([[1e6, -1e6], [1e-6, -1e-6], [0.0, 0.0]])
    torch.testing.assert_close(sent(form("int8"), rows), rows, rtol=0.01, atol=0.0)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_number_stays_none(name: str) -> None:
    """A NaN that arrives as a number hides that the run has failed; one row's NaN must not take others along."""
    back = sent(form(name), torch.tensor([[1.0, float("nan")], [1.0, 2.0]]))
    assert not back[0].isfinite().all()
    torch.testing.assert_close(back[1], torch.tensor([1.0, 2.0]), rtol=0.02, atol=0.0)


def test_fp16_saturates() -> None:
    """A row that overflows to infinity ends the run, where the greatest number would have done."""
    assert sent(form("fp16"), torch.tensor([[1e6, -1e6]])).tolist() == [[65504.0, -65504.0]]
