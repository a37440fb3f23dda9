"""What the backward pass needs of a layer, made again when it is asked for, in place of being kept.

Between the passes nothing of the layer stays but its input: what its operations would save is let go at once and known
by its number alone. When the backward pass asks for the first of them, the layer is made again, up to the last thing
that it saves, and each is handed out once, so that it is freed as soon as its operation is done with it (Chen et al.
2016, "Training deep nets with sublinear memory cost").

torch.utils.checkpoint does the same, and imports torch's compiler for it: 60 MB and two seconds a rank.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks


class _AllIsMade(Exception):
    """Ends the second making."""


def rematerialised(make: Callable[[Tensor | None], Tensor], rows_nF: Tensor | None) -> Tensor:
    """What `make` gives for `rows_nF`, with gradients for the rows and for all that it is made with.

    Args:
        make: called once now and, if there is a backward pass, once then; it has to do the same both times.
        rows_nF: its input, which is kept; it must not be changed in place.
    """
    number_saved, made_again = 0, list[Tensor | None]()

    def let_go(_: Tensor) -> int:
        nonlocal number_saved
        number_saved += 1
        return number_saved - 1

    def asked_for(number: int) -> Tensor:
        if not made_again:
            make_again()
        found, made_again[number] = made_again[number], None
        assert found is not None, "a second backward pass through a layer that is made again once"
        return found

    def keep(saved: Tensor) -> None:
        # The operations that are made again get nothing: one that held its own result would never be freed.
        made_again.append(saved.detach())
        if len(made_again) == number_saved:
            raise _AllIsMade

    def never_asked_for(_: None) -> Tensor:
        raise AssertionError("a layer goes back through itself while it is made")

    def make_again() -> None:
        again_nF = None if rows_nF is None else rows_nF.detach().requires_grad_(rows_nF.requires_grad)
        try:
            with torch.enable_grad(), saved_tensors_hooks(keep, never_asked_for):
                make(again_nF)
        except _AllIsMade:
            return
        raise AssertionError("a layer saves less when it is made again")

    with saved_tensors_hooks(let_go, asked_for):
        return make(rows_nF)
