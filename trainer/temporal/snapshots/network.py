"""A model over snapshots: the rows that it reads, its recurrences, and the decoder that scores pairs or states."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from trainer.config.options import Options
from trainer.models.decoders import Mlp
from trainer.models.plan import Plan, zeros
from trainer.temporal.snapshots.evolvegcn import EvolveByRows, EvolveByWeights
from trainer.temporal.snapshots.gclstm import GcLstm
from trainer.temporal.snapshots.graphs import Pairs, Snapshots
from trainer.temporal.snapshots.recurrence import Recurrence
from trainer.temporal.snapshots.tgcn import TGcn

VECTORS = "vectors_NF"
"""The name of the learnt rows; row i is of the node with the i-th first event."""


class SnapshotNetwork(nn.Module):
    """The model that the options name, over the snapshots of one stream."""

    def __init__(self, options: Options, snapshots: Snapshots, *, num_classes: int = 0) -> None:
        """Draw the first weights.

        Args:
            options: of the run.
            snapshots: of the stream.
            num_classes: of the states that are predicted; 0 for pairs.
        """
        super().__init__()
        generator, x_NF = torch.Generator().manual_seed(options.seed), snapshots.events.x_NF
        self._snapshots = snapshots
        num_features = options.hidden + 1 if x_NF is None else x_NF.shape[1]
        plan = Plan(
            num_features=num_features,
            num_classes=0,
            options=options,
            generator=generator,
            norm=lambda _width: nn.Identity(),
        )
        self.recurrences = nn.ModuleList(_recurrences(options, plan))
        self.decoder = NodeMlp(plan, num_classes) if num_classes else Mlp(plan, options.hidden, num_scores=None)
        self._x_NF = None if x_NF is None else x_NF[snapshots.own_nodes].float().to(snapshots.device)
        """Of the nodes of this rank"""
        self.vectors_NF: nn.Parameter | None = None
        if x_NF is None:
            bound = (3.0 / options.hidden) ** 0.5
            drawn_NF = torch.empty(snapshots.events.num_nodes, options.hidden)
            self.vectors_NF = nn.Parameter(drawn_NF.uniform_(-bound, bound, generator=generator))
        self.to(snapshots.device)

    @property
    def chain(self) -> Sequence[Recurrence]:
        """The recurrences, one over the rows of the other."""
        return [one for one in self.recurrences if isinstance(one, Recurrence)]

    def parameters_between(self, segment: int) -> list[nn.Parameter]:
        """Those that are used after recurrence `segment - 1` and before recurrence `segment`, or the decoder."""
        used = [*self.recurrences[max(segment - 1, 0) : segment + 1]]
        if segment == len(self.recurrences):
            used.append(self.decoder)
        return [parameter for module in used for parameter in module.parameters()]

    @torch.no_grad()
    def rows(self, number: int) -> Tensor:
        """What the first recurrence reads of a snapshot: [n, F]."""
        num_rows = self._snapshots.num_rows(number)
        if self._x_NF is not None:
            return self._x_NF[:num_rows]
        assert self.vectors_NF is not None
        degree_n = self._snapshots.graph(number).degree_n
        own = self._snapshots.own_rows(num_rows)
        return torch.cat([self.vectors_NF[own], degree_n.log1p().unsqueeze(1)], dim=1)

    def scores(self, table_G: Tensor, pairs: Pairs) -> Tensor:
        """The scores of each pair and of its negatives, [k, 1 + K]; nodes that have not occurred have zeros.

        Args:
            table_G: of `pairs.table`.
            pairs: some of those whose table it is.
        """
        num_rows = len(table_G)
        padded = torch.nn.functional.pad(table_G, (0, 0, 0, 1))
        source_kG = padded[pairs.source_k.clamp(max=num_rows)]
        others = torch.cat([pairs.destination_k.unsqueeze(1), pairs.negative_kK], dim=1)
        others_G = padded[others.clamp(max=num_rows).flatten()]
        repeated = source_kG.repeat_interleave(others.shape[1], dim=0)
        scores: Tensor = self.decoder(repeated, others_G, None)
        return scores.view(others.shape)

    def class_scores(self, rows_nG: Tensor, row_k: Tensor) -> Tensor:
        """The scores of the classes of some rows, [k, C]; those beyond the last are zeros."""
        padded = torch.nn.functional.pad(rows_nG, (0, 0, 0, 1))
        scores: Tensor = self.decoder(padded[row_k.clamp(max=len(rows_nG))])
        return scores

    def loss_sum(self, rows_nG: Tensor, pairs: Pairs) -> Tensor:
        """The sum over the pairs and their negatives of the binary cross entropy."""
        scores = self.scores(pairs.table(rows_nG), pairs)
        return softplus(-scores[:, 0]).sum() + softplus(scores[:, 1:]).sum()


class NodeMlp(nn.Module):
    """Two layers on a row, for the scores of its classes."""

    def __init__(self, plan: Plan, num_classes: int) -> None:
        super().__init__()
        self.weight_FG, self.bias_G = plan.weight(plan.hidden, plan.hidden), zeros(plan.hidden)
        self.weight_GC, self.bias_C = plan.weight(plan.hidden, num_classes), zeros(num_classes)

    def forward(self, rows_kF: Tensor) -> Tensor:
        return (rows_kF @ self.weight_FG + self.bias_G).relu() @ self.weight_GC + self.bias_C


def input_words(options: Options, snapshots: Snapshots) -> str:
    """What the model reads of nodes, in words."""
    x_NF = snapshots.events.x_NF
    if x_NF is not None:
        return f"the {x_NF.shape[1]} features that its nodes have"
    return f"a learnt row of {options.hidden} numbers a node and its degree in the snapshot, as nodes have no features"


def _recurrences(options: Options, plan: Plan) -> list[Recurrence]:
    if options.model == "tgcn":
        return [TGcn(plan, num_layers=options.layers)]
    if options.model == "gclstm":
        return [GcLstm(plan, order=options.layers)]
    layer = EvolveByRows if options.variant == "h" else EvolveByWeights
    widths = [plan.num_features] + [plan.hidden] * options.layers
    return [
        layer(plan, width_in, width_out, is_last=number == options.layers)
        for number, (width_in, width_out) in enumerate(pairwise(widths), start=1)
    ]
