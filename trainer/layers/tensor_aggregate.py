"""Tensor-parallel neighbour sums: every rank sums its share of the columns over all edges between parts.

    forward     own rows that peers need [s, F] -> all such rows, F/P columns -> their sums -> own sums [t, F]
    backward    the same with the transpose

Edges inside a part need no peer: the owner sums over them while rows travel, all columns at once, and adds both sums.
So a sum moves (s + t) F (P - 1) / P values a rank, where boundary moves a row once to each peer that needs it. That is
less where most of these rows are needed by more than two peers: where the graph has no small cut.

NeutronTP (Ai et al. 2025) splits features over ranks too. It has every rank sum over all edges, and takes the dense
products of all layers out of the sums, before or after them, so that columns are exchanged once an epoch; that is
another model. Here every layer keeps its place and only edges between parts are summed by columns, so the losses are
those of every other exchange, and each layer may have the exchange that is faster for its width.

Dropout comes first, at the owner. Rows are rounded for the wire before the sum, and sums after it.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from trainer.base.pass_context import PassContext
from trainer.base.traffic_log import Direction
from trainer.data.cross_edges import CrossEdges
from trainer.data.csr import select
from trainer.data.part import Part
from trainer.exchange.tensor_exchange import TensorExchange
from trainer.sparse.adjacency import Matrix, TwoWay
from trainer.sparse.dropout import Mask
from trainer.sparse.normalise import row_factor, weighted_cross_edges


@dataclass(frozen=True, slots=True)
class _SharedRows:
    """The rows of all parts at one end of an edge between parts."""

    counts: Sequence[int]
    """Of each part"""
    own: Tensor
    """int64: which of this rank's rows"""

    @classmethod
    def of(cls, is_shared: Tensor, row_counts: Sequence[int], rank: int, device: torch.device) -> _SharedRows:
        """From a bool a row of all parts."""
        by_part = torch.split(is_shared, list(row_counts))
        return cls([int(of_part.sum()) for of_part in by_part], by_part[rank].nonzero().squeeze(1).to(device))


class TensorAggregation:
    """The sums of the layers that are tensor-parallel."""

    def __init__(
        self, graph: CrossEdges, part: Part, exchange: TensorExchange, *, sums: str, layers: Container[int]
    ) -> None:
        """Weigh the edges; every rank has to call it.

        Args:
            graph: the edges between parts; they may be let go of afterwards.
            part: this rank's.
            exchange: between rows and columns.
            sums: what edges count in a sum, `gcn`, `mean` or `sum`.
            layers: which layers are tensor-parallel.
        """
        self.layers, self._exchange = layers, exchange
        communicator, factor_M = exchange.communicator, row_factor(sums, part)
        if factor_M is not None:
            factor_M = communicator.all_gather_rows(factor_M, graph.sum_counts).cpu()
        edges = weighted_cross_edges(sums, graph.edges, factor_M)
        has_edges_M = edges.indptr.diff() > 0
        is_needed_N = torch.bincount(edges.indices, minlength=edges.num_columns) > 0
        place = communicator.rank, communicator.device
        self._sums = _SharedRows.of(has_edges_M, graph.sum_counts, *place)
        self._rows = _SharedRows.of(is_needed_N, graph.row_counts, *place)
        self._cross = TwoWay.of(select(edges, has_edges_M, is_needed_N), partial(Matrix, device=communicator.device))

    def __call__(
        self, rows_nF: Tensor, local: TwoWay[Matrix], layer: int, context: PassContext, mask: Mask | None
    ) -> Tensor:
        """As `Aggregation.__call__`, with the edges inside the part."""
        arguments = (rows_nF, self, local, layer, context, mask)
        return cast(Tensor, _TensorSum.apply(*arguments))  # type: ignore[no-untyped-call]

    def product(
        self, rows: Tensor, local: TwoWay[Matrix], layer: int, direction: Direction, context: PassContext
    ) -> Tensor:
        """This rank's rows of the product with the matrix of all edges, or with its transpose: float32."""
        exchange, clock, width = self._exchange, self._exchange.communicator.clock, rows.shape[1]
        of_part, of_cross, sent, summed = local.forward, self._cross.forward, self._rows, self._sums
        if direction == "backward":
            of_part, of_cross, sent, summed = local.backward, self._cross.backward, summed, sent
        pending = exchange.to_columns(rows.index_select(0, sent.own), sent.counts, layer, direction, context)
        with clock("local product"):
            sums = of_part @ rows
        columns = pending.wait()
        with clock("cross product"):
            cross = (of_cross @ columns).to(rows.dtype)
        del columns, pending
        returned = exchange.to_rows(cross, summed.counts, layer, direction, context, width=width).wait()
        # No row is there twice, so the order of additions is fixed.
        return sums.index_add_(0, summed.own, returned.float())


class _TensorSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows_nF: Tensor,
        aggregation: TensorAggregation,
        local: TwoWay[Matrix],
        layer: int,
        context: PassContext,
        mask: Mask | None,
    ) -> Tensor:
        ctx.aggregation, ctx.local, ctx.layer, ctx.context, ctx.mask = aggregation, local, layer, context, mask
        dropped_nF = rows_nF if mask is None else mask.own(rows_nF)
        return aggregation.product(dropped_nF, local, layer, "forward", context).to(rows_nF.dtype)

    @staticmethod
    def backward(ctx: Any, grad_nF: Tensor) -> tuple[Tensor | None, ...]:
        own_nF = ctx.aggregation.product(grad_nF.contiguous(), ctx.local, ctx.layer, "backward", ctx.context)
        if ctx.mask is not None:
            own_nF = ctx.mask.own(own_nF)
        return own_nF.to(grad_nF.dtype), None, None, None, None, None
