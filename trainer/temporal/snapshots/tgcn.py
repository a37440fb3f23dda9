"""T-GCN (Zhao et al. 2019): a GRU over the snapshots that reads graph convolutions of them.

    f_t = sigmoid(A'_t relu(A'_t X_t W_0) W_1)                  with L layers, relu between them
    u_t = sigmoid([f_t, h_{t-1}] W_u + b_u)
    r_t = sigmoid([f_t, h_{t-1}] W_r + b_r)
    c_t = tanh([f_t, r_t * h_{t-1}] W_c + b_c)
    h_t = u_t * h_{t-1} + (1 - u_t) * c_t

No graph is between h_{t-1} and h_t, so f_t W + b of all gates is computed before the recurrence, for each snapshot by
itself, and a node's states depend on no other node's.
"""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn

from trainer.base.traffic_log import Clock
from trainer.models.plan import Plan, zeros
from trainer.sparse.dense import dense
from trainer.temporal.snapshots.graphs import SnapshotGraph, product
from trainer.temporal.snapshots.recurrence import Recurrence, grown


class TGcn(Recurrence):
    """All layers of the graph convolution, and the GRU."""

    matrices: ClassVar[tuple[str, ...]] = ("gcn",)

    def __init__(self, plan: Plan, *, num_layers: int) -> None:
        super().__init__()
        self.width = plan.hidden
        widths = [plan.num_features] + [plan.hidden] * num_layers
        self.weights_FG = nn.ParameterList(plan.weight(width_in, width_out) for width_in, width_out in pairwise(widths))
        self.gates_FG = plan.weight(plan.hidden, 3 * plan.hidden)
        self.bias_G = zeros(3 * plan.hidden)
        self.update_reset_GG = plan.weight(plan.hidden, 2 * plan.hidden)
        self.candidate_GG = plan.weight(plan.hidden, plan.hidden)

    def kept_values(self, num_nodes: int) -> int:
        width_in = self.weights_FG[0].shape[0]
        return num_nodes * int(2 * width_in + (2 * len(self.weights_FG) + 12) * self.width)

    def before(self, graph: SnapshotGraph, rows_nF: Tensor, clock: Clock, /) -> Tensor:
        for number, weight_FG in enumerate(self.weights_FG, start=1):
            summed_nG = dense(product(graph.gcn, rows_nF, clock), weight_FG, clock)
            rows_nF = summed_nG.sigmoid() if number == len(self.weights_FG) else summed_nG.relu()
        return dense(rows_nF, self.gates_FG, clock) + self.bias_G

    def step(self, inputs: Tensor, state: Tensor, _before: SnapshotGraph | None, clock: Clock, /) -> Tensor:
        state_nG = grown(state, len(inputs))
        of_gates, of_candidate = torch.split(inputs, [2 * self.width, self.width], dim=1)
        update_nG, reset_nG = (of_gates + dense(state_nG, self.update_reset_GG, clock)).sigmoid().chunk(2, dim=1)
        candidate_nG = torch.tanh(of_candidate + dense(reset_nG * state_nG, self.candidate_GG, clock))
        return torch.lerp(candidate_nG, state_nG, update_nG)

    def after(self, _graph: SnapshotGraph, _rows_nF: Tensor, state: Tensor, _clock: Clock, /) -> Tensor:
        return state
