"""Sums a part's rows over their in-neighbours on all ranks, with gradients.

A sum is H' = A_local D(H) + A_halo D(H_halo), D being dropout. Forward, the halo's rows travel while the local product
runs; backward, the halo's partial sums A_halo^T G travel back to their owners while A_local^T G runs. Where the rows
come in several rounds, those of the next round travel while this round's are summed, and are freed after that; a sum's
backward pass needs no rows, so none are fetched twice.

Rows are sent before dropout, and so are their gradients: both ends know the mask of every row, so a copy of any age is
dropped anew in each epoch. The gradient of a stale row goes back to its owner as if the row were current. Under
boundary sampling rows that are not kept are zeros here, and the others count 1/P times, as do their gradients. The
matrices are constants: no gradient is ever made for their entries. Sums are in fp32, and are stored in the type of the
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

import torch
from torch import Tensor

from trainer.base.errors import TrainingError, found_by_every_rank
from trainer.base.pass_context import PassContext
from trainer.data.csr import Csr, add, hstack
from trainer.data.part import Part
from trainer.data.typed import RelationSums
from trainer.dist.communicator import Communicator
from trainer.exchange.exchange import Exchange, Round
from trainer.exchange.halo_exchange import ComparedRows, PendingRows
from trainer.layers.tensor_aggregate import TensorAggregation
from trainer.sparse.adjacency import InEdges, Matrix
from trainer.sparse.dropout import Mask
from trainer.sparse.edges import EdgeBlocks
from trainer.sparse.normalise import (
    Blocks,
    edge_feature_maxima,
    edge_feature_sums,
    loop_features,
    missing_loops,
    weighted,
)
from trainer.sparse.relation_edges import RelationEdges, relation_edges


class Aggregation:
    """The in-edges of one part, in the forms that models use them in."""

    def __init__(
        self,
        part: Part,
        exchange: Exchange,
        communicator: Communicator,
        *,
        sums: str | None,
        tensor: TensorAggregation | None = None,
        weighted_edges: Blocks | None = None,
        weighs_messages: bool = False,
    ) -> None:
        """Weigh the edges; every rank has to call it.

        Args:
            part: whose edges.
            exchange: fetches the halo's rows.
            communicator: the ranks of the run.
            sums: what edges count in a sum, `gcn`, `mean` or `sum`; None where the model sums nothing.
            tensor: the sums of tensor-parallel layers; None where there is none.
            weighted_edges: the edges as they count in a sum, where that is known already.
            weighs_messages: whether the weights of the part's edges are what messages count.
        """
        device = communicator.device
        self.exchange, self.clock, self.num_rows = exchange, communicator.clock, part.num_rows
        self.sums, self.tensor = sums, tensor
        self._part, self._device, self._weighs_messages = part, device, weighs_messages
        self.relations: Sequence[RelationSums] | None = None
        """What each sum is of, where relations are distinguished."""
        if part.typed is not None:
            self.relations = [replace(relation, rows_m=relation.rows_m.to(device)) for relation in part.typed.relations]
        self._patterns: dict[tuple[bool, bool], InEdges[EdgeBlocks]] = {}
        self._relation_edges: dict[tuple[tuple[bool, ...], bool], RelationEdges] = {}
        self._edge_sums_nD: Tensor | None = None
        if sums is not None:

            def halo_column(column_n: Tensor) -> Tensor:
                return exchange.fetch_constant(column_n.to(device).unsqueeze(1), layer=0).squeeze(1).cpu()

            local, remote = weighted_edges or weighted(sums, part, halo_column)
            if part.num_edge_features:
                self._edge_sums_nD = edge_feature_sums([local, *remote.values()]).to(device)
                local, remote = _without_features(local, remote)
            self.adjacency = InEdges.of(local, remote, exchange.sources, partial(Matrix, device=device))

    @property
    def type_rows(self) -> Sequence[slice]:
        """Which of the rows are those of each node type."""
        typed = self._part.typed
        return [slice(0, self.num_rows)] if typed is None else [of.rows for of in typed.types]

    @property
    def num_edges(self) -> int:
        return sum(block.num_edges for block in (self._part.local, *self._part.remote.values()))

    @property
    def num_edge_features(self) -> int:
        """D, 0 where edges have none that the run reads."""
        return self._part.num_edge_features

    def check_edge_features(self) -> None:
        """Refuse a weight for features of edges where the run reads none.

        Raises:
            TrainingError: it reads none.
        """
        if not self.num_edge_features:
            with found_by_every_rank():
                raise TrainingError(
                    "the model gives a weight for features of edges and the run reads none; name them by "
                    "--edge-features"
                )

    @property
    def edge_sums_nD(self) -> Tensor:
        """A F: the features of a node's in-edges, summed as neighbours' rows are; a self-loop that GCN adds has 0."""
        self.check_edge_features()
        self._check_sums()
        assert self._edge_sums_nD is not None
        return self._edge_sums_nD

    @cached_property
    def edge_maxima_nD(self) -> Tensor:
        """The greatest of the features of a node's in-edges, feature by feature; 0 where there are none."""
        self.check_edge_features()
        return edge_feature_maxima([self._part.local, *self._part.remote.values()]).to(self._device)

    def patterns(self, *, with_loops: bool, with_features: bool) -> InEdges[EdgeBlocks]:
        """The edges without weights, but for those of messages; made when first used.

        Args:
            with_loops: whether each node that has no self-loop gets one.
            with_features: whether their features are read.
        """
        key = with_loops, with_features
        if key not in self._patterns:
            local, remote = self._part.local, dict(self._part.remote)
            if with_loops or not self._weighs_messages:
                local, remote = local.pattern(), {peer: block.pattern() for peer, block in remote.items()}
            if not with_features:
                local, remote = _without_features(local, remote)
            if with_loops:
                loops, needs_loop_n = missing_loops(local)
                if local.features is not None:
                    loops = replace(loops, features=loop_features(needs_loop_n, [local, *remote.values()]))
                local = add(local, loops)
            self._patterns[key] = InEdges.of(
                local,
                remote,
                self.exchange.sources,
                lambda csr: EdgeBlocks(csr.to(self._device)),
            )
        return self._patterns[key]

    def relation_edges(self, used: tuple[bool, ...], *, by_node: bool) -> RelationEdges:
        """The edges of some relations, where relations are distinguished, made when first used.

        Args:
            used: for each relation whether its edges count.
            by_node: whether there is a row for each node, or one for each destination of each relation.
        """
        if (used, by_node) not in self._relation_edges:
            part = self._part
            assert part.typed is not None
            sums = hstack([block.pattern() for block in (part.local, *part.remote.values())], part.local.num_rows)
            num_nodes = part.num_rows if by_node else None
            self._relation_edges[used, by_node] = relation_edges(
                sums, part.typed.relations, used, num_nodes=num_nodes, device=self._device
            )
        return self._relation_edges[used, by_node]

    def __call__(
        self,
        rows_nF: Tensor,
        layer: int,
        context: PassContext,
        *,
        mask: Mask | None = None,
        compared: ComparedRows | None = None,
    ) -> Tensor:
        """Sum over in-neighbours on all ranks: [n, F] to [n, F], or [M, F] where relations are distinguished.

        Args:
            rows_nF: this part's rows.
            layer: whose copies are used and under which bytes are recorded.
            context: the pass.
            mask: what is dropped of the rows, here and in the halo.
            compared: the rows that some peer needs without dropout, for rows that have been through it already; None
                for those that have not.
        """
        self._check_sums()
        if self.tensor is not None and layer in self.tensor.layers:
            return self.tensor(rows_nF, self.adjacency.local, layer, context, mask)
        compared = compared or (lambda: self.exchange.needed(rows_nF))
        return cast(Tensor, _Sum.apply(rows_nF, self, layer, context, mask, compared))  # type: ignore[no-untyped-call]

    def with_halo(self, rows_nF: Tensor, halo_HF: Tensor) -> Tensor:
        """The same sum where the halo's rows are here already: nothing is sent, forward or backward."""
        self._check_sums()
        return cast(Tensor, _SumWithHalo.apply(rows_nF, halo_HF, self))  # type: ignore[no-untyped-call]

    def _check_sums(self) -> None:
        if self.sums is None:
            with found_by_every_rank():
                raise TrainingError(
                    "the model asks for neighbour sums and does not say what edges count in them; give its class "
                    "sums = 'gcn', 'mean' or 'sum'"
                )


def _without_features(local: Csr, remote: dict[int, Csr]) -> tuple[Csr, dict[int, Csr]]:
    return replace(local, features=None), {peer: replace(block, features=None) for peer, block in remote.items()}


def fetch_rounds(
    rounds: list[Round], fetch: Callable[[Round], PendingRows]
) -> Iterator[tuple[int, Round, Callable[[], Tensor]]]:
    """Every round with its number and a call that waits for its rows, and starts to fetch the next round's.

    The first round's rows are on their way when the first item is given out, so there is something to compute before
    the call. A caller that drops a round's rows before the next call keeps those of two rounds at most.
    """
    pending: list[PendingRows] = [fetch(rounds[0])]

    def wait(number: int) -> Tensor:
        rows = pending.pop().wait()
        if number + 1 < len(rounds):
            pending.append(fetch(rounds[number + 1]))
        return rows

    for number, one in enumerate(rounds):
        yield number, one, partial(wait, number)


@dataclass(slots=True)
class ReturningGradients:
    """Sends the gradients of the halo's rows back to their owners round after round, and adds up those received.

    A round's are added when the next round's are sent, so that they travel while those are computed.
    """

    layer: int
    context: PassContext
    _pending: PendingRows | None = None

    def send(self, one: Round, partial_HF: Tensor, own_nF: Callable[[], Tensor]) -> None:
        """Send the partial sums of one round; `own_nF` gives the sums to which the round before is added."""
        self.add_to(own_nF)
        self._pending = one.send_back(partial_HF, self.layer, self.context)

    def add_to(self, own_nF: Callable[[], Tensor]) -> None:
        """Add what is still on its way."""
        if self._pending is not None:
            self._pending.add_to(own_nF())
            self._pending = None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows_nF: Tensor,
        aggregation: Aggregation,
        layer: int,
        context: PassContext,
        mask: Mask | None,
        compared: ComparedRows,
    ) -> Tensor:
        ctx.aggregation, ctx.layer, ctx.context, ctx.mask = aggregation, layer, context, mask
        adjacency, clock = aggregation.adjacency, aggregation.clock

        def fetch(one: Round) -> PendingRows:
            return one.fetch(rows_nF, layer, context, compared=compared)

        sums_nF = rows_nF.new_empty(0)
        for number, one, wait in fetch_rounds(aggregation.exchange.rounds, fetch):
            if not number:
                with clock("local product"):
                    sums_nF = adjacency.local.forward @ (rows_nF if mask is None else mask.own(rows_nF))
            halo_HF = wait()
            sample = one.sample(layer, context)
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
        returning = ReturningGradients(ctx.layer, ctx.context)

        def own_sums() -> Tensor:
            return own_nF

        for number, one in enumerate(aggregation.exchange.rounds):
            sample = one.sample(ctx.layer, ctx.context)
            with clock("halo product"):
                partial_HF = (adjacency.halo[number].backward @ grad_nF).to(grad_nF.dtype)
                if sample is not None:
                    partial_HF *= sample.factor
            returning.send(one, partial_HF, own_sums)
            del partial_HF
            if not number:
                with clock("local product"):
                    own_nF = adjacency.local.backward @ grad_nF
        returning.add_to(own_sums)
        if ctx.mask is not None:
            own_nF = ctx.mask.own(own_nF)
        return own_nF.to(grad_nF.dtype), None, None, None, None, None


class _SumWithHalo(torch.autograd.Function):
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
        adjacency, grads, grad_nF = ctx.aggregation.adjacency, list[Tensor | None](), grad_nF.contiguous()
        for number, name, edges in ((0, "local product", adjacency.local), (1, "halo product", adjacency.halo[0])):
            with ctx.aggregation.clock(name):
                is_needed = ctx.needs_input_grad[number]
                grads.append((edges.backward @ grad_nF).to(grad_nF.dtype) if is_needed else None)
        return *grads, None
