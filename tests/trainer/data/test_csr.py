"""Features of edges follow them through everything that is done to a matrix."""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.data.csr import Csr, add, hstack, indptr_of, select
from trainer.sparse.normalise import loop_features, missing_loops


def numbered(num_rows: int, num_columns: int, seed: int, first: int = 0) -> Csr:
    """A matrix whose edges have their row, and their column counted from `first`, as features."""
    generator = torch.Generator().manual_seed(seed)
    row_E = torch.randint(num_rows, (60,), generator=generator).sort().values
    indices = torch.randint(num_columns, (60,), generator=generator)
    features = torch.stack([row_E, first + indices], 1).float()
    return Csr(
        indptr=indptr_of(row_E.bincount(minlength=num_rows), torch.int32),
        indices=indices.int(),
        weights=None,
        num_columns=num_columns,
        features=features,
    )


def both_ends(csr: Csr) -> Tensor:
    return torch.stack([csr.row_E, csr.indices], 1).float()


def test_features_follow_their_edges() -> None:
    """Features in another order than the edges train on the features of other edges."""
    one, other = numbered(9, 9, seed=0), numbered(9, 5, seed=1, first=9)
    for csr in (one, hstack([one, other], 9), add(one, numbered(9, 9, seed=2)), one.pattern()):
        assert csr.features is not None
        assert csr.features.equal(both_ends(csr))
    transposed = one.transposed()
    assert transposed.features is not None
    assert transposed.features.flip(1).equal(both_ends(transposed))
    kept = torch.arange(9) >= 4
    selected = select(one, kept, kept)
    assert selected.features is not None
    assert selected.features.sub(4).equal(both_ends(selected))


def test_added_loops_have_the_mean_of_the_in_edges() -> None:
    """A mean over the edges of another row, over this rank's edges alone, or of a node without edges."""
    local, remote = numbered(9, 9, seed=0), numbered(9, 5, seed=1, first=9)
    _, needs_loop_n = missing_loops(local)
    found = loop_features(needs_loop_n, [local, remote])
    assert local.features is not None
    assert remote.features is not None
    rows_E, features_ED = torch.cat([local.row_E, remote.row_E]), torch.cat([local.features, remote.features])
    expected = torch.stack([features_ED[rows_E == row].mean(0) for row in needs_loop_n.nonzero().flatten().tolist()])
    torch.testing.assert_close(found, expected)
    nothing = Csr(
        indptr=torch.zeros(3, dtype=torch.int32),
        indices=torch.zeros(0).int(),
        weights=None,
        num_columns=2,
        features=torch.zeros(0, 2),
    )
    assert loop_features(torch.tensor([True, True]), [nothing]).equal(torch.zeros(2, 2))
