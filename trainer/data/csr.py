"""Sparse matrices by rows (CSR) on torch tensors, with the few operations of scipy.sparse that training needs.

In a cache, rows are destinations and columns are sources of in-edges. Columns may repeat within a row (the dataset's
duplicate edges), and need not ascend. No operation sorts what is sorted already: they take O(E), but for `transposed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Csr:
    """A sparse matrix by rows."""

    indptr: Tensor
    """int32 or int64 [rows + 1]"""
    indices: Tensor
    """[E], the type of `indptr`"""
    weights: Tensor | None
    """float32 [E]; None where every edge weighs 1"""
    num_columns: int
    features: Tensor | None = None
    """float32 [E, D]: what edges have beside weights; None for nothing"""

    @property
    def num_rows(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        return len(self.indices)

    @property
    def row_E(self) -> Tensor:
        """The row of every edge, in the index type."""
        numbers = torch.arange(self.num_rows, dtype=self.indptr.dtype, device=self.indptr.device)
        return numbers.repeat_interleave(self.indptr.diff(), output_size=self.num_edges)

    def row_sums(self, data_type: torch.dtype) -> Tensor:
        """The sum of each row's weights, computed in `data_type`: [rows]."""
        weights = torch.ones(self.num_edges) if self.weights is None else self.weights
        return torch.zeros(self.num_rows, dtype=data_type).index_add_(0, self.row_E, weights.to(data_type))

    def transposed(self) -> Csr:
        """The transpose, by a stable sort of the columns; columns of it ascend if edges are in order of rows here."""
        order = self.indices.argsort(stable=True)
        return Csr(
            indptr=indptr_of(self.indices.bincount(minlength=self.num_columns), self.indptr.dtype),
            indices=self.row_E[order],
            weights=None if self.weights is None else self.weights[order],
            num_columns=self.num_rows,
            features=None if self.features is None else self.features[order],
        )

    def pattern(self, device: torch.device | None = None) -> Csr:
        """The same entries without weights, on `device`."""
        return replace(self, weights=None).to(device)

    def to(self, device: torch.device | None) -> Csr:
        """The same on `device`."""
        weights, features = (None if of is None else of.to(device) for of in (self.weights, self.features))
        indptr, indices = self.indptr.to(device), self.indices.to(device)
        return replace(self, indptr=indptr, indices=indices, weights=weights, features=features)


def indptr_of(counts: Tensor, data_type: torch.dtype) -> Tensor:
    """Where each row starts, from how many entries it has: [n + 1] in `data_type` from [n]."""
    indptr = torch.zeros(len(counts) + 1, dtype=data_type, device=counts.device)
    indptr[1:] = counts.cumsum(0)
    return indptr


def index_type(*sizes: int) -> torch.dtype:
    """int32 where it can count to each of `sizes`, else int64."""
    return torch.int32 if max(sizes) < 2**31 else torch.int64


def vstack(blocks: Sequence[Csr], num_columns: int) -> Csr:
    """Matrices of the same columns, one below the other, without features of edges."""
    nothing = torch.empty(0, dtype=torch.int64)
    indices = torch.cat([nothing, *(block.indices for block in blocks)])
    counts = torch.cat([nothing, *(block.indptr.diff() for block in blocks)])
    small = index_type(len(indices), len(counts), num_columns)
    weights = None
    if any(block.weights is not None for block in blocks):
        weights = torch.cat(
            [torch.ones(block.num_edges) if block.weights is None else block.weights for block in blocks]
        )
    return Csr(indptr=indptr_of(counts, small), indices=indices.to(small), weights=weights, num_columns=num_columns)


def hstack(blocks: Sequence[Csr], num_rows: int) -> Csr:
    """Matrices of the same rows side by side; `num_rows` gives the shape where there is none."""
    if len(blocks) == 1:
        return blocks[0]
    *offsets, width = [0, *accumulate(block.num_columns for block in blocks)]
    return _overlaid(blocks, offsets, num_rows, width)


def add(one: Csr, *others: Csr) -> Csr:
    """The sum of matrices of one shape, as the edges of all; entries that coincide are kept apart."""
    return _overlaid([one, *others], [0] * (1 + len(others)), one.num_rows, one.num_columns)


def select(block: Csr, rows_n: Tensor, columns: Tensor) -> Csr:
    """The block's rows and columns that two bool masks name, renumbered; the order of edges stays."""
    edges = rows_n[block.row_E] & columns[block.indices]
    counts_n = torch.bincount(block.row_E[edges], minlength=block.num_rows)[rows_n]
    new_column = columns.cumsum(0) - 1
    return Csr(
        indptr=indptr_of(counts_n, block.indptr.dtype),
        indices=new_column[block.indices[edges]].to(block.indices.dtype),
        weights=None if block.weights is None else block.weights[edges],
        num_columns=int(columns.sum()),
        features=None if block.features is None else block.features[edges],
    )


def with_edges(block: Csr, keep_E: Tensor) -> Csr:
    """The block with the edges alone that a bool mask names; its rows, its columns and the order of edges stay."""
    counts = torch.bincount(block.row_E[keep_E], minlength=block.num_rows)
    return Csr(
        indptr=indptr_of(counts, block.indptr.dtype),
        indices=block.indices[keep_E],
        weights=None if block.weights is None else block.weights[keep_E],
        num_columns=block.num_columns,
        features=None if block.features is None else block.features[keep_E],
    )


def _overlaid(blocks: Sequence[Csr], offsets: Sequence[int], num_rows: int, num_columns: int) -> Csr:
    """One matrix of the entries of all blocks, column 0 of block k at `offsets[k]`.

    Row i of the result has row i of each block in turn, so an edge's place is where its row starts, plus the edges of
    earlier blocks in that row, plus its place in its own block's row.
    """
    num_edges = sum(block.num_edges for block in blocks)
    small = index_type(num_edges, num_columns, num_rows)
    counts_n = torch.zeros(num_rows, dtype=torch.int64)
    for block in blocks:
        counts_n += block.indptr.diff()
    indptr = indptr_of(counts_n, small)
    indices = torch.empty(num_edges, dtype=small)
    weights = torch.ones(num_edges) if any(block.weights is not None for block in blocks) else None
    with_features = [block.features for block in blocks if block.features is not None]
    features = torch.zeros(num_edges, with_features[0].shape[1]) if with_features else None
    next_n = indptr[:-1].to(torch.int64)
    for block, offset in zip(blocks, offsets, strict=True):
        place_E = torch.arange(block.num_edges) + (next_n - block.indptr[:-1])[block.row_E]
        indices[place_E] = block.indices.to(small) + offset
        if weights is not None and block.weights is not None:
            weights[place_E] = block.weights
        if features is not None and block.features is not None:
            features[place_E] = block.features
        next_n += block.indptr.diff()
    return Csr(indptr=indptr, indices=indices, weights=weights, num_columns=num_columns, features=features)
