"""Layers of one family, one after the other: graph layer, residual, normalisation, activation, dropout.

With `--residual` each layer adds its input to its output, through a learnt matrix where the widths differ. With
`--jumping` (Xu et al. 2018) all layers are `hidden` wide, and a dense layer makes the scores of all their outputs: side
by side (`cat`), or of the greatest of them, feature by feature (`max`).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from trainer.config.options import Options
from trainer.layers.graph import Graph
from trainer.layers.inputs import LayerInput
from trainer.models.gat import GatLayer, Gatv2Layer
from trainer.models.gcn import GcnLayer
from trainer.models.gin import GineLayer, GinLayer
from trainer.models.hgt import HgtLayer
from trainer.models.plan import Plan, zeros
from trainer.models.rgat import RgatLayer
from trainer.models.rgcn import RgcnLayer, TypedInput, TypedRgcnLayer
from trainer.models.sage import SageLayer, SageMaxLayer

LayerType = (
    type[GcnLayer]
    | type[SageLayer]
    | type[GatLayer]
    | type[GinLayer]
    | type[RgcnLayer]
    | type[TypedRgcnLayer]
    | type[RgatLayer]
    | type[HgtLayer]
)


def layer_type(options: Options, *, is_typed: bool = False) -> LayerType:
    """The class of layers [F] -> [G] that the options name; the output of one is `width_out` wide.

    Args:
        options: of the run.
        is_typed: whether node types and relations are distinguished.
    """
    if options.model == "rgcn":
        return TypedRgcnLayer if is_typed else RgcnLayer
    if options.model == "sage":
        return SageMaxLayer if options.aggregator == "max" else SageLayer
    if options.model == "gin":
        return GineLayer if options.sums_messages else GinLayer
    types: dict[str, LayerType] = {
        "gcn": GcnLayer,
        "gat": GatLayer,
        "gatv2": Gatv2Layer,
        "rgat": RgatLayer,
        "hgt": HgtLayer,
    }
    return types[options.model]


class Stacked(nn.Module):
    """A model of as many layers as the options say."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        options = plan.options
        make = layer_type(options, is_typed=plan.types is not None)
        self.inputs = None if plan.types is None else TypedInput(plan, plan.types)
        self._attends, self._jumping, is_hgt = options.attends, options.jumping, options.model == "hgt"
        self._activation = (
            nn.Identity() if is_hgt else nn.ELU(inplace=True) if options.attends else nn.ReLU(inplace=True)
        )
        self.layers, self.norms, self.skips = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        width, widths = plan.num_features if self.inputs is None else options.input_width, []
        for number in range(1, options.layers + 1):
            is_last = number == options.layers and options.jumping == "none"
            layer = make(plan, width, plan.num_classes if is_last else plan.hidden, is_last=is_last)
            width_out = layer.width_out
            self.layers.append(layer)
            if options.residual:
                self.skips.append(Skip(plan, width, width_out))
            if not is_last:
                self.norms.append(plan.norm(width_out))
                widths.append(width_out)
            width = width_out
        self.jump = None if options.jumping == "none" else Jump(plan, widths, options.jumping)
        self.scores = Jump(plan, [width], "cat") if is_hgt and self.jump is None else None

    def forward(self, graph: Graph) -> Tensor:
        rows_nF: Tensor | None = None if self.inputs is None else self.inputs(graph.by_type)
        outputs: list[Tensor] = []
        for number in range(len(self.layers)):
            out_nG = self._layer(number, graph, rows_nF)
            if number == len(self.norms):
                return out_nG if self.scores is None else self._dense_scores(graph, out_nG)
            out_nG = self._activation(self.norms[number](out_nG))
            rows_nF = out_nG
            if self._jumping != "none":
                outputs.append(out_nG)
        assert self.jump is not None
        scores_nC: Tensor = self.jump(graph, outputs)
        return scores_nC

    def _dense_scores(self, graph: Graph, out_nG: Tensor) -> Tensor:
        assert self.scores is not None
        scores_nC: Tensor = self.scores(graph, [out_nG])
        return scores_nC

    def _layer(self, number: int, graph: Graph, rows_nF: Tensor | None) -> Tensor:
        """The output of one graph layer, with its input added under `--residual`."""

        def layer(rows: LayerInput) -> Tensor:
            out_nG: Tensor = self.layers[number](rows)
            return out_nG + self.skips[number](rows) if self.skips else out_nG

        if self._attends:
            return graph.through(layer, rows_nF)
        return layer(graph.features if rows_nF is None else graph.rows(rows_nF))

    def decayed(self) -> list[nn.Parameter]:
        """What L2 regularisation is for: the first layer's parameters, as in GCN's paper, and what makes its input; for
        attention, as in GAT's, all weights and no bias."""
        if self._attends:
            return [parameter for name, parameter in self.named_parameters() if "bias" not in name]
        of_inputs = [] if self.inputs is None else list(self.inputs.parameters())
        return [*of_inputs, *self.layers[0].parameters()]


class Skip(nn.Module):
    """A layer's input, as wide as its output."""

    def __init__(self, plan: Plan, width_in: int, width_out: int) -> None:
        super().__init__()
        self.weight_FG = None if width_in == width_out else plan.weight(width_in, width_out)

    def forward(self, rows: LayerInput) -> Tensor:
        return rows.own(self.weight_FG).float()


class Jump(nn.Module):
    """Scores of the outputs of all layers."""

    def __init__(self, plan: Plan, widths: Sequence[int], how: str) -> None:
        super().__init__()
        self._how = how
        width = sum(widths) if how == "cat" else widths[0]
        self.weight_FC, self.bias_C = plan.weight(width, plan.num_classes), zeros(plan.num_classes)

    def forward(self, graph: Graph, outputs: Sequence[Tensor]) -> Tensor:
        is_cat, num_rows = self._how == "cat", len(outputs[-1])
        outputs = [rows_nF[:num_rows] for rows_nF in outputs]  # of a batch, earlier layers have further rows
        together_nF = torch.cat(outputs, dim=1) if is_cat else torch.stack(outputs).amax(0)
        return graph.rows(together_nF).own(self.weight_FC).float() + self.bias_C
