"""Layers that are made again for the backward pass: the same gradients, and nothing that is kept between."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch import Tensor

from trainer.sparse.rematerialise import rematerialised


class Twice:
    """Two products with a kink between; remembers how often it was made, and when."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.one_FG, self.other_GG = (torch.randn(6, 6, generator=generator, requires_grad=True) for _ in range(2))
        self.between: list[weakref.ref[Tensor]] = []

    def __call__(self, rows_nF: Tensor | None) -> Tensor:
        rows_nF = torch.ones(4, 6) if rows_nF is None else rows_nF
        between_nG = (rows_nF @ self.one_FG).relu()
        self.between.append(weakref.ref(between_nG))
        out_nG: Tensor = (between_nG @ self.other_GG).exp()
        return out_nG


@pytest.mark.parametrize("has_rows", [True, False])
def test_gradients_are_those_of_what_is_kept(*, has_rows: bool) -> None:
    """The first layer reads features, which have no gradient, and its weights have one all the same."""
    found = []
    for again in (False, True):
        make = Twice()
        rows_nF = torch.randn(4, 6, generator=torch.Generator().manual_seed(1), requires_grad=True)
        given_nF = rows_nF if has_rows else None
        out_nG = rematerialised(make, given_nF) if again else make(given_nF)
        assert len(make.between) == 1
        assert (make.between[0]() is None) == again, "what the layer saves is let go at once"
        out_nG.square().sum().backward()
        assert len(make.between) == 1 + again
        assert not again or make.between[1]() is None, "and again when the backward pass is done with it"
        found.append([out_nG.detach(), make.one_FG.grad, make.other_GG.grad, rows_nF.grad])
    for kept, made_again in zip(*found, strict=True):
        assert (kept is None and made_again is None) or torch.equal(kept, made_again)
