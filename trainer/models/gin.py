"""GIN (Xu, Hu, Leskovec and Jegelka 2019): an MLP of (1 + epsilon) h_i plus the sum over in-neighbours, epsilon learnt.

The MLP has two layers. Its first is linear, so it may be multiplied before the sum, where that is narrower.

With features of edges (`--edge-features`) it is GINE (Hu et al. 2020): the sum is of relu(h_j + f_ij U + b), and edge
weights do not count in it.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from trainer.layers.inputs import LayerInput
from trainer.minibatch.column_input import summed_over_columns
from trainer.models.plan import Plan, with_bias, zeros


class GinLayer(nn.Module):
    """A GIN layer [F] -> [G], of which the MLP is G wide too."""

    sums: ClassVar[str | None] = "sum"

    def __init__(self, plan: Plan, width_in: int, width_out: int, *, is_last: bool) -> None:
        super().__init__()
        self.width_out, width = width_out, plan.hidden if is_last else width_out
        self.epsilon = nn.Parameter(torch.zeros(1))
        self.first_FG, self.first_bias_G = plan.weight(width_in, width), zeros(width)
        self.second_GG, self.second_bias_G = plan.weight(width, width_out), plan.bias(width_out, is_last=is_last)

    def forward(self, rows: LayerInput) -> Tensor:
        # One a column: the gradient of a single number is summed in an order that depends on the number of threads.
        own_share_G = (1 + self.epsilon).expand(self.first_FG.shape[1])

        def sums(part: LayerInput) -> Tensor:
            return self.of_neighbours(part).float() + part.own(self.first_FG) * own_share_G

        hidden_nG = summed_over_columns(rows, sums).add_(self.first_bias_G).relu_()
        return with_bias(hidden_nG @ self.second_GG, self.second_bias_G)

    def of_neighbours(self, rows: LayerInput) -> Tensor:
        """What the in-neighbours add before the MLP's first bias: [n, G]."""
        return rows.aggregate(self.first_FG)


class GineLayer(GinLayer):
    """The same with features of edges."""

    sums = None

    def __init__(self, plan: Plan, width_in: int, width_out: int, *, is_last: bool) -> None:
        super().__init__(plan, width_in, width_out, is_last=is_last)
        self.edge_DF, self.edge_bias_F = plan.weight(plan.num_edge_features, width_in), zeros(width_in)

    def of_neighbours(self, rows: LayerInput) -> Tensor:
        return rows.messages(self.edge_DF, self.edge_bias_F, self.first_FG)
