"""Recomputes a layer in the backward pass, in place of keeping what its operations save (gradient checkpointing).

Between the passes nothing of the layer stays but its input: each tensor that its operations save is freed at once and
known by its number alone. When the backward pass needs the first of them, the layer is computed again, up to the last
thing that it saves, and each is given out once, so that it is freed as soon as its operation is done with it (Chen et
al. 2016, "Training deep nets with sublinear memory cost").

torch.utils.checkpoint does the same, and imports torch's compiler for it: 60 MB and two seconds a rank.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks


class _AllIsSaved(Exception):
    """Ends the second computation."""


def rematerialised(compute: Callable[[Tensor | None], Tensor], rows_nF: Tensor | None) -> Tensor:
    """What `compute` returns for `rows_nF`, with gradients for the rows and for all parameters that it reads.

    Args:
        compute: called once now and, if there is a backward pass, once then; it has to do the same both times.
        rows_nF: its input, which is kept; it must not be changed in place.
    """
    num_saved, recomputed = 0, list[Tensor | None]()

    def free(_: Tensor) -> int:
        nonlocal num_saved
        num_saved += 1
        return num_saved - 1

    def unpack(number: int) -> Tensor:
        if not recomputed:
            recompute()
        saved, recomputed[number] = recomputed[number], None
        assert saved is not None, "a second backward pass through a layer that is recomputed once"
        return saved

    def keep(saved: Tensor) -> None:
        # The recomputed operations get nothing: one that held its own result would never be freed.
        recomputed.append(saved.detach())
        if len(recomputed) == num_saved:
            raise _AllIsSaved

    def refuse(_: None) -> Tensor:
        raise AssertionError("a backward pass through a layer while it is recomputed")

    def recompute() -> None:
        again_nF = None if rows_nF is None else rows_nF.detach().requires_grad_(rows_nF.requires_grad)
        try:
            with torch.enable_grad(), saved_tensors_hooks(keep, refuse):
                compute(again_nF)
        except _AllIsSaved:
            return
        raise AssertionError("a layer saves less when it is recomputed")

    with saved_tensors_hooks(free, unpack):
        return compute(rows_nF)
