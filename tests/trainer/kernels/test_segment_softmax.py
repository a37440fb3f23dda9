"""The softmax over each node's in-edges by the kernels, against torch's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.trainer.kernels.interpreted import LONGEST, segment_softmax, short_pieces  # noqa: F401 # a fixture
from trainer.data.csr import indptr_of
from trainer.kernels.row_pieces import RowPieces

pytestmark = pytest.mark.usefixtures("short_pieces")

COUNTS = [4, 0, LONGEST, 2 * LONGEST + 17, 1, 40]


def pieces_of(counts: list[int], index: torch.dtype = torch.int32) -> RowPieces:
    indptr = indptr_of(torch.tensor(counts), index)
    return RowPieces.of(indptr, indptr)


def scores_of(num_heads: int, counts: list[int] = COUNTS) -> Tensor:
    """Far apart, so that exponentials without their greatest overflow."""
    return 60 * torch.randn(sum(counts), num_heads, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("num_heads", [1, 3, 4, 8])
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
def test_probabilities_and_log_sums(num_heads: int, index: torch.dtype) -> None:
    """Exponentials that overflow, heads that mix, and a hub whose pieces are not put together."""
    scores = scores_of(num_heads)
    found, log_sums = segment_softmax.segment_softmax(scores, pieces_of(COUNTS, index))
    rows = scores.double().split(COUNTS)
    exact = torch.cat([row.softmax(0) for row in rows])
    torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-6)
    exact_sums = torch.stack([row.logsumexp(0) for row in rows])
    torch.testing.assert_close(log_sums.double(), exact_sums, rtol=1e-6, atol=1e-6)
    assert bool(log_sums[1].isneginf().all()), "a row without edges"


def test_edges_that_are_left_out() -> None:
    """Sampled edges have minus infinity as their score, which minus itself is no number."""
    scores = scores_of(2)
    scores[1] = scores[4 : 4 + LONGEST] = float("-inf")
    found, log_sums = segment_softmax.segment_softmax(scores, pieces_of(COUNTS))
    assert not found.isnan().any()
    assert found[1].tolist() == [0.0, 0.0]
    assert float(found[4 : 4 + LONGEST].abs().sum()) == 0
    assert bool(log_sums[2].isneginf().all())
    torch.testing.assert_close(found[:4].sum(0), torch.ones(2))


def test_pieces_of_the_edges_make_one_softmax() -> None:
    """Local edges and those of each round come one after the other; the log-sums have to be enough to join them."""
    one, other = [3, 0, 5], [2, 4, 0]
    scores = [scores_of(4, one), scores_of(4, other) - 30]
    parts = [segment_softmax.segment_softmax(*each) for each in zip(scores, map(pieces_of, (one, other)), strict=True)]
    whole = torch.logsumexp(torch.stack([log_sums for _, log_sums in parts]), 0)
    split = [score.split(counts) for score, counts in zip(scores, (one, other), strict=True)]
    for row in range(3):
        exact = torch.cat([rows[row] for rows in split]).softmax(0)
        joined = []
        for (found, log_sums), counts in zip(parts, (one, other), strict=True):
            joined.append(found.split(counts)[row] * (log_sums[row] - whole[row]).exp())
        torch.testing.assert_close(torch.cat(joined), exact, rtol=1e-4, atol=1e-6)


def test_a_backward_pass_makes_the_probabilities_again() -> None:
    """It keeps one number a node and head, and not one an edge."""
    scores, pieces = scores_of(4), pieces_of(COUNTS)
    found, log_sums = segment_softmax.segment_softmax(scores, pieces)
    assert torch.equal(segment_softmax.probabilities(scores, log_sums, pieces), found)
