"""GraphSAGE (Hamilton, Ying and Leskovec 2017): separate weights for a node and for its in-neighbours.

The neighbours count by their mean (weighted by the edges' weights), or feature by feature by the greatest of them. The
maximum is of the neighbours' rows themselves, without the layer that the paper puts before it.

With features of edges (`--edge-features`) mean or maximum are of [h_j f_ij], each neighbour's row with the features of
its edge beside it: for the mean that is E-GraphSAGE's (Lo et al. 2022) W mean over j of [h_j f_ij]. Their own mean, or
maximum, is a constant of the graph and is computed once; nothing more is sent.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from trainer.layers.inputs import LayerInput
from trainer.minibatch.column_input import summed_over_columns
from trainer.models.plan import Plan, with_bias


class SageLayer(nn.Module):
    """A GraphSAGE layer [F] -> [G], over the mean."""

    sums: ClassVar[str | None] = "mean"

    def __init__(self, plan: Plan, width_in: int, width_out: int, *, is_last: bool) -> None:
        super().__init__()
        self.width_out = width_out
        self.own_FG = plan.weight(width_in, width_out)
        self.neighbours_FG = plan.weight(width_in, width_out)
        self.edge_DG = plan.edge_weight(width_out)
        self.bias_G = plan.bias(width_out, is_last=is_last)

    def forward(self, rows: LayerInput) -> Tensor:
        def sums(part: LayerInput) -> Tensor:
            return self.of_neighbours(part).float().add_(part.own(self.own_FG))

        return with_bias(summed_over_columns(rows, sums), self.bias_G)

    def of_neighbours(self, rows: LayerInput) -> Tensor:
        """What the in-neighbours add: [n, G]."""
        return rows.aggregate(self.neighbours_FG, edge_weight=self.edge_DG)


class SageMaxLayer(SageLayer):
    """The same over the maximum."""

    sums = None

    def of_neighbours(self, rows: LayerInput) -> Tensor:
        return rows.maximum(self.neighbours_FG, edge_weight=self.edge_DG)
