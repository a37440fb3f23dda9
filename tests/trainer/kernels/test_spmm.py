"""Sums over edges by the kernel, against float64."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.trainer.kernels.interpreted import LONGEST, short_pieces, spmm  # noqa: F401 # a fixture
from trainer.data.csr import Csr, indptr_of
from trainer.kernels.row_pieces import RowPieces, Segments

pytestmark = pytest.mark.usefixtures("short_pieces")

TYPES = [torch.float32, torch.float16, torch.bfloat16]
COLUMNS = 30
COUNTS = torch.tensor([3, 0, LONGEST, 2 * LONGEST + 41, 1, 0, LONGEST + 1, 20])
"""of each row's edges: without any, just not long, and long"""
ROW_E = torch.arange(len(COUNTS)).repeat_interleave(COUNTS)


def matrix(index: torch.dtype = torch.int32, *heads: int, weighs: bool = True) -> spmm.CsrMatrix:
    """Columns repeat within a row and do not ascend."""
    random = torch.Generator().manual_seed(0)
    num_edges = int(COUNTS.sum())
    indptr = indptr_of(COUNTS, index)
    return spmm.CsrMatrix(
        pieces=RowPieces.of(indptr, indptr),
        indices_E=torch.randint(0, COLUMNS, (num_edges,), generator=random).to(index),
        weights=torch.randn(num_edges, *heads, generator=random) if weighs else None,
    )


def rows_of(width: int, stored: torch.dtype) -> Tensor:
    return torch.randn(COLUMNS, width, generator=torch.Generator().manual_seed(1)).to(stored)


def expected(matrix: spmm.CsrMatrix, rows: Tensor) -> Tensor:
    """In float64."""
    values = rows.double()[matrix.indices_E.long()]
    if matrix.weights is not None:
        weights = matrix.weights.double().view(len(values), -1)
        values = (values.unflatten(1, (weights.shape[1], -1)) * weights.unsqueeze(2)).flatten(1)
    return torch.zeros(len(COUNTS), rows.shape[1], dtype=torch.float64).index_add_(0, ROW_E, values)


def check(found: Tensor, exact: Tensor) -> None:
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=1e-6 * float(exact.abs().max()))


@pytest.mark.parametrize("stored", TYPES)
@pytest.mark.parametrize("width", [16, 20, 150])
def test_sums_are_those_of_float64(stored: torch.dtype, width: int) -> None:
    """Half-precision rows that are rounded again, and columns past the last whole block."""
    of, rows = matrix(), rows_of(width, stored)
    check(of.product(rows), expected(of, rows))


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("weighs", [True, False])
def test_any_index_and_no_weights(index: torch.dtype, weighs: bool) -> None:
    """A matrix without weights counts each edge once, repeated ones too."""
    of, rows = matrix(index, weighs=weighs), rows_of(16, torch.float32)
    check(of.product(rows), expected(of, rows))


@pytest.mark.parametrize("width", [16, 24])
def test_a_weight_for_each_head(width: int) -> None:
    """Attention weighs the columns of each head by numbers of its own."""
    of, rows = matrix(torch.int32, 3), rows_of(3 * width, torch.float32)
    check(of.product(rows), expected(of, rows))


def test_sums_are_added_in_place() -> None:
    """A halo's sums that replace those of the local edges, or a long row that is added once a piece."""
    of, rows = matrix(), rows_of(20, torch.float32)
    sums = torch.randn(len(COUNTS), 20, generator=torch.Generator().manual_seed(2))
    exact = sums.double() + expected(of, rows)
    of.add_product(rows, sums)
    check(sums, exact)


def test_rows_that_are_not_contiguous() -> None:
    """Columns of a wider matrix, as a tensor-parallel layer has them."""
    of, wide = matrix(), rows_of(40, torch.bfloat16)
    check(of.product(wide[:, 10:30]), expected(of, wide[:, 10:30]))


def test_the_order_of_programs_changes_no_bit() -> None:
    """A GPU schedules programs as it likes; sums by atomics would differ from run to run."""
    of, rows = matrix(), rows_of(20, torch.float32)
    found = of.product(rows)
    order = torch.randperm(len(COUNTS), generator=torch.Generator().manual_seed(3))
    in_order = of.pieces.rows
    shuffled = Segments(
        begin_s=in_order.begin_s[order], end_s=in_order.end_s[order], target_s=order.to(in_order.begin_s.dtype)
    )
    assert torch.equal(replace(of, pieces=replace(of.pieces, rows=shuffled)).product(rows), found)


def test_what_is_no_number_stays_in_its_rows() -> None:
    """Edges that fill up the last block read row 0, which must not leak into sums."""
    of, rows = matrix(weighs=False), rows_of(16, torch.float32)
    rows[0] = float("nan")
    reads_0 = torch.zeros(len(COUNTS), dtype=torch.bool).index_put_((ROW_E[of.indices_E == 0],), torch.tensor(True))
    assert torch.equal(of.product(rows).isnan().any(1), reads_0)
    assert not reads_0.all()


def test_nothing_to_sum() -> None:
    """A part without rows, and rows of no width: a launch of no programs is an error of CUDA's."""
    of = matrix()
    assert of.product(rows_of(0, torch.float32)).shape == (len(COUNTS), 0)
    none = Csr(indptr=torch.zeros(1, dtype=torch.int32), indices=of.indices_E[:0], weights=None, num_columns=COLUMNS)
    empty = spmm.CsrMatrix(pieces=RowPieces.of(none.indptr, none.indptr), indices_E=none.indices, weights=None)
    assert empty.product(rows_of(16, torch.float32)).shape == (0, 16)
