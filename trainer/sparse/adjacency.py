"""A part's in-edges: over its own rows, and over the halo rows of each round, each with its transpose.

The blocks of the peers whose rows come together are merged into one matrix, so that with one round a layer costs two
sparse products whatever the number of peers; columns are halo rows, peer after peer. The backward pass multiplies by
the transposes. They are built once, by a stable sort of the columns: sorting takes longer than a product, but products
come by the hundred.

Weights and sums are fp32 whatever the type of the rows: half-precision rows are widened on the way in (2 to 9 ms where
the product takes 130, on 50,000 x 128), so that no weight of 1/degree is rounded away and no sum overflows or stops
growing.

Two kernels compute A x on a CPU. MKL's is up to three times faster below 64 columns, torch's row-sum reduction up to
twice as fast above (measured at 14 and 20 edges a row). On a GPU Triton's kernel does, where Triton is installed and
rows are not narrow, and cuSPARSE elsewhere.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import torch
from torch import Tensor

from trainer.data.csr import Csr, hstack
from trainer.kernels.dispatch import serves

if TYPE_CHECKING:
    from trainer.kernels.spmm import CsrMatrix

_WIDE = 64
_TRITON_WIDE = 16


class Matrix:
    """A constant sparse float32 matrix."""

    def __init__(self, csr: Csr, device: torch.device) -> None:
        self.num_rows, self.num_columns = csr.num_rows, csr.num_columns
        self._csr: Tensor | None = None
        if csr.num_edges:
            weights = torch.ones(csr.num_edges) if csr.weights is None else csr.weights
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
                warnings.filterwarnings("ignore", message="Sparse invariant checks")  # of releases before 2.13
                # Columns may repeat (the dataset's duplicates) and need not ascend: both kernels just add.
                self._csr = torch.sparse_csr_tensor(
                    csr.indptr.to(device),
                    csr.indices.to(device),
                    weights.to(device),
                    size=(csr.num_rows, csr.num_columns),
                    check_invariants=False,
                )
        self._triton: CsrMatrix | None = None
        # Those that a step makes on the GPU are left to torch: to cut up their long rows, the host would wait for them.
        if self._csr is not None and serves(device) and csr.indptr.device.type == "cpu":
            from trainer.kernels.spmm import CsrMatrix

            self._triton = CsrMatrix.of(csr, self._csr)

    def __matmul__(self, rows: Tensor) -> Tensor:
        """The product with `rows` [columns, F]: float32 [rows, F]. It records no gradient."""
        with torch.no_grad():
            if self._triton is not None and rows.shape[1] >= _TRITON_WIDE:
                return self._triton.product(rows)
            rows = rows.float()
            if self._csr is None or not rows.shape[1]:
                return rows.new_zeros(self.num_rows, rows.shape[1])
            if rows.is_cuda or rows.shape[1] < _WIDE:
                return torch.mm(self._csr, rows)
            sums: Tensor = torch.sparse.mm(self._csr, rows, reduce="sum")
            return sums

    def products_at_entries(self, left: Tensor, right: Tensor) -> Tensor:
        """The inner product of row i of `left` [rows, F] and row j of `right` [columns, F] at each entry (i, j).

        Returns:
            float32 [E], in the order of the entries; their weights do not count.
        """
        if self._csr is None:
            return left.new_zeros(0, dtype=torch.float32)
        with torch.no_grad():
            products: Tensor = torch.sparse.sampled_addmm(self._csr, left.float(), right.float().T, beta=0.0)
            return products.values()

    def add_product(self, rows: Tensor, sums: Tensor) -> None:
        """Add the product with `rows` to `sums` in place; nothing is done where there is no edge."""
        if self._triton is not None and rows.shape[1] >= _TRITON_WIDE:
            self._triton.add_product(rows, sums)
        elif self._csr is not None:
            sums += self @ rows


M = TypeVar("M", Matrix, Csr)
"""What a model walks through: weighted matrices for sums, patterns for maxima and attention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoWay(Generic[M]):
    """A sparse matrix and its transpose."""

    forward: M
    """Rows are destinations."""
    backward: M
    """Rows are sources."""

    @classmethod
    def of(cls, csr: Csr, make: Callable[[Csr], M]) -> TwoWay[M]:
        return cls(forward=make(csr), backward=make(csr.transposed()))


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
