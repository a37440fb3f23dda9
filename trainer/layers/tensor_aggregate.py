"""Tensor-parallel neighbour sums, with gradients: every rank sums all N rows of its own share of the columns.

    forward     rows [n, F] -> all N rows of F/P columns -> their sums over the whole graph -> own sums [n, F]
    backward    the same with the transpose

Every rank has the matrix of the whole graph, and moves 2 n F (P - 1) / P values a sum in place of its halo's rows. That
is less where the graph has no small cut. NeutronTP (Ai et al. 2025) splits features in this way too; it moves the sums
of all layers together, before or after all dense products, which is another model. Here each layer keeps its place, so
the losses are those of every other exchange, and each layer may have the exchange that is faster for its width.

Dropout comes first, at the owner. The rows of a sum are rounded once for the wire, and its results once more.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from trainer.base.pass_context import PassContext
from trainer.base.traffic_log import Direction
from trainer.data.part import Part
from trainer.data.whole_graph import WholeGraph
from trainer.exchange.tensor_exchange import TensorExchange
from trainer.sparse.adjacency import Matrix, TwoWay
from trainer.sparse.dropout import Mask
from trainer.sparse.normalise import weighted


class TensorAggregation:
    """The sums of the layers that are tensor-parallel."""

    def __init__(
        self, graph: WholeGraph, part: Part, exchange: TensorExchange, *, sums: str, layers: Container[int]
    ) -> None:
        """Weigh the edges.

        Args:
            graph: all edges; they may be let go of afterwards.
            part: this rank's.
            exchange: between rows and columns.
            sums: what edges count in a sum, `gcn`, `mean` or `sum`.
            layers: which layers are tensor-parallel.
        """
        self.layers, self._exchange = layers, exchange
        self._row_counts, self._sum_counts = graph.row_counts, graph.sum_counts
        as_one_part = replace(part, local=graph.edges, remote={}, degree_n=graph.degree_M)
        edges, _ = weighted(sums, as_one_part, lambda _: torch.empty(0))
        self._matrix = TwoWay.of(edges, partial(Matrix, device=exchange.communicator.device))

    def __call__(self, rows_nF: Tensor, layer: int, context: PassContext, mask: Mask | None) -> Tensor:
        """As `Aggregation.__call__`."""
        return cast(Tensor, _TensorSum.apply(rows_nF, self, layer, context, mask))  # type: ignore[no-untyped-call]

    def product(self, rows: Tensor, layer: int, direction: Direction, context: PassContext) -> Tensor:
        """This rank's rows of the product with the matrix, or with its transpose, in the type of `rows`."""
        matrix, counts_in, counts_out = self._matrix.forward, self._row_counts, self._sum_counts
        if direction == "backward":
            matrix, counts_in, counts_out = self._matrix.backward, counts_out, counts_in
        all_rows = self._exchange.to_columns(rows, counts_in, layer, direction, context)
        with self._exchange.communicator.clock("whole product"):
            sums = (matrix @ all_rows).to(rows.dtype)
        del all_rows
        return self._exchange.to_rows(sums, counts_out, layer, direction, context, width=rows.shape[1])


class _TensorSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows_nF: Tensor, aggregation: TensorAggregation, layer: int, context: PassContext, mask: Mask | None
    ) -> Tensor:
        ctx.aggregation, ctx.layer, ctx.context, ctx.mask = aggregation, layer, context, mask
        dropped_nF = rows_nF if mask is None else mask.own(rows_nF)
        return aggregation.product(dropped_nF, layer, "forward", context)

    @staticmethod
    def backward(ctx: Any, grad_nF: Tensor) -> tuple[Tensor | None, ...]:
        own_nF = ctx.aggregation.product(grad_nF.contiguous(), ctx.layer, "backward", ctx.context)
        if ctx.mask is not None:
            own_nF = ctx.mask.own(own_nF)
        return own_nF, None, None, None, None
