"""Messages by the kernels: byte for byte those of torch's formulas."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.trainer.kernels.interpreted import pack
from trainer.exchange.wire import Int8, wire

CPU = torch.device("cpu")
TYPES = [torch.float32, torch.float16, torch.bfloat16]
INFINITE = float("inf")
SHAPES = [(0, 3), (1, 1), (5, 7), (37, 64), (6, 300)]


def rows_of(shape: tuple[int, int], stored: torch.dtype = torch.float32) -> Tensor:
    """Rows of all sizes, with zeros, ties of rounding, what is too small and what is too large."""
    random = torch.Generator().manual_seed(5)
    rows = torch.randn(shape, generator=random) * torch.randint(-40, 38, (shape[0], 1), generator=random).float().exp2()
    odd = torch.tensor([0.0, -0.0, 1e-45, -1e-41, 1.00390625, 65504.0, -65520.0, 3.4e38, -INFINITE, INFINITE, 127.0])
    count = min(rows.numel(), len(odd))
    rows.view(-1)[:count] = odd[:count]
    return rows.to(stored)


@pytest.fixture(autouse=True)
def wires_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this, `trainer.exchange.wire` would use the kernels too."""
    monkeypatch.delenv("TRITON_INTERPRET")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sent", ["fp16", "bf16"])
@pytest.mark.parametrize("clamps", [True, False])
def test_half_precision(shape: tuple[int, int], sent: str, clamps: bool) -> None:
    """Rounding that truncates, a clamp that is left out, and ties that go up."""
    rows = rows_of(shape)
    form = wire(sent, torch.float32, CPU, seed=0, clamps=clamps)
    found = pack.pack_half(rows, {"fp16": torch.float16, "bf16": torch.bfloat16}[sent], clamps=clamps)
    assert torch.equal(found, form.encode(rows))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("stored", TYPES)
def test_int8(shape: tuple[int, int], stored: torch.dtype) -> None:
    """A scale that is rounded down brings an entry beyond 127; a division by a reciprocal moves a step."""
    rows = rows_of(shape, stored)
    # The steps of infinite rows are no numbers, and torch leaves their bytes open.
    rows = torch.where(rows.isinf(), torch.ones_like(rows), rows)
    form = wire("int8", stored, CPU, seed=9)
    chances = torch.empty(shape).uniform_(generator=torch.Generator().manual_seed(9))
    message = pack.pack_int8(rows, chances)
    assert torch.equal(message, form.encode(rows))
    back = pack.unpack_int8(message, stored)
    assert back.dtype == stored
    assert torch.equal(bits_of(back), bits_of(form.decode(message)))


def test_whole_numbers_of_steps_stay_what_they_are() -> None:
    """Times the reciprocal of a step, 93 steps are a little less, which is rounded down to 92."""
    steps = torch.arange(-127.0, 128.0)
    rows = steps * torch.arange(128.0, 256.0).div(128).unsqueeze(1)
    message = pack.pack_int8(rows, torch.zeros(rows.shape))
    assert torch.equal(message[:, :-2].view(torch.int8), steps.to(torch.int8).expand(len(rows), -1))


def bits_of(values: Tensor) -> Tensor:
    return values.view({2: torch.int16, 4: torch.int32}[values.element_size()])


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
def test_rows_are_selected_on_the_way(index: torch.dtype) -> None:
    """The rows that a peer needs, some of them more than once."""
    rows, picks = rows_of((20, 33)), torch.tensor([3, 3, 19, 0, 7], dtype=index)
    rows = torch.where(rows.isinf(), torch.ones_like(rows), rows)
    picked, chances = rows[picks.long()], torch.rand(5, 33)
    for sent in (torch.float16, torch.bfloat16):
        assert torch.equal(
            pack.pack_half(rows, sent, clamps=True, picks_R=picks), pack.pack_half(picked, sent, clamps=True)
        )
    assert torch.equal(pack.pack_int8(rows, chances, picks), pack.pack_int8(picked, chances))


def test_what_is_no_number_stays_none() -> None:
    """A NaN that arrives as a number hides that the run has failed; a maximum that ignores it does that."""
    rows = torch.tensor([[1.0, float("nan"), 2.0], [1.0, 2.0, 3.0]])
    rows[0, 2] = torch.tensor(0x7FFFFFFF, dtype=torch.int32).view(torch.float32)  # one that rounds up to -0
    for sent in (torch.float16, torch.bfloat16):
        back = pack.pack_half(rows, sent, clamps=True).view(sent)
        assert torch.equal(back.isnan(), rows.isnan())
    back = pack.unpack_int8(pack.pack_int8(rows, torch.zeros(2, 3)), torch.float32)
    assert back[0].isnan().all()
    assert back[1].isfinite().all()


def test_a_wire_uses_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that nothing calls, and a random stream that is drawn twice or in another order."""
    rows = rows_of((37, 64))
    rows = torch.where(rows.isinf(), torch.ones_like(rows), rows)
    forms = [wire("int8", torch.float32, CPU, seed=4) for _ in range(2)]
    assert all(isinstance(form, Int8) for form in forms)
    plain = [forms[0].encode(rows), forms[0].encode(rows)]
    calls = []
    pack_int8 = pack.pack_int8
    monkeypatch.setattr(pack, "pack_int8", lambda *arguments: calls.append(1) or pack_int8(*arguments))
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    by_kernels = [forms[1].encode(rows), forms[1].encode(rows)]
    assert len(calls) == 2
    assert all(map(torch.equal, plain, by_kernels))
    assert torch.equal(forms[1].decode(plain[0]), pack.unpack_int8(plain[0], torch.float32))
