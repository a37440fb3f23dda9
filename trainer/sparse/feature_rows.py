"""Rows of features, which never change: as a dense matrix, or by their entries where few are not 0.

Bags of words are about 1 % full. Coauthor CS has 6,805 features, of which a node has 60 on average; a dense product of
them with a weight of 64 columns takes twenty times as long on a CPU as the sparse one, and dropping entries of them,
sending them to a peer and holding them cost as much more than they need to. Both forms drop the same entries by the
same masks, so the numbers differ by rounding alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor

from trainer.base.traffic_log import Clock
from trainer.data.csr import indptr_of, rows_of
from trainer.data.part import Csr
from trainer.sparse.adjacency import Matrix, transposed
from trainer.sparse.dense import dense
from trainer.sparse.dropout import dropped
from trainer.sparse.sparsity import FULL, are_sparse

_VALUES = 1 << 22
"""Values that are looked at in one go: 16 MB in fp32."""
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


class SparseRows:
    """The same by the entries that are not 0, on the device where products are made."""

    def __init__(self, places: Places, values_E: Tensor, stored_type: torch.dtype) -> None:
        """Know the entries.

        Args:
            places: where they are.
            values_E: float32, in the order of rows.
            stored_type: what products are stored in; the values are of that precision.
        """
        self.places, self.values_E, self.stored_type = places, values_E, stored_type

    @classmethod
    def of(cls, x_nF: Tensor, device: torch.device, stored_type: torch.dtype) -> SparseRows:
        """The entries of a matrix [n, F], some rows at a time; it may be one that maps a file."""
        width = x_nF.shape[1]
        counts, columns, values = [torch.zeros(0, dtype=torch.int64)], [], []
        for block in _blocks(x_nF):
            row_E, column_E = block.nonzero(as_tuple=True)
            counts.append(row_E.bincount(minlength=len(block)))
            values.append(block[row_E, column_E].to(stored_type))
            columns.append(column_E.int())
        columns_E = torch.cat([torch.empty(0, dtype=torch.int32), *columns])
        values_E = torch.cat([torch.empty(0, dtype=stored_type), *values])
        return cls.of_entries(torch.cat(counts).to(device), columns_E.to(device), values_E.to(device), width=width)

    @classmethod
    def of_entries(cls, counts_n: Tensor, columns_E: Tensor, values_E: Tensor, *, width: int) -> SparseRows:
        """From how many entries each row has, int32 columns, and values in the type that rows are stored in."""
        index_type = torch.int32 if len(columns_E) < 2**31 else torch.int64
        csr = Csr(
            indptr=indptr_of(counts_n, index_type),
            indices=columns_E.to(index_type),
            weights=None,
            num_columns=width,
        )
        return cls(Places(csr), values_E.float(), values_E.dtype)

    def __len__(self) -> int:
        return self.places.csr.num_rows

    @property
    def width(self) -> int:
        """F"""
        return self.places.csr.num_columns

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.values_E.device

    @property
    def counts(self) -> Tensor:
        """How many entries each row has: int32 [n]."""
        return self.places.csr.indptr.diff().int()

    @property
    def columns(self) -> Tensor:
        """The column of each entry: int32 [E]."""
        return self.places.csr.indices.int()

    def times(self, weight_FG: Tensor, clock: Clock) -> Tensor:
        """rows W: [n, G] in the type of the rows, with a gradient for the weight."""
        return cast(Tensor, _Times.apply(weight_FG, self, clock))  # type: ignore[no-untyped-call]

    def dropped(self, table: Tensor, starts_n: Tensor) -> SparseRows:
        """The rows times their windows of a mask's table; see `trainer.sparse.dropout.Mask`."""
        places = self.places
        kept_E = table.index_select(0, starts_n.index_select(0, places.row_E).add_(places.csr.indices))
        return SparseRows(places, kept_E.mul_(self.values_E), self.stored_type)

    def dense(self) -> Tensor:
        """[n, F]"""
        rows_nF = torch.zeros(len(self), self.width, dtype=self.stored_type, device=self.values_E.device)
        rows_nF[self.places.row_E, self.places.csr.indices.long()] = self.values_E.to(self.stored_type)
        return rows_nF

    def chosen(self, rows_K: Tensor) -> SparseRows:
        """Some of the rows, in the order of their numbers in `rows_K`, which may repeat."""
        csr = self.places.csr
        begin_K, count_K = csr.indptr[:-1][rows_K].long(), csr.indptr.diff()[rows_K].long()
        indptr = torch.cat([count_K.new_zeros(1), count_K.cumsum(0)])
        place_E = torch.arange(int(indptr[-1]), device=indptr.device)
        place_E += (begin_K - indptr[:-1]).repeat_interleave(count_K, output_size=len(place_E))
        picked = replace(csr, indptr=indptr.to(csr.indptr.dtype), indices=csr.indices[place_E])
        return SparseRows(Places(picked), self.values_E[place_E], self.stored_type)


FeatureRows = DenseRows | SparseRows


class Places:
    """Where the entries of sparse rows are: the same for every mask on them."""

    def __init__(self, csr: Csr) -> None:
        """Know the columns by row; `csr` has no weights."""
        self.csr = csr

    @cached_property
    def row_E(self) -> Tensor:
        """int64"""
        return rows_of(self.csr).long()

    @cached_property
    def _turned(self) -> Csr:
        numbers_E = torch.arange(self.csr.num_edges, device=self.csr.indices.device)
        return transposed(replace(self.csr, weights=numbers_E))

    def matrix(self, values_E: Tensor) -> Matrix:
        """[n, F] with these values."""
        return Matrix(replace(self.csr, weights=values_E), values_E.device)

    def transposed(self, values_E: Tensor) -> Matrix:
        """[F, n] with the same values."""
        order_E = self._turned.weights
        assert order_E is not None
        return Matrix(replace(self._turned, weights=values_E[order_E]), values_E.device)


class _Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight_FG: Tensor, rows: SparseRows, clock: Clock) -> Tensor:
        ctx.rows, ctx.clock = rows, clock
        with clock("product of features"):
            return (rows.places.matrix(rows.values_E) @ weight_FG).to(rows.stored_type)

    @staticmethod
    def backward(ctx: Any, grad_nG: Tensor) -> tuple[Tensor, None, None]:
        rows: SparseRows = ctx.rows
        with ctx.clock("product of features"):
            return rows.places.transposed(rows.values_E) @ grad_nG.contiguous(), None, None


def feature_rows(x_nF: Tensor, device: torch.device, stored_type: torch.dtype, *, by_entries: bool) -> FeatureRows:
    """A matrix [n, F] in one of both forms, on `device`, in the type that rows are stored in."""
    return SparseRows.of(x_nF, device, stored_type) if by_entries else DenseRows(x_nF.to(device, stored_type))


def count_entries(x_nF: Tensor) -> int | None:
    """How many entries of a matrix are not 0; None if a sample of its rows is more than twice as full as `FULL`."""
    if not x_nF.numel():
        return 0
    sample = x_nF[:: -(-len(x_nF) // _SAMPLE)]
    if int(torch.count_nonzero(sample)) > 2 * FULL * sample.numel():
        return None
    return sum(int(torch.count_nonzero(block)) for block in _blocks(x_nF))


def is_sparse(x_nF: Tensor) -> bool:
    """Whether rows that stay on this rank are to be held by their entries."""
    return are_sparse([(count_entries(x_nF), x_nF.numel())])


def _blocks(x_nF: Tensor) -> Iterator[Tensor]:
    """Some rows at a time."""
    some = max(_VALUES // max(x_nF.shape[1], 1), 1)
    for begin in range(0, len(x_nF), some):
        yield x_nF[begin : begin + some]
