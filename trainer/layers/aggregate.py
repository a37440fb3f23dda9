"""What a part's rows get from their in-neighbours on all ranks, as a function of its own rows, with gradients.

A sum is H' = A_local D(H) + A_halo D(H_halo), D being dropout. Forward, the halo's rows travel while the local product
runs; backward, the halo's partial sums A_halo^T G travel back to their owners while A_local^T G runs. Where the rows
come in several rounds, those of the next round travel while this round's are summed, and are freed after that; a sum's
backward pass needs no rows, so none come twice.

Rows travel before dropout, and so do their gradients: both ends know the mask of every row, so a copy of any age is
dropped anew in each epoch. The gradient of a stale row goes back to its owner as if the row were current. Under
boundary sampling rows that are not kept are zeros here, and the others count 1/P times, as do their gradients. The
matrices are constants: no gradient is ever made for their entries. Sums are in fp32, and are stored in the type of the
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from trainer.base.errors import TrainingError, found_by_every_rank
from trainer.base.pass_context import PassContext
from trainer.base.traffic_log import Clock
from trainer.data.part import Part
from trainer.data.typed import RelationSums
from trainer.dist.communicator import Communicator
from trainer.exchange.exchange import Exchange, Round
from trainer.exchange.halo_exchange import PendingRows
from trainer.sparse.adjacency import Adjacency, Block
from trainer.sparse.dropout import Mask
from trainer.sparse.edges import Edges
from trainer.sparse.normalise import weighted

Watched = Callable[[], Tensor]
"""Makes what the change of rows is measured on: those that some peer needs, without dropout."""


class Aggregation:
    """The in-edges of one part, in the forms that models use them in."""

    def __init__(self, part: Part, exchange: Exchange, communicator: Communicator, *, sums: str | None) -> None:
        """Weigh the edges; every rank has to call it.

        Args:
            part: whose edges.
            exchange: brings the halo's rows.
            communicator: the ranks of the run.
            sums: what edges count in a sum, `gcn`, `mean` or `sum`; None where the model sums nothing.
        """
        self.exchange, self.clock, self.num_rows = exchange, communicator.clock, part.num_rows
        self.sums = sums
        self._part, self._device = part, communicator.device
        self.relations: Sequence[RelationSums] | None = None
        """What each sum is of, where relations are told apart."""
        if part.typed is not None:
            self.relations = [
                replace(relation, rows_m=relation.rows_m.to(communicator.device)) for relation in part.typed.relations
            ]
        self._edges: dict[bool, Edges] = {}
        if sums is not None:

            def halo_column(column_n: Tensor) -> Tensor:
                return exchange.fetch_constant(column_n.to(communicator.device).unsqueeze(1), layer=0).squeeze(1).cpu()

            blocks = weighted(sums, part, halo_column)
            self.adjacency = Adjacency.of(*blocks, exchange.sources, communicator.device)

    def edges(self, *, with_loops: bool) -> Edges:
        """The edges as patterns, made when first asked for."""
        if with_loops not in self._edges:
            found = Edges.of(self._part, self.exchange.sources, self._device, with_loops=with_loops)
            self._edges[with_loops] = found
        return self._edges[with_loops]

    def __call__(
        self,
        rows_nF: Tensor,
        layer: int,
        step: PassContext,
        *,
        mask: Mask | None = None,
        before_dropout_RF: Watched | None = None,
    ) -> Tensor:
        """Sum over in-neighbours on all ranks: [n, F] to [n, F], or [M, F] where relations are told apart.

        Args:
            rows_nF: this part's rows.
            layer: whose copies are meant and where bytes are booked.
            step: the pass.
            mask: what is dropped of the rows, here and in the halo.
            before_dropout_RF: for rows that have been through dropout already; None for those that have not.
        """
        self._need_sums()
        watched = before_dropout_RF or (lambda: self.exchange.needed(rows_nF))
        return cast(Tensor, _Summed.apply(rows_nF, self, layer, step, mask, watched))  # type: ignore[no-untyped-call]

    def of_kept(self, rows_nF: Tensor, halo_HF: Tensor) -> Tensor:
        """The same sum where the halo's rows are here already: nothing travels, forward or backward."""
        self._need_sums()
        return cast(Tensor, _OfKept.apply(rows_nF, halo_HF, self))  # type: ignore[no-untyped-call]

    def _need_sums(self) -> None:
        if self.sums is None:
            with found_by_every_rank():
                raise TrainingError(
                    "the model asks for neighbour sums and does not say what edges count in them; give its class "
                    "sums = 'gcn', 'mean' or 'sum'"
                )


def in_turn(
    rounds: list[Round], fetch: Callable[[Round], PendingRows]
) -> Iterator[tuple[int, Round, Callable[[], Tensor]]]:
    """Every round with its number and a call that waits for its rows, and starts to fetch the next round's.

    The first round's are on their way when this has given out its first item, so there is something to do before the
    call. A caller that lets go of a round's rows before the next call holds those of two rounds at most.
    """
    arriving: list[PendingRows] = [fetch(rounds[0])]

    def rows_of(number: int) -> Tensor:
        rows = arriving.pop().wait()
        if number + 1 < len(rounds):
            arriving.append(fetch(rounds[number + 1]))
        return rows

    for number, one in enumerate(rounds):
        yield number, one, lambda number=number: rows_of(number)  # type: ignore[misc]


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows_nF: Tensor,
        aggregation: Aggregation,
        layer: int,
        step: PassContext,
        mask: Mask | None,
        watched: Watched,
    ) -> Tensor:
        ctx.aggregation, ctx.layer, ctx.step, ctx.mask = aggregation, layer, step, mask
        adjacency, clock = aggregation.adjacency, aggregation.clock

        def fetch(one: Round) -> PendingRows:
            return one.fetch(rows_nF, layer, step, before_dropout_RF=watched)

        sums_nF = rows_nF.new_empty(0)
        for number, one, rows_of_round in in_turn(aggregation.exchange.rounds, fetch):
            if not number:
                with clock("local product"):
                    sums_nF = adjacency.local.forward @ (rows_nF if mask is None else mask.own(rows_nF))
            halo_HF = rows_of_round()
            sample = one.sample(layer, step)
            with clock("halo product"):
                if sample is not None:
                    halo_HF *= sample.factor
                adjacency.halo[number].forward.add_product(
                    halo_HF if mask is None else mask.halo(halo_HF, one.columns), sums_nF
                )
            del halo_HF
        return sums_nF.to(rows_nF.dtype)

    @staticmethod
    def backward(ctx: Any, grad_nF: Tensor) -> tuple[Tensor | None, ...]:
        aggregation: Aggregation = ctx.aggregation
        adjacency, clock = aggregation.adjacency, aggregation.clock
        grad_nF = grad_nF.contiguous()
        own_nF = grad_nF.new_empty(0)
        returning: PendingRows | None = None
        for number, one in enumerate(aggregation.exchange.rounds):
            sample = one.sample(ctx.layer, ctx.step)
            with clock("halo product"):
                partial_HF = (adjacency.halo[number].backward @ grad_nF).to(grad_nF.dtype)
                if sample is not None:
                    partial_HF *= sample.factor
            if returning is not None:
                returning.add_to(own_nF)
            returning = one.give_back(partial_HF, ctx.layer, ctx.step)
            del partial_HF
            if not number:
                with clock("local product"):
                    own_nF = adjacency.local.backward @ grad_nF
        if returning is not None:
            returning.add_to(own_nF)
        if ctx.mask is not None:
            own_nF = ctx.mask.own(own_nF)
        return own_nF.to(grad_nF.dtype), None, None, None, None, None


class _OfKept(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows_nF: Tensor, halo_HF: Tensor, aggregation: Aggregation) -> Tensor:
        ctx.aggregation = aggregation
        with aggregation.clock("local product"):
            sums_nF = aggregation.adjacency.local.forward @ rows_nF
        with aggregation.clock("halo product"):
            aggregation.adjacency.halo[0].forward.add_product(halo_HF, sums_nF)
        return sums_nF.to(rows_nF.dtype)

    @staticmethod
    def backward(ctx: Any, grad_nF: Tensor) -> tuple[Tensor | None, ...]:
        grad_nF = grad_nF.contiguous()
        adjacency, clock = ctx.aggregation.adjacency, ctx.aggregation.clock
        return (
            _gradient(adjacency.local, grad_nF, clock, "local product") if ctx.needs_input_grad[0] else None,
            _gradient(adjacency.halo[0], grad_nF, clock, "halo product") if ctx.needs_input_grad[1] else None,
            None,
        )


def _gradient(block: Block, grad_nF: Tensor, clock: Clock, activity: str) -> Tensor:
    with clock(activity):
        return (block.backward @ grad_nF).to(grad_nF.dtype)
