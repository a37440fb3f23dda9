"""The kernels as Triton's interpreter runs them, on tensors of the CPU: test modules import them from here.

Triton decides whether to interpret or to compile when a kernel is defined, its own library's among them, so the
variable has to be set when a process starts: PyG, which other tests import, imports Triton.

    TRITON_INTERPRET=1 python -m pytest tests/trainer/kernels
"""

from __future__ import annotations

import os

import pytest
import torch

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("needs TRITON_INTERPRET=1 from the start; `make test` sets it", allow_module_level=True)
pytest.importorskip("triton", reason="triton is not installed here: the trainer's kernels are written in it")
from trainer.kernels import pack, row_pieces, segment_softmax, spmm

# At its first launch Triton imports more of itself, and that has to see the variable too.
pack.unpack_int8(torch.zeros(1, 3, dtype=torch.uint8), torch.float32)

__all__ = ["LONGEST", "pack", "segment_softmax", "short_pieces", "spmm"]

LONGEST = 24
"""in place of the 256 edges of a piece, each of which takes the interpreter a millisecond"""


@pytest.fixture
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut rows into pieces of LONGEST edges."""
    for module in (row_pieces, spmm, segment_softmax):
        monkeypatch.setattr(module, "LONGEST", LONGEST)
