"""The labelled rows of a part, by what they are for."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.part import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Classes, and the rows that a mask names and that have one."""

    y_n: Tensor
    """int64 [n], -1 where unlabelled"""
    train: Tensor
    """int64: rows to train on, as the two below: to validate and to test"""
    val: Tensor
    test: Tensor

    @classmethod
    def of(cls, part: Part, device: torch.device) -> Labels:
        def rows(mask_n: Tensor) -> Tensor:
            return (mask_n & (part.y_n >= 0)).nonzero().squeeze(1).to(device)

        return cls(y_n=part.y_n.to(device), train=rows(part.train_n), val=rows(part.val_n), test=rows(part.test_n))
