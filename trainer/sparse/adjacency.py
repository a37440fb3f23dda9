"""A part's edges as sparse matrices, over its own rows and over the halo rows of each round, each with its transpose.

The blocks of the peers whose rows come together are merged into one matrix, so that with one round a layer costs two
sparse products whatever the number of peers; columns are halo rows, peer after peer. The backward pass multiplies by
the transposes. They are built once, by a stable sort of the columns: sorting takes longer than a product, but products
come by the hundred.

Weights and sums are fp32 whatever the type of the rows: half-precision rows are widened on the way in (2 to 9 ms where
the product takes 130, on 50,000 x 128), so that no weight of 1/degree is rounded away and no sum overflows or stops
growing.

Two kernels compute A x on a CPU. MKL's is up to three times faster below 64 columns, torch's row-sum reduction up to
twice as fast above (measured at 14 and 20 edges a row). On a GPU cuSPARSE does both.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.data.csr import indptr_of, rows_of
from trainer.data.part import Csr

_WIDE = 64


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

    def __matmul__(self, rows: Tensor) -> Tensor:
        """The product with `rows` [columns, F]: float32 [rows, F]. It records no gradient."""
        with torch.no_grad():
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
            found: Tensor = torch.sparse.sampled_addmm(self._csr, left.float(), right.float().T, beta=0.0)
            return found.values()

    def add_product(self, rows: Tensor, sums: Tensor) -> None:
        """Add the product with `rows` to `sums` in place; nothing is done where there is no edge."""
        if self._csr is not None:
            sums += self @ rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A constant sparse matrix and its transpose."""

    forward: Matrix
    backward: Matrix

    @classmethod
    def of(cls, csr: Csr, device: torch.device) -> Block:
        return cls(forward=Matrix(csr, device), backward=Matrix(transposed(csr), device))


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjacency:
    """All in-edges of a part, weighted for sums."""

    local: Block
    """[n, n]"""
    halo: Sequence[Block]
    """[n, H], or by round [n, H of its peers]"""

    @classmethod
    def of(
        cls, local: Csr, remote: Mapping[int, Csr], sources: Sequence[Sequence[int]], device: torch.device
    ) -> Adjacency:
        """Merge the blocks of each round.

        Args:
            local: edges between rows of this part.
            remote: edges from each peer's rows.
            sources: the peers of each round.
            device: where products are made.
        """
        return cls(
            local=Block.of(local, device),
            halo=[Block.of(merged, device) for merged in by_round(local, remote, sources)],
        )


def by_round(local: Csr, remote: Mapping[int, Csr], sources: Sequence[Sequence[int]]) -> list[Csr]:
    """The blocks of the peers of each round, side by side."""
    return [beside({peer: remote[peer] for peer in peers}, local.num_rows) for peers in sources]


def beside(blocks: Mapping[int, Csr], num_rows: int) -> Csr:
    """The blocks of all peers side by side, in the order of the mapping: [n, H].

    Args:
        blocks: one CSR block a peer, each with `num_rows` rows.
        num_rows: n, which also gives the shape where there is no peer.
    """
    offsets, width = [], 0
    for block in blocks.values():
        offsets.append(width)
        width += block.num_columns
    return _merged(list(blocks.values()), offsets, num_rows, width)


def added(one: Csr, other: Csr) -> Csr:
    """The sum of two matrices of one shape, as the edges of both; entries that coincide are kept apart."""
    return _merged([one, other], [0, 0], one.num_rows, one.num_columns)


def transposed(csr: Csr) -> Csr:
    """The transpose; within a row, columns ascend if they are in order of edges here."""
    order = csr.indices.argsort(stable=True)
    return Csr(
        indptr=indptr_of(csr.indices.bincount(minlength=csr.num_columns), csr.indptr.dtype),
        indices=rows_of(csr)[order],
        weights=None if csr.weights is None else csr.weights[order],
        num_columns=csr.num_rows,
    )


def _merged(blocks: Sequence[Csr], offsets: Sequence[int], num_rows: int, num_columns: int) -> Csr:
    """Lay blocks into one matrix, block k's column 0 at `offsets[k]`, in O(E) without a sort.

    Row i of the result holds row i of each block in turn, so an edge's place is where its row starts, plus the edges
    of earlier blocks in that row, plus its place in its own block's row.
    """
    num_edges = sum(block.num_edges for block in blocks)
    index_type = torch.int32 if max(num_edges, num_columns, num_rows) < 2**31 else torch.int64
    counts_n = torch.zeros(num_rows, dtype=torch.int64)
    for block in blocks:
        counts_n += block.indptr.diff()
    indptr = indptr_of(counts_n, index_type)
    weighted = any(block.weights is not None for block in blocks)
    indices = torch.empty(num_edges, dtype=index_type)
    weights = torch.ones(num_edges) if weighted else None
    next_n = indptr[:-1].to(torch.int64)
    for block, offset in zip(blocks, offsets, strict=True):
        rows_E = rows_of(block)
        place_E = torch.arange(block.num_edges) + (next_n - block.indptr[:-1])[rows_E]
        indices[place_E] = block.indices.to(index_type) + offset
        if weights is not None and block.weights is not None:
            weights[place_E] = block.weights
        next_n += block.indptr.diff()
    return Csr(indptr=indptr, indices=indices, weights=weights, num_columns=num_columns)
