"""The input of one layer of a batch: its own rows, and those of the nodes that its hop has added, which are here too.

Letters: n nodes that the layer computes, H those that its hop has added.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.base.errors import TrainingError, found_by_every_rank
from trainer.layers.attention import Attention
from trainer.layers.inputs import Hidden, Projected, with_edge_maxima, with_edge_sums
from trainer.layers.maximum import maximum_with_halo
from trainer.layers.messages import MessageSums
from trainer.sparse.dense import dense


@dataclass(slots=True, kw_only=True)
class RowsOfBatch(Hidden):
    """The input of one layer: `rows_nF` and `halo_HF` after dropout."""

    halo_HF: Tensor | None = None
    """None after the last hop, where a layer has its own rows alone"""

    def aggregate(self, weight_FG: Tensor | None = None, *, edge_weight: Tensor | None = None) -> Tensor:
        return with_edge_sums(self._aggregate(weight_FG), self.aggregation, edge_weight)

    def _aggregate(self, weight_FG: Tensor | None) -> Tensor:
        """The sums of rows alone."""
        aggregation, halo_HF = self.aggregation, self._halo()
        if weight_FG is None:
            return self._sums()
        num_rows, num_edges = len(self.rows_nF) + len(halo_HF), aggregation.num_edges
        if weight_FG.shape[1] < weight_FG.shape[0] and num_rows * weight_FG.shape[1] < num_edges:
            own_nG, halo_HG = (dense(rows, weight_FG, aggregation.clock) for rows in (self.rows_nF, halo_HF))
            return aggregation.with_halo(own_nG, halo_HG)
        # There are more rows to multiply before the sum than after it, mostly by far.
        return dense(self._sums(), weight_FG, aggregation.clock)

    def with_halo(self) -> Tensor:
        return torch.cat([self.rows_nF, self._halo()])

    def maximum(self, weight_FG: Tensor | None = None, *, edge_weight: Tensor | None = None) -> Tensor:
        self._check_pattern()
        max_nF = maximum_with_halo(self.rows_nF, self._halo(), self.aggregation)
        return with_edge_maxima(max_nF, weight_FG, self.aggregation, edge_weight)

    def messages(self, edge_weight: Tensor, bias_F: Tensor, weight_FG: Tensor | None = None) -> Tensor:
        if self.aggregation.sums is not None:
            with found_by_every_rank():
                raise TrainingError(
                    "with --batch-size a model that sums messages makes no other sums; leave 'sums' out of its class, "
                    "or leave --batch-size out"
                )
        of_pass = MessageSums(
            aggregation=self.aggregation, layer=self.layer, context=self.context, has_constant_halo=True
        )
        sums_nF = of_pass(self.rows_nF, self._halo(), edge_weight, bias_F).to(self.rows_nF.dtype)
        return sums_nF if weight_FG is None else dense(sums_nF, weight_FG, self.aggregation.clock)

    def project(self, weight_FG: Tensor) -> Projected:
        self._check_pattern()
        halo_HF, clock = self._halo(), self.aggregation.clock

        def attention(share: float) -> Attention:
            edge_mask = self.dropout.of_edges(share, self.layer, self.context)
            return Attention(aggregation=self.aggregation, layer=self.layer, context=self.context, edge_mask=edge_mask)

        return Projected(dense(self.rows_nF, weight_FG, clock), attention, dense(halo_HF, weight_FG, clock))

    def _sums(self) -> Tensor:
        return self.aggregation.with_halo(self.rows_nF, self._halo())

    def _check_pattern(self) -> None:
        """Refuse edges without weights where self-loops are among them that are only for sums."""
        if self.aggregation.sums == "gcn":
            with found_by_every_rank():
                raise TrainingError(
                    "with --batch-size a model whose sums are 'gcn' has neither maxima nor attention; give its class "
                    "sums = 'mean' or 'sum', or leave --batch-size out"
                )

    def _halo(self) -> Tensor:
        if self.halo_HF is None:
            with found_by_every_rank():
                raise TrainingError(
                    f"layer {self.layer} of the model reads in-neighbours, and --fanouts are for the "
                    f"{self.layer - 1} before it; give --layers and --fanouts for each layer that does"
                )
        return self.halo_HF
