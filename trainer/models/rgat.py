"""R-GAT: a GAT for each relation, summed over relations, beside a weight for the node itself.

    H W_0 + b + the sum over relations r of sum over j of p^r_ij W_r h_j

p^r_ij is a softmax over the in-edges of relation r of LeakyReLU(a'_r . W_r h_i + a_r . W_r h_j), head by head:
attention within a relation, with additive scores (WIRGAT of Busbridge, Sherburn, Cavallo and Hammerla 2019). With
several heads side by side it is the R-GAT of OGB-LSC's baseline for MAG240M (Hu et al. 2021), which has a GATConv for
each relation and a linear layer for the node itself. In the last layer heads are averaged, as in GAT, and only the
relations that end at the type that is learnt have weights. Weights of edges do not count.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from trainer.layers.inputs import Hidden
from trainer.layers.relation_attention import attend
from trainer.models.plan import Plan, with_bias
from trainer.sparse.attention_scores import SumScores, destination_terms
from trainer.sparse.dense import dense
from trainer.sparse.edge_values import by_head


class RgatLayer(nn.Module):
    """An R-GAT layer [F] -> [heads G], or [F] -> [G] if it is the last."""

    sums: ClassVar[str | None] = None

    def __init__(self, plan: Plan, width_in: int, width_out: int, *, is_last: bool) -> None:
        super().__init__()
        types = plan.types
        assert types is not None
        self.num_heads, self.is_last = plan.options.last_heads if is_last else plan.options.heads, is_last
        self.width_out = width_out if is_last else self.num_heads * width_out
        self.share = plan.options.coefficient_dropout
        self._is_used = [not is_last or end == types.target for end in types.destinations]
        number, width = sum(self._is_used), self.num_heads * width_out
        self.own_FG = plan.weight(width_in, self.width_out)
        self.relations_RFG = plan.weights(number, width_in, width) if number else None
        self.source_RhF = plan.vectors(number, self.num_heads, width_out) if number else None
        self.destination_RhF = plan.vectors(number, self.num_heads, width_out) if number else None
        self.bias_G = plan.bias(self.width_out, is_last=is_last)

    def forward(self, rows: Hidden) -> Tensor:
        all_rows = rows.with_halo()
        own_nF = all_rows[: len(rows.rows_nF)]
        clock = rows.aggregation.clock
        out_nG = dense(own_nF, self.own_FG, clock).float()
        if self.relations_RFG is None or self.source_RhF is None or self.destination_RhF is None:
            return with_bias(out_nG, self.bias_G)
        edges = rows.aggregation.relation_edges(tuple(self._is_used), by_node=False)
        values, of_sources, terms = [], [], []
        for place, (sources, destinations) in enumerate(zip(edges.sources, edges.destinations, strict=True)):
            weight_FG, vector_hF = self.relations_RFG[place], self.destination_RhF[place]
            value_cG = dense(all_rows.index_select(0, sources), weight_FG, clock)
            values.append(value_cG)
            of_sources.append(destination_terms(value_cG, self.source_RhF[place]))
            # a' . W h is computed as (W a') . h, which is narrower by the width of a head.
            weight_Fh = (by_head(weight_FG, self.num_heads) * vector_hF).sum(2)
            terms.append(dense(own_nF.index_select(0, destinations), weight_Fh, clock).float())
        mean_MG = attend(
            torch.cat(values),
            torch.cat(terms),
            torch.cat(of_sources),
            edges.edges,
            scores=SumScores,
            num_heads=self.num_heads,
            clock=clock,
            edge_mask=rows.mask_of_relations(edges, self.share),
        ).float()
        if self.is_last and self.num_heads > 1:
            mean_MG = by_head(mean_MG, self.num_heads).mean(1)
        return with_bias(out_nG.index_add(0, torch.cat(list(edges.destinations)), mean_MG), self.bias_G)
