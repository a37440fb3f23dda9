"""CSR arrays of a part: the start of every row, and the row of every edge."""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.data.part import Csr


def indptr_of(counts: Tensor, data_type: torch.dtype) -> Tensor:
    """Where each row starts, from how many entries it has: [n + 1] in `data_type` from [n]."""
    indptr = torch.zeros(len(counts) + 1, dtype=data_type, device=counts.device)
    indptr[1:] = counts.cumsum(0)
    return indptr


def rows_of(csr: Csr) -> Tensor:
    """The row of every edge: [E], in the index type."""
    numbers = torch.arange(csr.num_rows, dtype=csr.indptr.dtype, device=csr.indptr.device)
    return numbers.repeat_interleave(csr.indptr.diff(), output_size=csr.num_edges)
