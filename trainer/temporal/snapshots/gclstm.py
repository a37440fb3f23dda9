"""GC-LSTM (Chen et al. 2018): an LSTM over the snapshots whose state goes through graph convolutions.

    C_K(L, h) = sum over j = 0 .. K of T_j(L) h O_j              T_j: Chebyshev polynomials, L = -D^-1/2 A D^-1/2
    f_t = sigmoid(A_t W_f + C_f(L_{t-1}, h_{t-1}) + b_f)         i_t and o_t likewise
    c_t = f_t * C_c(L_{t-1}, c_{t-1}) + i_t * tanh(A_t W_g + C_g(L_{t-1}, h_{t-1}) + b_g)
    h_t = o_t * tanh(c_t)

A_t has 1 for every edge. Its weights W, a row for each node in the paper, are X_t U here, with learnt rows X where
nodes have no features. The scaled Laplacian L takes 2 for the largest eigenvalue. The convolution C_c of the cell's
state begins as the identity, so that the first model is an LSTM.

The state of each node depends on its neighbours', so the recurrence has one piece.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from trainer.base.traffic_log import Clock
from trainer.models.plan import Plan, zeros
from trainer.sparse.dense import dense
from trainer.temporal.snapshots.graphs import SnapshotGraph, product
from trainer.temporal.snapshots.recurrence import Recurrence, grown


class GcLstm(Recurrence):
    """The LSTM; its state is h and c side by side."""

    has_pieces: ClassVar[bool] = False
    matrices: ClassVar[tuple[str, ...]] = ("pattern", "normalised")

    def __init__(self, plan: Plan, *, order: int) -> None:
        """Draw the first weights.

        Args:
            plan: of the run.
            order: K, how many hops a convolution reaches.
        """
        super().__init__()
        self._hidden, self.width, self._order = plan.hidden, 2 * plan.hidden, order
        self.input_FG = plan.weight(plan.num_features, 4 * plan.hidden)
        self.bias_G = zeros(4 * plan.hidden)
        self.hidden_GG = plan.weight((order + 1) * plan.hidden, 4 * plan.hidden)
        self.cell_GG = nn.Parameter(torch.eye((order + 1) * plan.hidden, plan.hidden))

    def kept_values(self, num_nodes: int) -> int:
        return num_nodes * (2 * len(self.input_FG) + (15 + 3 * self._order) * self._hidden)

    def before(self, graph: SnapshotGraph, rows_nF: Tensor, clock: Clock, /) -> Tensor:
        return dense(product(graph.pattern, rows_nF, clock), self.input_FG, clock) + self.bias_G

    def step(self, inputs: Tensor, state: Tensor, graph_before: SnapshotGraph | None, clock: Clock, /) -> Tensor:
        gates_nG, cell_nG = inputs, inputs.new_zeros(len(inputs), self._hidden)
        if graph_before is not None:
            terms = self._terms(state, graph_before, clock)
            hidden, cell = (
                torch.cat([term[:, side : side + self._hidden] for term in terms], dim=1) for side in (0, self._hidden)
            )
            gates_nG = gates_nG + grown(dense(hidden, self.hidden_GG, clock), len(inputs))
            cell_nG = grown(dense(cell, self.cell_GG, clock), len(inputs))
        forget_nG, input_nG, output_nG, new_nG = gates_nG.chunk(4, dim=1)
        cell_nG = forget_nG.sigmoid() * cell_nG + input_nG.sigmoid() * new_nG.tanh()
        return torch.cat([output_nG.sigmoid() * cell_nG.tanh(), cell_nG], dim=1)

    def _terms(self, state: Tensor, graph: SnapshotGraph, clock: Clock) -> list[Tensor]:
        """T_j(L) [h, c] for j = 0 .. K."""
        terms = [state]
        for number in range(1, self._order + 1):
            summed = -product(graph.normalised, terms[-1], clock)
            terms.append(summed if number == 1 else 2 * summed - terms[-2])
        return terms

    def after(self, _graph: SnapshotGraph, _rows_nF: Tensor, state: Tensor, _clock: Clock, /) -> Tensor:
        return state[:, : self._hidden]
