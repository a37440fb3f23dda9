"""The kernels as Triton's interpreter runs them, on tensors of the CPU: test modules import them from here.

Triton decides whether to interpret or to compile when a kernel is defined, its own library's among them, so all of it
is imported with the variable set. Nothing else in a process of tests uses Triton.
"""

from __future__ import annotations

import pytest
import torch

with pytest.MonkeyPatch.context() as patch:
    patch.setenv("TRITON_INTERPRET", "1")
    pytest.importorskip("triton", reason="triton is not installed here: the trainer's kernels are written in it")
    from trainer.kernels import pack, row_pieces, segment_softmax, spmm

    # At its first launch Triton imports more of itself.
    pack.unpack_int8(torch.zeros(1, 3, dtype=torch.uint8), torch.float32)

__all__ = ["LONGEST", "pack", "segment_softmax", "short_pieces", "spmm"]

LONGEST = 24
"""in place of the 256 edges of a piece, each of which takes the interpreter a millisecond"""


@pytest.fixture
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut rows into pieces of LONGEST edges."""
    for module in (row_pieces, spmm, segment_softmax):
        monkeypatch.setattr(module, "LONGEST", LONGEST)
