"""A part's in-edges: over its own rows, and over the halo rows of each round, each with its transpose.

The blocks of the peers whose rows come together are merged into one matrix, so that with one round a layer costs two
sparse products whatever the number of peers; columns are halo rows, peer after peer. The backward pass multiplies by
the transposes. They are built once, when they are first used, by a stable sort of the columns: sorting takes longer
than a product, but products come by the hundred.

Weights and sums are fp32 whatever the type of the rows; `trainer.sparse.row_sums` has torch's kernels, and
`trainer.kernels.spmm` that for GPUs with Triton.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

import torch
from torch import Tensor

from trainer.data.csr import Csr, hstack
from trainer.kernels.dispatch import WIDE, serves
from trainer.sparse.edges import EdgeBlocks
from trainer.sparse.row_sums import csr_tensor, weighted_row_sums

if TYPE_CHECKING:
    from trainer.kernels.spmm import CsrMatrix


class Matrix:
    """A constant sparse float32 matrix."""

    def __init__(self, csr: Csr, device: torch.device) -> None:
        self.num_rows, self.num_columns = csr.num_rows, csr.num_columns
        self._indptr, self._indices = csr.indptr.to(device), csr.indices.to(device)
        self._weights = (torch.ones(csr.num_edges) if csr.weights is None else csr.weights).to(device)
        self._csr: Tensor | None = None
        if csr.num_edges and device.type != "cpu":  # once, since each such tensor made in a step is a launch or two
            self._csr = csr_tensor(self._indptr, self._indices, self._weights, csr.num_columns)
        self._triton: CsrMatrix | None = None
        # Those that a step makes on the GPU are left to torch: to cut up their long rows, the host would wait for them.
        if csr.num_edges and serves(device) and csr.indptr.device.type == "cpu":
            from trainer.kernels.spmm import CsrMatrix

            weights = None if csr.weights is None else self._weights
            self._triton = CsrMatrix.of(csr.indptr, self._indptr, self._indices, weights)

    def __matmul__(self, rows: Tensor) -> Tensor:
        """The product with `rows` [columns, F]: float32 [rows, F]. It records no gradient."""
        if self._triton is not None and rows.shape[1] >= WIDE:
            return self._triton.product(rows.detach())
        if self._csr is not None and rows.shape[1]:
            with torch.no_grad():
                return torch.mm(self._csr, rows.float())
        return weighted_row_sums(self._indptr, self._indices, self._weights, rows)

    def add_product(self, rows: Tensor, sums: Tensor) -> None:
        """Add the product with `rows` to `sums` in place; nothing is done for rows without edges, if they are many."""
        if self._triton is not None and rows.shape[1] >= WIDE:
            self._triton.add_product(rows, sums)
            return
        filled = self._rows_with_edges if self._csr is None else None
        if filled is None:
            sums += self @ rows
        elif len(filled):
            indptr = torch.cat([self._indptr[filled], self._indptr[-1:]])
            sums.index_add_(0, filled, weighted_row_sums(indptr, self._indices, self._weights, rows))

    @cached_property
    def _rows_with_edges(self) -> Tensor | None:
        """Their numbers where they are at most half of all, as those with edges from a halo may be; else None."""
        filled = self._indptr.diff().nonzero().squeeze(1)
        return filled if 2 * len(filled) <= self.num_rows else None


M = TypeVar("M", Matrix, EdgeBlocks)
"""What a model walks through: weighted matrices for sums, blocks of edges for maxima and attention."""


class TwoWay(Generic[M]):
    """A sparse matrix and its transpose, which is made when it is first used."""

    def __init__(self, csr: Csr, make: Callable[[Csr], M]) -> None:
        self.forward: M = make(csr)
        """Rows are destinations."""
        self._make_backward: Callable[[], M] | None = lambda: make(csr.transposed())

    @classmethod
    def of(cls, csr: Csr, make: Callable[[Csr], M]) -> TwoWay[M]:
        return cls(csr, make)

    @cached_property
    def backward(self) -> M:
        """Rows are sources."""
        assert self._make_backward is not None
        made, self._make_backward = self._make_backward(), None
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class InEdges(Generic[M]):
    """All in-edges of a part."""

    local: TwoWay[M]
    """[n, n]"""
    halo: Sequence[TwoWay[M]]
    """By round: [n, H of its peers]"""

    @classmethod
    def of(
        cls, local: Csr, remote: Mapping[int, Csr], sources: Sequence[Sequence[int]], make: Callable[[Csr], M]
    ) -> InEdges[M]:
        """Merge the blocks of each round.

        Args:
            local: edges between rows of this part.
            remote: edges from each peer's rows.
            sources: the peers of each round.
            make: the form that the edges are used in, on the device where they are used.
        """
        rounds = [hstack([remote[peer] for peer in peers], local.num_rows) for peers in sources]
        return cls(local=TwoWay.of(local, make), halo=[TwoWay.of(csr, make) for csr in rounds])
