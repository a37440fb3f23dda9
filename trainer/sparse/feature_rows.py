"""Rows of features, which never change: as a dense matrix, or as a sparse one where few entries are not 0.

Bags of words are about 1 % full. Coauthor CS has 6,805 features, of which a node has 60 on average; a dense product of
them with a weight of 64 columns takes twenty times as long on a CPU as the sparse one, and dropout, sending them to a
peer and keeping them cost as much more than they need to. Both forms drop the same entries by the same masks, so the
numbers differ by rounding alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor

from trainer.base.traffic_log import Clock
from trainer.data.csr import Csr, index_type, indptr_of
from trainer.sparse.adjacency import Matrix
from trainer.sparse.dense import dense
from trainer.sparse.dropout import dropped
from trainer.sparse.sparsity import FULL, are_sparse

_VALUES = 1 << 22
"""Values that are read in one go: 16 MB in fp32."""
_SAMPLE = 1024
"""Rows by which a matrix is known to be too full without reading all of it."""


@dataclass(frozen=True, slots=True)
class DenseRows:
    """A matrix [n, F], in the type that rows are stored in."""

    rows_nF: Tensor

    def __len__(self) -> int:
        return len(self.rows_nF)

    @property
    def width(self) -> int:
        """F"""
        return self.rows_nF.shape[1]

    def times(self, weight_FG: Tensor, clock: Clock) -> Tensor:
        """rows W: [n, G] in the type of the rows, with a gradient for the weight."""
        return dense(self.rows_nF, weight_FG, clock)

    def dropped(self, table: Tensor, starts_n: Tensor) -> DenseRows:
        """The rows times their windows of a mask's table; see `trainer.sparse.dropout.Mask`."""
        return DenseRows(dropped(self.rows_nF, table, starts_n))

    def dense(self) -> Tensor:
        """[n, F]"""
        return self.rows_nF


class SparsityPattern:
    """Where the entries of sparse rows are: the same for every mask on them."""

    def __init__(self, csr: Csr) -> None:
        self.csr = csr.pattern()

    @cached_property
    def row_E(self) -> Tensor:
        """int64"""
        return self.csr.row_E.long()

    @cached_property
    def _transposed(self) -> tuple[Csr, Tensor]:
        """The transpose, and which of the entries here is each of its own."""
        numbers_E = torch.arange(self.csr.num_edges, device=self.csr.indices.device)
        transposed = replace(self.csr, weights=numbers_E).transposed()
        assert transposed.weights is not None
        return transposed, transposed.weights

    def matrix(self, values_E: Tensor) -> Matrix:
        """[n, F] with these values."""
        return Matrix(replace(self.csr, weights=values_E), values_E.device)

    def transposed(self, values_E: Tensor) -> Matrix:
        """[F, n] with the same values."""
        csr, order_E = self._transposed
        return Matrix(replace(csr, weights=values_E[order_E]), values_E.device)


@dataclass(frozen=True, slots=True)
class SparseRows:
    """The same by the entries that are not 0, on the device where products are made."""

    pattern: SparsityPattern
    values_E: Tensor
    """float32, in the order of rows"""
    stored_type: torch.dtype
    """What products are stored in; the values are of that precision."""

    @classmethod
    def of(cls, x_nF: Tensor, device: torch.device, stored_type: torch.dtype) -> SparseRows:
        """The entries of a matrix [n, F], some rows at a time; it may be one that maps a file."""
        counts, columns, values = [torch.zeros(0, dtype=torch.int64)], [], []
        for block in _blocks(x_nF):
            row_E, column_E = block.nonzero(as_tuple=True)
            counts.append(row_E.bincount(minlength=len(block)))
            values.append(block[row_E, column_E].to(stored_type))
            columns.append(column_E.int())
        columns_E = torch.cat([torch.empty(0, dtype=torch.int32), *columns])
        values_E = torch.cat([torch.empty(0, dtype=stored_type), *values])
        return cls.of_entries(
            torch.cat(counts).to(device), columns_E.to(device), values_E.to(device), width=x_nF.shape[1]
        )

    @classmethod
    def of_entries(cls, counts_n: Tensor, columns_E: Tensor, values_E: Tensor, *, width: int) -> SparseRows:
        """From how many entries each row has, int32 columns, and values in the type that rows are stored in."""
        small = index_type(len(columns_E))
        csr = Csr(indptr=indptr_of(counts_n, small), indices=columns_E.to(small), weights=None, num_columns=width)
        return cls(SparsityPattern(csr), values_E.float(), values_E.dtype)

    def __len__(self) -> int:
        return self.pattern.csr.num_rows

    @property
    def width(self) -> int:
        """F"""
        return self.pattern.csr.num_columns

    @property
    def device(self) -> torch.device:
        return self.values_E.device

    @property
    def counts(self) -> Tensor:
        """How many entries each row has: int32 [n]."""
        return self.pattern.csr.indptr.diff().int()

    @property
    def columns(self) -> Tensor:
        """The column of each entry: int32 [E]."""
        return self.pattern.csr.indices.int()

    def times(self, weight_FG: Tensor, clock: Clock) -> Tensor:
        """rows W: [n, G] in the type of the rows, with a gradient for the weight."""
        return cast(Tensor, _SparseTimes.apply(weight_FG, self, clock))  # type: ignore[no-untyped-call]

    def dropped(self, table: Tensor, starts_n: Tensor) -> SparseRows:
        """The rows times their windows of a mask's table; see `trainer.sparse.dropout.Mask`."""
        kept_E = table.index_select(0, starts_n.index_select(0, self.pattern.row_E).add_(self.pattern.csr.indices))
        return replace(self, values_E=kept_E.mul_(self.values_E))

    def dense(self) -> Tensor:
        """[n, F]"""
        rows_nF = torch.zeros(len(self), self.width, dtype=self.stored_type, device=self.device)
        rows_nF[self.pattern.row_E, self.pattern.csr.indices.long()] = self.values_E.to(self.stored_type)
        return rows_nF

    def select(self, rows_K: Tensor) -> SparseRows:
        """Some of the rows, in the order of their numbers in `rows_K`, which may repeat."""
        csr = self.pattern.csr
        begin_K, count_K = csr.indptr[:-1][rows_K].long(), csr.indptr.diff()[rows_K].long()
        indptr = indptr_of(count_K, torch.int64)
        place_E = torch.arange(int(indptr[-1]), device=indptr.device)
        place_E += (begin_K - indptr[:-1]).repeat_interleave(count_K, output_size=len(place_E))
        selected = replace(csr, indptr=indptr.to(csr.indptr.dtype), indices=csr.indices[place_E])
        return replace(self, pattern=SparsityPattern(selected), values_E=self.values_E[place_E])


FeatureRows = DenseRows | SparseRows


class _SparseTimes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight_FG: Tensor, rows: SparseRows, clock: Clock) -> Tensor:
        ctx.rows, ctx.clock = rows, clock
        with clock("product of features"):
            return (rows.pattern.matrix(rows.values_E) @ weight_FG).to(rows.stored_type)

    @staticmethod
    def backward(ctx: Any, grad_nG: Tensor) -> tuple[Tensor, None, None]:
        rows: SparseRows = ctx.rows
        with ctx.clock("product of features"):
            return rows.pattern.transposed(rows.values_E) @ grad_nG.contiguous(), None, None


def feature_rows(x_nF: Tensor, device: torch.device, stored_type: torch.dtype, *, sparse: bool) -> FeatureRows:
    """A matrix [n, F] in one of both forms, on `device`, in the type that rows are stored in."""
    return SparseRows.of(x_nF, device, stored_type) if sparse else DenseRows(x_nF.to(device, stored_type))


def count_entries(x_nF: Tensor) -> int | None:
    """How many entries of a matrix are not 0; None if a sample of its rows is more than twice as full as `FULL`."""
    if not x_nF.numel():
        return 0
    sample = x_nF[:: -(-len(x_nF) // _SAMPLE)]
    if int(torch.count_nonzero(sample)) > 2 * FULL * sample.numel():
        return None
    return sum(int(torch.count_nonzero(block)) for block in _blocks(x_nF))


def is_sparse(x_nF: Tensor) -> bool:
    """Whether rows that stay on this rank are to be kept sparse."""
    return are_sparse([(count_entries(x_nF), x_nF.numel())])


def _blocks(x_nF: Tensor) -> Iterator[Tensor]:
    """Some rows at a time."""
    some = max(_VALUES // max(x_nF.shape[1], 1), 1)
    for begin in range(0, len(x_nF), some):
        yield x_nF[begin : begin + some]
