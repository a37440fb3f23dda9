"""R-GCN (Schlichtkrull et al. 2018): H W_0 + the sum over relations r of A_r H W_r + b.

A_r is the mean over a node's in-edges of relation r (weighted by their weights), on all ranks. With `--bases B` the
weights of all relations are combinations of B matrices, W_r = sum over b of a_rb V_b, as the paper's basis
decomposition has it; else each relation has a weight of its own.

On a graph of several types layer 1 reads rows that are as wide as any layer: of a type with features their product with
a weight of the type, of another one a learnt row a node. Where there is one node type with features and one relation,
layer 1 reads the features, and the layer is GraphSAGE's with the mean. In the last layer only the relations that end at
the type that is learnt have weights.

R relations with weights, B bases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from trainer.layers.inputs import Hidden, LayerInput
from trainer.layers.typed_features import TypedFeatures
from trainer.models.plan import Plan, Types, with_bias, zeros


class RelationWeights(nn.Module):
    """The weights [F, G] of R relations."""

    def __init__(self, plan: Plan, number: int, width_in: int, width_out: int) -> None:
        super().__init__()
        bases = plan.options.bases
        self.matrices = plan.weights(bases or number, width_in, width_out)
        self.shares_RB = plan.weight(number, bases) if bases else None

    def forward(self) -> Sequence[Tensor]:
        if self.shares_RB is None:
            return self.matrices.unbind()
        return torch.einsum("rb,bfg->rfg", self.shares_RB, self.matrices).unbind()


class RgcnLayer(nn.Module):
    """An R-GCN layer [F] -> [G] over one relation."""

    sums: ClassVar[str | None] = "mean"

    def __init__(self, plan: Plan, width_in: int, width_out: int, *, is_last: bool) -> None:
        super().__init__()
        self.width_out = width_out
        self.own_FG = plan.weight(width_in, width_out)
        self.relations = RelationWeights(plan, 1, width_in, width_out)
        self.bias_G = plan.bias(width_out, is_last=is_last)

    def forward(self, rows: LayerInput) -> Tensor:
        [weight_FG] = self.relations()
        return with_bias(rows.aggregate(weight_FG).float().add_(rows.own(self.own_FG)), self.bias_G)


class TypedRgcnLayer(nn.Module):
    """An R-GCN layer [F] -> [G] over the relations of several types."""

    sums: ClassVar[str | None] = "mean"

    def __init__(self, plan: Plan, width_in: int, width_out: int, *, is_last: bool) -> None:
        super().__init__()
        types = plan.types
        assert types is not None
        self.width_out = width_out
        self._is_used = [not is_last or end == types.target for end in types.destinations]
        self.own_FG = plan.weight(width_in, width_out)
        self.relations = RelationWeights(plan, sum(self._is_used), width_in, width_out) if any(self._is_used) else None
        self.bias_G = plan.bias(width_out, is_last=is_last)

    def forward(self, rows: Hidden) -> Tensor:
        out_nG = rows.own(self.own_FG).float()
        if self.relations is not None:
            weights = iter(self.relations())
            out_nG = rows.aggregate_by_relation([next(weights) if used else None for used in self._is_used]).add_(
                out_nG
            )
        return with_bias(out_nG, self.bias_G)


class TypedInput(nn.Module):
    """The rows [n, F] that layer 1 reads: products of features, or learnt rows."""

    def __init__(self, plan: Plan, types: Types) -> None:
        super().__init__()
        self.weights, self.biases, self.learnt = nn.ParameterList(), nn.ParameterList(), nn.ModuleList()
        for number, num_features in enumerate(types.num_features):
            if num_features:
                self.weights.append(plan.weight(num_features, plan.options.input_width))
                self.biases.append(zeros(plan.options.input_width))
            else:
                self.learnt.append(types.embedding(number))

    def forward(self, features: TypedFeatures) -> Tensor:
        biases, learnt = iter(self.biases), iter(self.learnt)
        return torch.cat(
            [
                next(learnt)() if product_kG is None else product_kG + next(biases)
                for product_kG in features.products(list(self.weights))
            ]
        )
