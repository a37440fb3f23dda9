"""Weighted sums of rows by every kernel, against a product of dense float64 matrices."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import Tensor

from trainer.sparse import row_sums
from trainer.sparse.row_sums import (
    WIDE,
    Kernel,
    bag_sums,
    csr_product,
    csr_reduction,
    even_pieces,
    is_uneven,
    weighted_row_sums,
    wide_kernel,
)

KERNELS = {"embedding_bag": bag_sums, "CSR mm": csr_product, "CSR reduce": csr_reduction}
WIDTHS = (1, WIDE - 1, WIDE, 16, 33, 128)
Edges = tuple[Tensor, Tensor, Tensor]


def edges(num_rows: int = 300, num_columns: int = 200, *, index_type: torch.dtype = torch.int32) -> Edges:
    """`indptr`, `indices` and `weights` of rows with 0 to 12 edges, in no order, some of them twice, one with 1,000."""
    generator = torch.Generator().manual_seed(1)
    counts = torch.randint(0, 13, (num_rows,), generator=generator)
    counts[0], counts[7], counts[-1] = 0, 1000, 0
    indptr = torch.zeros(num_rows + 1, dtype=torch.int64)
    indptr[1:] = counts.cumsum(0)
    indices = torch.randint(num_columns, (int(indptr[-1]),), generator=generator)
    weights = torch.randn(len(indices), generator=generator)
    return indptr.to(index_type), indices.to(index_type), weights


def expected(indptr: Tensor, indices: Tensor, weights: Tensor | None, rows: Tensor) -> Tensor:
    matrix = torch.zeros(len(indptr) - 1, len(rows), dtype=torch.float64)
    row_E = torch.arange(len(indptr) - 1).repeat_interleave(indptr.diff().long())
    values = torch.ones(len(indices)) if weights is None else weights
    matrix.index_put_((row_E, indices.long()), values.double(), accumulate=True)
    return matrix @ rows.double()


def draw(number: int, width: int) -> Tensor:
    return torch.randn(number, width, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("index_type", [torch.int32, torch.int64])
@pytest.mark.parametrize("width", WIDTHS)
def test_sums_are_those_of_the_dense_product(width: int, index_type: torch.dtype, *, weighted: bool) -> None:
    """Guards against empty rows that keep what was in memory, repeated columns that count once, and index types that a
    kernel has no code for."""
    indptr, indices, weights = edges(index_type=index_type)
    rows = draw(200, width)
    sums = weighted_row_sums(indptr, indices, weights if weighted else None, rows)
    assert sums.dtype == torch.float32
    torch.testing.assert_close(
        sums.double(), expected(indptr, indices, weights if weighted else None, rows), rtol=1e-5, atol=1e-4
    )


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_gives_the_sums(name: str, width: int) -> None:
    """Guards against a kernel that is right only where it is the one that is chosen."""
    indptr, indices, weights = edges()
    rows = draw(200, width)
    torch.testing.assert_close(
        KERNELS[name](indptr, indices, weights, rows).double(),
        expected(indptr, indices, weights, rows),
        rtol=1e-5,
        atol=1e-4,
    )


@pytest.mark.parametrize("width", [*WIDTHS, 256])
@pytest.mark.parametrize("name", KERNELS)
def test_bits_do_not_depend_on_threads(name: str, width: int) -> None:
    """A run on one core and one on two have to be the same run."""
    indptr, indices, weights = edges(2000, 500)
    rows = draw(500, width)
    before, sums = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            sums.append(KERNELS[name](indptr, indices, weights, rows))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(sums[0], sums[1])


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("index_type", [torch.int32, torch.int64])
def test_pieces_give_the_same_bits(index_type: torch.dtype, monkeypatch: pytest.MonkeyPatch, *, weighted: bool) -> None:
    """Guards against rows that are left out between pieces, and edges that are counted from another piece's first."""
    indptr, indices, weights = edges(index_type=index_type)
    counts = indptr.diff().sort(descending=True)[0]
    indptr[1:] = counts.cumsum(0)
    rows, given = draw(200, 24), weights if weighted else None
    at_once = bag_sums(indptr, indices, given, rows)
    monkeypatch.setattr(row_sums, "_LEAST_VALUES", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    pieces: list[Tensor] = []
    monkeypatch.setattr(row_sums, "_bags", lambda *four: pieces.append(row_sums_of_piece(*four)) or pieces[-1])
    assert torch.equal(bag_sums(indptr, indices, given, rows), at_once)
    assert len(pieces) > 1


row_sums_of_piece = row_sums._bags


def test_pieces_are_of_equal_work() -> None:
    """Guards against pieces of as many rows, of which one has all the edges, and against rows without any edge."""
    indptr = torch.tensor([0, *([100] * 5), *([0] * 500)]).cumsum(0)
    pieces = even_pieces(indptr, 8)
    assert [begin for begin, _ in pieces[1:]] == [end for _, end in pieces[:-1]]
    assert (pieces[0][0], pieces[-1][1]) == (0, 505)
    assert all(end > begin for begin, end in pieces)
    work = [int(indptr[end] - indptr[begin]) + 2 * (end - begin) for begin, end in pieces]
    assert max(work) <= (500 + 2 * 505) / 8 + 102


def test_threads_of_unequal_shares_are_noticed() -> None:
    """Guards against pieces where rows are alike, which only cost time."""
    assert not is_uneven(torch.arange(0, 101, 5), 2)
    assert not is_uneven(torch.tensor([0, 9, 9, 9]), 1)
    assert not is_uneven(torch.tensor([0]), 4)
    assert is_uneven(torch.tensor([0, 9, 18, 19, 20]), 2)
    assert is_uneven(torch.tensor([0, 1, 2, 3, 40]), 4)
    assert not is_uneven(torch.arange(0, 101, 5), 3)


@pytest.mark.parametrize("data_type", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("width", WIDTHS)
def test_rows_of_other_types_count_as_their_float32_values(data_type: torch.dtype, width: int) -> None:
    """In plain fp16 a sum of ones stops growing at 2048, and 70,000 overflow; weights of 1/70,000 are rounded."""
    degree = 70_000
    indptr, indices = torch.tensor([0, degree], dtype=torch.int32), torch.zeros(degree, dtype=torch.int32)
    ones = torch.ones(1, width, dtype=data_type)
    assert torch.equal(weighted_row_sums(indptr, indices, None, ones), torch.full((1, width), float(degree)))
    share = weighted_row_sums(indptr, indices, torch.full((degree,), 1 / degree), ones)
    torch.testing.assert_close(share, torch.ones(1, width), rtol=1e-3, atol=0.0)
    indptr, indices, weights = edges()
    rows = draw(200, width).to(data_type)
    assert torch.equal(
        weighted_row_sums(indptr, indices, weights, rows), weighted_row_sums(indptr, indices, weights, rows.float())
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_columns_of_a_wider_matrix_are_read_as_they_lie(width: int) -> None:
    """Heads of attention are such views; embedding_bag takes the slow way or other values for them."""
    indptr, indices, weights = edges()
    wider = draw(200, 3 * width)
    view = wider[:, width : 2 * width]
    assert width == 1 or not view.is_contiguous()
    copy = weighted_row_sums(indptr, indices, weights, view.clone(memory_format=torch.contiguous_format))
    assert torch.equal(weighted_row_sums(indptr, indices, weights, view), copy)
    assert torch.equal(weighted_row_sums(indptr, indices, weights.repeat_interleave(2)[::2], view), copy)
    assert torch.equal(weighted_row_sums(indptr, indices, weights, view.T.contiguous().T), copy)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (3, 3)])
@pytest.mark.parametrize("width", [0, *WIDTHS])
def test_sums_without_edges_are_zeros(shape: tuple[int, int], width: int) -> None:
    """An empty part, a part without halo and a layer of no columns have no edges or values, where kernels fail."""
    num_rows, num_columns = shape
    indptr, indices = torch.zeros(num_rows + 1, dtype=torch.int32), torch.empty(0, dtype=torch.int32)
    sums = weighted_row_sums(indptr, indices, None, torch.ones(num_columns, width))
    assert torch.equal(sums, torch.zeros(num_rows, width))


def test_no_columns_with_edges_give_no_columns() -> None:
    indptr, indices, weights = edges()
    assert weighted_row_sums(indptr, indices, weights, torch.ones(200, 0)).shape == (300, 0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_not_finite_reaches_every_row_that_counts_it(value: float, width: int) -> None:
    """0 times NaN is NaN: an edge of weight 0 that is left out would hide a broken feature; other rows stay finite."""
    indptr = torch.tensor([0, 2, 3, 4], dtype=torch.int32)
    indices = torch.tensor([0, 1, 1, 0], dtype=torch.int32)
    rows = torch.ones(2, width)
    rows[1] = value
    sums = weighted_row_sums(indptr, indices, torch.tensor([1.0, 0.0, 1.0, 1.0]), rows)
    assert bool(sums[0].isnan().all())
    assert torch.equal(sums[1].nan_to_num(7.0, 8.0), rows[1].nan_to_num(7.0, 8.0))
    assert torch.equal(sums[2], rows[0])


@pytest.mark.parametrize("width", [8, 64])
def test_no_gradient_is_recorded(width: int) -> None:
    """The callers have backward passes of their own; a recorded one would keep the rows."""
    indptr, indices, weights = edges()
    sums = weighted_row_sums(indptr, indices, weights, draw(200, width).requires_grad_())
    assert not sums.requires_grad


@pytest.mark.parametrize("processor", ["AVX2", "AVX512"])
def test_a_processor_with_generated_code_needs_no_trial(
    processor: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(row_sums, "_trial", None)
    monkeypatch.setattr(logging.getLogger("trainer"), "propagate", True)  # __main__ of another test sets it
    with caplog.at_level(logging.INFO, logger="trainer"):
        assert wide_kernel.__wrapped__(processor) is bag_sums
    assert not caplog.records


@pytest.mark.parametrize("faster", [bag_sums, csr_reduction])
def test_elsewhere_the_faster_kernel_is_chosen_and_said(
    faster: Kernel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Guards against a choice that nobody can see in the log, and against the slower one."""
    seconds = {bag_sums: 0.003, csr_reduction: 0.004}
    monkeypatch.setattr(row_sums, "_trial", lambda kernel: 0.001 if kernel is faster else seconds[kernel])
    monkeypatch.setattr(logging.getLogger("trainer"), "propagate", True)  # __main__ of another test sets it
    with caplog.at_level(logging.INFO, logger="trainer"):
        assert wide_kernel.__wrapped__("DEFAULT") is faster
    [record] = caplog.records
    assert "\n" not in record.getMessage()
    assert record.getMessage().startswith(
        f"sums over neighbours use {'embedding_bag' if faster is bag_sums else 'CSR reduce'}: a trial took "
    )


def test_a_real_trial_chooses_one_of_both() -> None:
    """Guards against a trial that only works where its kernels are replaced."""
    assert wide_kernel.__wrapped__("SVE256") in (bag_sums, csr_reduction)
