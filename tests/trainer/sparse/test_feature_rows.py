"""Sparse rows are the matrix that they were made from, whatever is done with them."""

from __future__ import annotations

import pytest
import torch

from trainer.base.pass_context import PassContext
from trainer.base.traffic_log import Clock
from trainer.sparse import feature_rows
from trainer.sparse.dropout import Dropout
from trainer.sparse.feature_rows import DenseRows, SparseRows, count_entries
from trainer.sparse.sparsity import are_sparse

CPU = torch.device("cpu")
CLOCK = Clock(CPU)


def few(rows: int = 50, width: int = 300, seed: int = 0) -> torch.Tensor:
    """A matrix of which 3 % is not 0; its first rows and its last column are empty."""
    generator = torch.Generator().manual_seed(seed)
    x_nF = torch.randn(rows, width, generator=generator)
    x_nF *= torch.rand(rows, width, generator=generator) < 0.03
    x_nF[:2], x_nF[:, -1:] = 0, 0
    return x_nF


@pytest.mark.parametrize(("rows", "width"), [(50, 300), (0, 7), (3, 1), (1, 5000)])
def test_entries_make_the_matrix_again(rows: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against entries that are lost between the stretches of rows that are looked at in one go."""
    monkeypatch.setattr(feature_rows, "_VALUES", 1000)
    x_nF = few(rows, width)
    sparse = SparseRows.of(x_nF, CPU, torch.float32)
    assert (len(sparse), sparse.width) == (rows, width)
    assert torch.equal(sparse.dense(), x_nF)
    assert count_entries(x_nF) == len(sparse.values_E) == int((x_nF != 0).sum())


def test_rows_are_chosen_in_any_order() -> None:
    """Guards against entries of a neighbouring row, and against a row that two peers need being sent once."""
    x_nF = few()
    chosen = torch.tensor([7, 0, 49, 7, 20])
    sparse = SparseRows.of(x_nF, CPU, torch.float32)
    assert torch.equal(sparse.select(chosen).dense(), x_nF[chosen])
    assert torch.equal(sparse.select(chosen.int()).dense(), x_nF[chosen])
    assert len(sparse.select(chosen[:0])) == 0
    assert sparse.select(chosen[:0]).dense().shape == (0, 300)


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("share", [0.0, 0.6])
def test_products_and_gradients_are_those_of_the_matrix(stored: torch.dtype, share: float) -> None:
    """Guards against a transpose whose values are in another order, and against masks of other entries."""
    x_nF = few().to(stored)
    rows = {"by entries": SparseRows.of(x_nF, CPU, stored), "dense": DenseRows(x_nF)}
    dropout = Dropout(torch.arange(50) * 3, torch.arange(0), num_nodes=150, seed=4)
    found = {}
    for form, own in rows.items():
        mask = dropout.mask(share, 1, 300, PassContext(training=True, epoch=2, may_skip=False))
        if mask is not None:
            own = own.dropped(mask.table, mask.starts_n)
            assert bool((own.dense() != x_nF).any())
        weight_FG = torch.randn(300, 9, generator=torch.Generator().manual_seed(1), requires_grad=True)
        product_nG = own.times(weight_FG, CLOCK)
        assert product_nG.dtype == stored
        (product_nG.float() ** 2).sum().backward()  # type: ignore[no-untyped-call]
        found[form] = own.dense(), product_nG.detach().float(), weight_FG.grad
    tolerance = 1e-5 if stored == torch.float32 else 0.03
    for one, other in zip(found["by entries"], found["dense"], strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=30 * tolerance if one.dtype != stored else 1e-2)


def test_a_matrix_that_is_too_full_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against reading all features of a large graph to learn what a sample says."""
    full = torch.ones(3000, 4)
    monkeypatch.setattr(feature_rows, "_blocks", None)
    assert count_entries(full) is None
    assert count_entries(full[:0]) == 0


def test_all_ranks_together_decide() -> None:
    """Guards against ranks that hold different forms, and wait for messages of the other one."""
    assert are_sparse([(5, 100), (5, 100)])
    assert are_sparse([(10, 100), (0, 100)])
    assert not are_sparse([(6, 100), (5, 100)])
    assert not are_sparse([(0, 100), (None, 100)])
