"""HGT (Hu, Dong, Wang and Sun 2020): transformer attention over all in-edges of a node, of all relations together.

    e_ij = q_i . (k_j A_r) p_r / sqrt(D)    q_i = h_i Q_t + b, k_j = h_j K_s + b, for an edge of relation r from a node
    m_ij = v_j M_r                          of type s to one of type t, v_j = h_j V_s + b
    out_i = g_t (gelu(sum over j of softmax(e_ij) m_ij) O_t + b) + (1 - g_t) h_i,    g_t = sigmoid(skip_t)

head by head, D being the width of a head; A_r and M_r [D, D] and the priority p_r belong to a relation and head. The
parameters are those of PyG's HGTConv. A layer is as wide as its input, `--heads` times `--hidden`, so that every layer
has the gate. There is no activation between layers, as the gelu is inside, and a linear layer gives the scores.

K_s A_r and V_s M_r are multiplied with each other first, so a row goes through one product for each relation. A node
without in-edges, of whatever type, has a sum of 0. Weights of edges do not count.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from trainer.base.traffic_log import Clock
from trainer.layers.inputs import Hidden
from trainer.layers.relation_attention import attend
from trainer.models.plan import Plan
from trainer.sparse.attention_scores import DotScores
from trainer.sparse.dense import dense


class HgtLayer(nn.Module):
    """An HGT layer [F] -> [F], F being `--heads` times `--hidden`, for T types and R relations."""

    sums: ClassVar[str | None] = None
    query_TFF: nn.Parameter
    query_bias_TF: nn.Parameter
    out_TFF: nn.Parameter
    out_bias_TF: nn.Parameter

    def __init__(self, plan: Plan, width_in: int, width_out: int, *, is_last: bool) -> None:  # noqa: ARG002
        super().__init__()
        types = plan.types
        assert types is not None
        self.num_heads, self.width_head, self.width_out = plan.options.heads, plan.hidden, width_in
        self._source_types = types.source_types
        self._is_used = tuple(not is_last or end == types.target for end in types.destinations)
        num_types, num_relations, width = len(types.num_features), len(types.destinations), width_in
        for name in ("key", "query", "value", "out"):
            self.register_parameter(f"{name}_TFF", plan.weights(num_types, width, width))
            self.register_parameter(f"{name}_bias_TF", nn.Parameter(torch.zeros(num_types, width)))
        shape = num_relations, self.num_heads, self.width_head, self.width_head
        for name in ("key", "value"):
            of_relations = plan.weights(num_relations * self.num_heads, self.width_head, self.width_head)
            self.register_parameter(f"{name}_RhDD", nn.Parameter(of_relations.detach().view(shape)))
        self.priority_Rh = nn.Parameter(torch.ones(num_relations, self.num_heads))
        self.skip_T = nn.Parameter(torch.ones(num_types))

    def forward(self, rows: Hidden) -> Tensor:
        all_rows, clock, rows_of_types = rows.with_halo(), rows.aggregation.clock, rows.aggregation.type_rows
        own_nF = all_rows[: len(rows.rows_nF)]
        edges = rows.aggregation.relation_edges(self._is_used, by_node=True)
        keys, values = [all_rows[:0]], [all_rows[:0]]
        for number, sources in zip(edges.numbers, edges.sources, strict=True):
            weight, bias = self._of_relation(number)
            product = dense(all_rows.index_select(0, sources), weight, clock) + bias.to(all_rows.dtype)
            of_keys, of_values = torch.split(product, self.width_out, 1)
            keys.append(of_keys)
            values.append(of_values)
        mean_nF = attend(
            torch.cat(values),
            torch.cat(
                [
                    dense(own_nF[of_type], self.query_TFF[number], clock) + self.query_bias_TF[number].to(own_nF.dtype)
                    for number, of_type in enumerate(rows_of_types)
                ]
            ),
            torch.cat(keys),
            edges.edges,
            scores=DotScores,
            num_heads=self.num_heads,
            clock=clock,
        )
        return torch.cat(
            [self._gated(number, mean_nF[one], own_nF[one], clock) for number, one in enumerate(rows_of_types)]
        )

    def _of_relation(self, number: int) -> tuple[Tensor, Tensor]:
        """What takes a source's row to its key, times the scale of its scores, and value: [F, 2 F] and [2 F]."""
        of_type, shape = self._source_types[number], (self.num_heads, self.width_head)
        scale_h1 = (self.priority_Rh[number] * self.width_head**-0.5).unsqueeze(1)
        weights, biases = [], []
        for name, scale in (("key", scale_h1), ("value", torch.ones_like(scale_h1))):
            relation_hDD = getattr(self, f"{name}_RhDD")[number]
            weight_FhD = getattr(self, f"{name}_TFF")[of_type].unflatten(1, shape)
            bias_hD = getattr(self, f"{name}_bias_TF")[of_type].unflatten(0, shape)
            weights.append((torch.einsum("fhd,hde->fhe", weight_FhD, relation_hDD) * scale).flatten(1))
            biases.append((torch.einsum("hd,hde->he", bias_hD, relation_hDD) * scale).flatten())
        return torch.cat(weights, 1), torch.cat(biases)

    def _gated(self, number: int, mean_kF: Tensor, own_kF: Tensor, clock: Clock) -> Tensor:
        """The output of the nodes of one type: float32."""
        activated_kF = nn.functional.gelu(mean_kF.float()).to(own_kF.dtype)
        out_kF = dense(activated_kF, self.out_TFF[number], clock).float() + self.out_bias_TF[number]
        return torch.lerp(own_kF.float(), out_kF, self.skip_T[number].sigmoid())
