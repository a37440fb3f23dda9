"""EvolveGCN (Pareja et al. 2020): graph convolutions whose weights a recurrent cell changes from snapshot to snapshot.

    H_t^(l+1) = relu(A'_t H_t^(l) W_t^(l))                       no relu after the last layer
    -O        W_t = LSTM(W_{t-1})                                input and hidden state are both W_{t-1}
    -H        W_t = GRU(summary(H_t^(l), columns of W)^T, W_{t-1})
    summary   of the rows X by p: the k rows with the largest y = X p / |p|, each times its tanh(y)

Both cells treat the columns of W alike: their weights are [F, F] and their biases [F, G]. Where fewer than k nodes have
occurred, the summary has rows of zeros.

The state is a weight, so a recurrence is a few small products, and the graph convolutions of all snapshots wait for it
alone.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from trainer.base.traffic_log import Clock
from trainer.models.plan import Plan
from trainer.sparse.dense import dense
from trainer.temporal.snapshots.graphs import SnapshotGraph, product
from trainer.temporal.snapshots.members import of_all_members
from trainer.temporal.snapshots.recurrence import Recurrence


class EvolvingLayer(Recurrence):
    """One graph convolution and the cell that changes its weight; which cell, its subclasses know."""

    has_pieces: ClassVar[bool] = False
    matrices: ClassVar[tuple[str, ...]] = ("gcn",)

    def __init__(self, plan: Plan, width_in: int, width_out: int, *, num_gates: int, is_last: bool) -> None:
        super().__init__()
        self._width_in, self._width_out, self._is_last = width_in, width_out, is_last
        self.width = width_out
        self.weight_FG = plan.weight(width_in, width_out)
        self.input_gFF = plan.weights(num_gates, width_in, width_in)
        self.hidden_gFF = plan.weights(num_gates, width_in, width_in)
        self.bias_gFG = nn.Parameter(torch.zeros(num_gates, width_in, width_out))

    def kept_values(self, num_nodes: int) -> int:
        of_cell = 4 * self.bias_gFG.numel()
        return num_nodes * (2 * self._width_in + self._width_out) + of_cell

    def state_rows(self, _num_nodes: int, /) -> int:
        return self._width_in

    def after(self, graph: SnapshotGraph, rows_nF: Tensor, state: Tensor, clock: Clock, /) -> Tensor:
        rows_nG = dense(product(graph.gcn, rows_nF, clock), state[:, : self._width_out], clock)
        return rows_nG if self._is_last else rows_nG.relu()


class EvolveByWeights(EvolvingLayer):
    """EvolveGCN-O; the state is the weight and the cell's state side by side."""

    def __init__(self, plan: Plan, width_in: int, width_out: int, *, is_last: bool) -> None:
        super().__init__(plan, width_in, width_out, num_gates=4, is_last=is_last)
        self.width = 2 * width_out

    def before(self, _graph: SnapshotGraph, rows_nF: Tensor, _clock: Clock, /) -> Tensor:
        return rows_nF.new_zeros(0)

    def first(self) -> Tensor:
        return torch.cat([self.weight_FG, torch.zeros_like(self.weight_FG)], dim=1)

    def step(self, _inputs: Tensor, state: Tensor, _before: SnapshotGraph | None, _clock: Clock, /) -> Tensor:
        weight_FG, cell_FG = state.chunk(2, dim=1)
        gates_gFG = (self.input_gFF + self.hidden_gFF) @ weight_FG + self.bias_gFG
        forget_FG, input_FG, output_FG = gates_gFG[:3].sigmoid()
        cell_FG = forget_FG * cell_FG + input_FG * gates_gFG[3].tanh()
        return torch.cat([output_FG * cell_FG.tanh(), cell_FG], dim=1)


class EvolveByRows(EvolvingLayer):
    """EvolveGCN-H; the state is the weight."""

    def __init__(self, plan: Plan, width_in: int, width_out: int, *, is_last: bool) -> None:
        super().__init__(plan, width_in, width_out, num_gates=3, is_last=is_last)
        self.score_F = nn.Parameter(plan.weight(width_in, 1).detach().squeeze(1))

    def before(self, graph: SnapshotGraph, rows_nF: Tensor, _clock: Clock, /) -> Tensor:
        score_n = rows_nF @ self.score_F / torch.linalg.vector_norm(self.score_F).clamp(min=1e-12)
        number = min(self._width_out, len(rows_nF))
        score_k, row_k = score_n.topk(number)
        chosen_kF = rows_nF[row_k]
        if graph.members is not None:  # the best of the best of each member; a missing row is zeros and comes last
            missing = self._width_out - number
            score_k = torch.nn.functional.pad(score_k, (0, missing), value=-torch.inf)
            chosen_kF = torch.nn.functional.pad(chosen_kF, (0, 0, 0, missing))
            joined = of_all_members(torch.cat([chosen_kF, score_k.unsqueeze(1)], dim=1), graph.members)
            score_k, row_k = joined[:, -1].topk(self._width_out)
            chosen_kF, number = joined[row_k, :-1], self._width_out
        summary_Fk = (chosen_kF * score_k.tanh().unsqueeze(1)).T
        return torch.nn.functional.pad(summary_Fk, (0, self._width_out - number))

    def first(self) -> Tensor:
        return self.weight_FG

    def step(self, inputs: Tensor, state: Tensor, _before: SnapshotGraph | None, _clock: Clock, /) -> Tensor:
        of_input_gFG = self.input_gFF @ inputs + self.bias_gFG
        update_FG, reset_FG = (of_input_gFG[:2] + self.hidden_gFF[:2] @ state).sigmoid()
        candidate_FG = (of_input_gFG[2] + self.hidden_gFF[2] @ (reset_FG * state)).tanh()
        return torch.lerp(state, candidate_FG, update_FG)
