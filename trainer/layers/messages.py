"""Sums of messages that depend on a neighbour's row and on the edge's features, with gradients (GINE).

    s_i = sum over in-edges of relu(D(h_j) + f_ij U + b)

(Hu et al. 2020, "Strategies for Pre-training Graph Neural Networks"; PyG's GINEConv), D being dropout. Weights of edges
do not count; of a mini-batch each drawn edge counts as many times as it stands for. The rows of the halo travel as they
do for a sum. A message has F values, so there are edges x F of them: they are made for some edges at a time, added up
and freed, and the backward pass makes them again in the order of the transpose. With one round the halo's rows are
still here then; with several they are fetched again.

Under boundary sampling the messages of kept rows weigh 1/P times, so their sum is unbiased.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from trainer.base.pass_context import PassContext
from trainer.exchange.exchange import Round
from trainer.exchange.halo_exchange import PendingRows
from trainer.layers.aggregate import Aggregation, ReturningGradients, fetch_rounds
from trainer.sparse.dropout import Mask
from trainer.sparse.edges import EdgeBlocks, RowBlock
from trainer.sparse.row_sums import weighted_row_sums

_VALUES = 1 << 19
"""Entries of edges x features that are made at a time: 2 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSums:
    """One layer's sums in one pass, apart from its tensors."""

    aggregation: Aggregation
    layer: int
    context: PassContext
    mask: Mask | None = None
    """What is dropped of the rows, here and in the halo."""
    has_constant_halo: bool = False
    """Whether the halo's rows are here for good, so that nothing is sent."""

    def __call__(self, rows_nF: Tensor, halo_HF: Tensor | None, edge_DF: Tensor, bias_F: Tensor) -> Tensor:
        """The sums: float32 [n, F].

        Args:
            rows_nF: this part's rows, before dropout.
            halo_HF: the halo's rows where they are here for good, after dropout; None to fetch them.
            edge_DF: what the features of an edge are multiplied by, float32.
            bias_F: float32.
        """
        self.aggregation.check_edge_features()
        return cast(Tensor, _Sums.apply(rows_nF, halo_HF, edge_DF, bias_F, self))  # type: ignore[no-untyped-call]

    def own(self, rows_nF: Tensor) -> Tensor:
        """This part's rows after dropout."""
        return rows_nF if self.mask is None else self.mask.own(rows_nF)

    def rounds(
        self, rows_nF: Tensor, halo_HF: Tensor | None, *, again: bool = False
    ) -> Iterator[tuple[int, Tensor | None, Callable[[], Tensor]]]:
        """Each round's number, the weights of its rows under boundary sampling, and a call that waits for the rows
        after dropout; `halo_HF` where they are here."""
        aggregation = self.aggregation

        def fetch(one: Round) -> PendingRows:
            return one.fetch(
                rows_nF, self.layer, self.context, compared=lambda: aggregation.exchange.needed(rows_nF), again=again
            )

        if halo_HF is not None:
            yield 0, self._weights(aggregation.exchange.rounds[0]), lambda: halo_HF
            return
        for number, one, wait in fetch_rounds(aggregation.exchange.rounds, fetch):
            yield number, self._weights(one), partial(self._arrived, wait, one.columns)

    def _arrived(self, wait: Callable[[], Tensor], columns: slice) -> Tensor:
        rows_HF = wait()
        return rows_HF if self.mask is None else self.mask.halo(rows_HF, columns)

    def _weights(self, one: Round) -> Tensor | None:
        sample = None if self.has_constant_halo else one.sample(self.layer, self.context)
        return None if sample is None else sample.weights()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Messages:
    """relu(h_j + f_ij U + b) of some edges at a time."""

    edge_DF: Tensor
    bias_F: Tensor

    def add_sums(self, edges: EdgeBlocks, rows_CF: Tensor, weight_C: Tensor | None, sums_nF: Tensor) -> None:
        """Add the sums over the edges of each destination, which are the rows of `edges`."""
        for block, chunk, rows in self._chunks(edges):
            source_b = block.column_B[chunk]
            message_bF = self._before_relu(block, chunk, rows_CF, source_b).relu_()
            weight_b = _weights(block, chunk, source_b, weight_C)
            sums_nF[block.rows][rows] += _row_sums(block, chunk, rows, weight_b, message_bF)

    def add_gradients(
        self, edges: EdgeBlocks, rows_CF: Tensor, weight_C: Tensor | None, grad_nF: Tensor, grad_CF: Tensor
    ) -> Tensor:
        """Add the gradient of the sources' rows, which are the rows of `edges`; returns that of U from these edges."""
        edge_grad_DF = torch.zeros_like(self.edge_DF)
        for block, chunk, rows in self._chunks(edges):
            source_b = block.row_B[chunk]
            before_bF = self._before_relu(block, chunk, rows_CF, source_b)
            grad_bF = torch.ops.aten.threshold_backward(grad_nF.index_select(0, block.column_B[chunk]), before_bF, 0.0)
            weight_b = _weights(block, chunk, source_b, weight_C)
            if weight_b is not None:
                grad_bF *= weight_b.unsqueeze(1)
            grad_CF[block.rows][rows] += _row_sums(block, chunk, rows, None, grad_bF)
            assert block.features_BD is not None
            edge_grad_DF += _weighted(block.features_BD[chunk], grad_bF, block.indptr.dtype)
        return edge_grad_DF

    def _chunks(self, edges: EdgeBlocks) -> Iterator[tuple[RowBlock, slice, slice]]:
        """Some edges of one block, and the rows that they belong to, counted from the block's first."""
        max_edges = max(_VALUES // max(len(self.bias_F), 1), 1)
        if not edges.csr.indptr.is_cpu:
            # As many as there are rows on either side, so that there are few kernels to start.
            max_edges = max(max_edges, edges.num_rows, edges.num_columns)
        for block in edges.blocks(max_edges):
            for chunk, rows in block.chunks(max_edges):
                yield block, chunk, rows

    def _before_relu(self, block: RowBlock, chunk: slice, rows_CF: Tensor, source_b: Tensor) -> Tensor:
        assert block.features_BD is not None
        products_bF = torch.addmm(self.bias_F, block.features_BD[chunk], self.edge_DF)
        return products_bF.add_(rows_CF.index_select(0, source_b))


def _weights(block: RowBlock, chunk: slice, source_b: Tensor, weight_C: Tensor | None) -> Tensor | None:
    """What each edge of a chunk counts, by its own weight and its source's; None where all count 1."""
    of_edges = None if block.weight_B is None else block.weight_B[chunk]
    if weight_C is None:
        return of_edges
    of_sources = weight_C.index_select(0, source_b)
    return of_sources if of_edges is None else of_edges * of_sources


def _row_sums(block: RowBlock, chunk: slice, rows: slice, weight_b: Tensor | None, values_bF: Tensor) -> Tensor:
    """The sums of a chunk's values over each of its rows: float32 [rows, F]."""
    numbers_b = torch.arange(len(values_bF), dtype=block.indptr.dtype, device=block.indptr.device)
    return weighted_row_sums(block.indptr_of(chunk, rows), numbers_b, weight_b, values_bF)


def _weighted(features_bD: Tensor, values_bF: Tensor, index_type: torch.dtype) -> Tensor:
    """features^T values: [D, F]. A dense product of so few rows is cut up by threads, and its last bits depend on how
    many there are."""
    num_edges, num_features = features_bD.shape
    indptr = torch.arange(num_features + 1, dtype=index_type, device=values_bF.device) * num_edges
    numbers = torch.arange(num_edges, dtype=index_type, device=values_bF.device).repeat(num_features)
    return weighted_row_sums(indptr, numbers, features_bD.T.reshape(-1), values_bF)


class _Sums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows_nF: Tensor, halo_HF: Tensor | None, edge_DF: Tensor, bias_F: Tensor, of_pass: MessageSums
    ) -> Tensor:
        edges, clock = of_pass.aggregation.patterns(with_loops=False, with_features=True), of_pass.aggregation.clock
        messages = _Messages(edge_DF=edge_DF, bias_F=bias_F)
        sums_nF = torch.zeros(rows_nF.shape, device=rows_nF.device)
        for number, weight_H, wait in of_pass.rounds(rows_nF, halo_HF):
            if not number:
                with clock("local product"):
                    messages.add_sums(edges.local.forward, of_pass.own(rows_nF), None, sums_nF)
            arrived_HF = wait()
            with clock("halo product"):
                messages.add_sums(edges.halo[number].forward, arrived_HF, weight_H, sums_nF)
            if len(edges.halo) == 1:
                halo_HF = arrived_HF
            del arrived_HF
        ctx.of_pass = of_pass
        ctx.save_for_backward(rows_nF, halo_HF, edge_DF, bias_F)
        return sums_nF

    @staticmethod
    def backward(ctx: Any, grad_nF: Tensor) -> tuple[Tensor | None, ...]:
        rows_nF, halo_HF, edge_DF, bias_F = ctx.saved_tensors
        of_pass: MessageSums = ctx.of_pass
        aggregation, grad_nF = of_pass.aggregation, grad_nF.contiguous()
        edges, clock = aggregation.patterns(with_loops=False, with_features=True), aggregation.clock
        messages = _Messages(edge_DF=edge_DF, bias_F=bias_F)
        halo_grad_HF: Tensor | None = None
        own_nF = torch.zeros_like(grad_nF)
        returning = ReturningGradients(of_pass.layer, of_pass.context)
        edge_grad_DF, bias_grad_F = torch.zeros_like(edge_DF), torch.zeros_like(bias_F)
        for number, weight_H, wait in of_pass.rounds(rows_nF, halo_HF, again=True):
            arrived_HF = wait()
            with clock("halo product"):
                partial_HF = torch.zeros_like(arrived_HF, dtype=torch.float32)
                halo_edges = edges.halo[number].backward
                edge_grad_DF += messages.add_gradients(halo_edges, arrived_HF, weight_H, grad_nF, partial_HF)
                bias_grad_F += partial_HF.sum(0)
            del arrived_HF
            if of_pass.has_constant_halo:
                halo_grad_HF = partial_HF.to(rows_nF.dtype)
            else:
                one = aggregation.exchange.rounds[number]
                returning.send(one, partial_HF.to(rows_nF.dtype), lambda: own_nF)
            del partial_HF
        with clock("local product"):
            # Apart from what has arrived of other ranks, which is of their edges and not of these.
            local_nF = torch.zeros_like(grad_nF)
            edge_grad_DF += messages.add_gradients(edges.local.backward, of_pass.own(rows_nF), None, grad_nF, local_nF)
            bias_grad_F += local_nF.sum(0)
        own_nF += local_nF
        returning.add_to(lambda: own_nF)
        if of_pass.mask is not None:
            own_nF = of_pass.mask.own(own_nF)
        return own_nF.to(rows_nF.dtype), halo_grad_HF, edge_grad_DF, bias_grad_F, None
