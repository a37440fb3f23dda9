"""Encodes rows for the wire between ranks, and decodes them.

    fp32    as they are stored, as is every form that would not be narrower
    bf16    2 bytes a value, 8 bits of mantissa, the range of fp32
    fp16    2 bytes a value, 11 bits of mantissa; what is beyond 65,504 is sent as that, gradients as infinite
    int8    1 byte a value and 2 a row: each row is divided by its own scale, the smallest bf16 number that brings its
            greatest entry to 127 or less, and rounded up or down at random so that the mean is the value itself.
            A row of 7 values takes 9 bytes in place of 28

Stochastic rounding draws from a generator of this rank alone: what is sent is data, so the ranks need not draw alike.
With error feedback the sender adds to the rows what rounding took from them the last time, so that errors cancel over
time where they would have to cancel over rows.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

from trainer.base.precision import TYPES
from trainer.kernels.dispatch import serves

_STEPS = 127
_SCALE_BYTES = 2


class Wire(Protocol):
    """A form of rows on the wire."""

    @property
    def limit(self) -> float:
        """The greatest absolute value that it can send; infinite where that is no less than what is stored."""

    def row_bytes(self, width: int) -> int:
        """Bytes of a row of `width` values."""

    def encode(self, rows: Tensor, picks_R: Tensor | None = None) -> Tensor:
        """The message [R, row_bytes] uint8 of `rows` [R, F], or of those rows that `picks_R` names."""

    def decode(self, message: Tensor) -> Tensor:
        """The rows [R, F] of a message, in the type that they are stored in."""


class AsStored:
    """Rows as they are."""

    limit = math.inf

    def __init__(self, stored: torch.dtype) -> None:
        self._stored = stored

    def row_bytes(self, width: int) -> int:
        return width * self._stored.itemsize

    def encode(self, rows: Tensor, picks_R: Tensor | None = None) -> Tensor:
        return _bytes(_picked(rows, picks_R))

    def decode(self, message: Tensor) -> Tensor:
        return message.view(self._stored)


class HalfPrecision:
    """Rows in a type of two bytes; what is too large for it is sent as its greatest number, or as infinite."""

    def __init__(self, sent: torch.dtype, stored: torch.dtype, *, clamps: bool) -> None:
        self._sent, self._stored, self._greatest = sent, stored, torch.finfo(sent).max
        self._clamps, self.limit = clamps, self._greatest if sent == torch.float16 else math.inf

    def row_bytes(self, width: int) -> int:
        return width * self._sent.itemsize

    def encode(self, rows: Tensor, picks_R: Tensor | None = None) -> Tensor:
        if serves(rows.device):
            from trainer.kernels.pack import pack_half

            return pack_half(rows, self._sent, clamps=self._clamps, picks_R=picks_R)
        rows = _picked(rows, picks_R)
        return _bytes((rows.clamp(-self._greatest, self._greatest) if self._clamps else rows).to(self._sent))

    def decode(self, message: Tensor) -> Tensor:
        return message.view(self._sent).to(self._stored)


class Int8:
    """Rows of whole numbers from -127 to 127, each followed by its scale in bf16, which has the range of fp32."""

    limit = math.inf

    def __init__(self, stored: torch.dtype, generator: torch.Generator) -> None:
        self._stored, self._generator = stored, generator

    def row_bytes(self, width: int) -> int:
        return width + _SCALE_BYTES

    def encode(self, rows: Tensor, picks_R: Tensor | None = None) -> Tensor:
        number = len(rows) if picks_R is None else len(picks_R)
        chances = torch.empty(number, rows.shape[1], device=rows.device).uniform_(generator=self._generator)
        if serves(rows.device):
            from trainer.kernels.pack import pack_int8

            return pack_int8(rows, chances, picks_R)
        return int8_message(_picked(rows, picks_R), chances)

    def decode(self, message: Tensor) -> Tensor:
        if serves(message.device):
            from trainer.kernels.pack import unpack_int8

            return unpack_int8(message, self._stored)
        scale_R1 = message[:, -_SCALE_BYTES:].clone(memory_format=torch.contiguous_format).view(torch.bfloat16).float()
        whole = message[:, :-_SCALE_BYTES].view(torch.int8).float()
        return whole.mul_(scale_R1).to(self._stored)


def int8_message(rows: Tensor, chances: Tensor) -> Tensor:
    """The message of `rows`; each entry is rounded up if its fraction of a step and its chance, 0 .. 1, are 1."""
    rows = rows.float()
    scale_R1 = _bf16_at_least(rows.abs().amax(1, keepdim=True) / _STEPS)
    steps = rows / torch.where(scale_R1 > 0, scale_R1, 1.0)
    # A chance of almost 1 may round a whole number up; 127 stays what it is.
    whole = (steps + chances).floor_().clamp_(-_STEPS, _STEPS).to(torch.int8)
    return torch.cat([whole.view(torch.uint8), scale_R1.bfloat16().view(torch.uint8)], dim=1)


def wire(name: str, stored: torch.dtype, device: torch.device, *, seed: int, clamps: bool = True) -> Wire:
    """The wire that an option names.

    Args:
        name: `fp32`, `bf16`, `fp16` or `int8`.
        stored: the type that rows are stored in.
        device: of the rows.
        seed: decides how int8 rounds; another one on each rank.
        clamps: whether fp16 and bf16 send what is too large for them as their greatest number, or as infinite.
    """
    if name == "int8":
        return Int8(stored, torch.Generator(device).manual_seed(seed))
    sent = TYPES[name]
    return AsStored(stored) if sent.itemsize >= stored.itemsize else HalfPrecision(sent, stored, clamps=clamps)


def _picked(rows: Tensor, picks_R: Tensor | None) -> Tensor:
    return rows if picks_R is None else rows.index_select(0, picks_R)


def _bytes(rows: Tensor) -> Tensor:
    return rows.contiguous().view(torch.uint8)


def _bf16_at_least(values: Tensor) -> Tensor:
    """The least bf16 numbers that are not below `values`, float32, 0 or more."""
    rounded = values.bfloat16()
    up = (rounded.view(torch.int16) + 1).view(torch.bfloat16)
    return torch.where(rounded.float() < values, up, rounded).float()
