"""GCN (Kipf and Welling 2017): A' H W + b, where A' is normalised by the degrees of both ends and has self-loops."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from trainer.layers.inputs import LayerInput
from trainer.models.plan import Plan, with_bias


class GcnLayer(nn.Module):
    """A graph convolution [F] -> [G]."""

    sums: ClassVar[str | None] = "gcn"

    def __init__(self, plan: Plan, width_in: int, width_out: int, *, is_last: bool) -> None:
        super().__init__()
        self.width_out = width_out
        self.weight_FG = plan.weight(width_in, width_out)
        self.bias_G = plan.bias(width_out, is_last=is_last)

    def forward(self, rows: LayerInput) -> Tensor:
        return with_bias(rows.aggregate(self.weight_FG).float(), self.bias_G)
