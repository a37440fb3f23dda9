"""GAT (Velickovic et al. 2018) and GATv2 (Brody, Alon and Yahav 2022): means over in-neighbours, weighted by attention.

Heads are concatenated in the layers between, and averaged in the last one, as in the papers. Every node attends
to itself too, once if the dataset gives it no self-loop. Dropout also zeroes attention coefficients. GATv2 has separate
weights for sources and destinations. Features of edges (`--edge-features`) add a term to the scores; a self-loop that
the dataset does not give has the mean of those of the node's in-edges.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from trainer.layers.inputs import LayerInput, Projected
from trainer.models.plan import Plan
from trainer.sparse.attention_scores import destination_terms
from trainer.sparse.edge_values import by_head


class GatLayer(nn.Module):
    """A GAT layer [F] -> [heads G], or [F] -> [G] if it is the last."""

    sums: ClassVar[str | None] = None

    def __init__(self, plan: Plan, width_in: int, width_out: int, *, is_last: bool) -> None:
        super().__init__()
        self.num_heads, self.is_last = plan.options.last_heads if is_last else plan.options.heads, is_last
        self.width_out = width_out if is_last else self.num_heads * width_out
        self.share = plan.options.coefficient_dropout
        self.weight_FG = plan.weight(width_in, self.num_heads * width_out)
        self.source_hF = plan.vector(self.num_heads, width_out)
        self.add_destination(plan, width_in, width_out)
        self.add_edge_weight(plan, width_out)
        self.bias_G = plan.bias(self.width_out, is_last=is_last)

    def add_destination(self, plan: Plan, width_in: int, width_out: int) -> None:  # noqa: ARG002
        """Draw the parameters of the destinations' terms."""
        self.destination_hF = plan.vector(self.num_heads, width_out)

    def add_edge_weight(self, plan: Plan, width_out: int) -> None:  # noqa: ARG002
        """Draw the parameters of the edges' terms, where edges have features."""
        self.edge_DX = plan.edge_weight(self.num_heads)

    def forward(self, rows: LayerInput) -> Tensor:
        projected = rows.project(self.weight_FG)
        terms = self.terms_of(rows, projected)
        means_nG = projected.attend(terms, self.source_hF, dropout=self.share, edge_weight=self.edge_DX).float()
        if self.is_last and self.num_heads > 1:
            means_nG = by_head(means_nG, self.num_heads).mean(1)
        return means_nG if self.bias_G is None else means_nG + self.bias_G

    def terms_of(self, rows: LayerInput, projected: Projected) -> Tensor:  # noqa: ARG002
        """What nodes add to scores as destinations: [n, heads]."""
        return destination_terms(projected.own_nG, self.destination_hF)


class Gatv2Layer(GatLayer):
    """A GATv2 layer, of the same widths."""

    def add_destination(self, plan: Plan, width_in: int, width_out: int) -> None:
        self.destination_FG = plan.weight(width_in, self.num_heads * width_out)

    def add_edge_weight(self, plan: Plan, width_out: int) -> None:
        self.edge_DX = plan.edge_weight(self.num_heads * width_out)

    def terms_of(self, rows: LayerInput, projected: Projected) -> Tensor:  # noqa: ARG002
        return by_head(rows.own(self.destination_FG), self.num_heads)
