"""Fetches the rows of the halo from their owners, and sends the gradients of those rows back.

An exchange is made in rounds. A round has two routes (which rows go where) and a halo exchange for each (whether they
are sent in this epoch, and in what form). `boundary` and `broadcast` have one round, with all peers; `sequential`
(SAR, Mostafa 2022) has one a peer: in round s each rank sends to rank + s and receives from rank - s, so that no rank
ever keeps the rows of more than two peers (the next one's travel while one's are summed). The aggregation fetches the
halo's rows round after round, and sends partial sums for them back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from trainer.base.errors import CacheError
from trainer.base.pass_context import PassContext
from trainer.base.precision import TYPES
from trainer.base.traffic_log import Direction, TrafficLog
from trainer.config.options import Options
from trainer.config.policies import policy
from trainer.data.part import Part
from trainer.dist.communicator import Communicator
from trainer.exchange.budgeted_exchange import BudgetedExchange
from trainer.exchange.error_budget import ErrorBudget
from trainer.exchange.halo_exchange import ComparedRows, HaloExchange, PendingRows
from trainer.exchange.relay_routes import relay_use
from trainer.exchange.row_routes import (
    RowRoutes,
    boundary_routes,
    broadcast_routes,
    relayed_routes,
    sampled_routes,
    sent_rows,
)
from trainer.exchange.sampling import Sample, Sampling
from trainer.exchange.saturation import Saturation
from trainer.exchange.wire import Int8, Wire, wire
from trainer.sparse.feature_rows import DenseRows, FeatureRows, SparseRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The rows of some peers. Every rank calls the same methods of the same rounds in the same order."""

    routes: RowRoutes
    forward: HaloExchange
    backward: HaloExchange
    sampling: Sampling
    columns: slice
    """Which rows of the halo come in this round; halo rows are counted peer after peer."""
    is_first: bool
    _sampled: dict[int, tuple[Sample, RowRoutes]] = field(default_factory=dict, init=False)
    """By layer the newest sample, and the routes of its rows"""

    def fetch(
        self,
        rows_nF: Tensor,
        layer: int,
        context: PassContext,
        *,
        compared: ComparedRows | None = None,
        again: bool = False,
    ) -> PendingRows:
        """Send this rank's rows [n, F] and get those of this round's peers, of this epoch or an earlier one.

        Args:
            rows_nF: what peers compute with.
            layer: whose copies are used and under which bytes are recorded.
            context: the pass.
            compared: the rows whose change decides whether to send; None for those that are sent.
            again: whether they were fetched before in this pass, and not kept.
        """
        route, begins = self._routes_of(layer, context).forward, self.is_first and not again
        return self.forward.exchange(rows_nF, layer, context, compared, route=route, begins=begins)

    def send_back(self, partial_HF: Tensor, layer: int, context: PassContext) -> PendingRows:
        """Send partial sums for the rows of this round to their owners, and get the sums [n, F] for own rows."""
        route = self._routes_of(layer, context).backward
        return self.backward.exchange(partial_HF, layer, context, route=route, begins=self.is_first)

    def fetch_all(self, rows_nF: Tensor, layer: int) -> PendingRows:
        """The rows of this round's peers as they are stored, and in full."""
        return self.forward.exchange_all(rows_nF, layer, "forward" if layer else "setup", begins=self.is_first)

    def fetch_sparse(self, rows: SparseRows, layer: int) -> SparseRows:
        """The same of sparse rows, when they are here."""
        return self.forward.exchange_sparse(rows, layer, "forward", begins=self.is_first)

    def record_skipped(self, width: int, layer: int) -> None:
        """Record a pass in which no row [`width`] was sent, since the receivers have what never changes."""
        self.forward.record_skipped(width, layer, begins=self.is_first)

    def sample(self, layer: int, context: PassContext) -> Sample | None:
        """Which rows `layer` keeps in the pass; None for all of them."""
        return self.sampling.sample(layer, context)

    def _routes_of(self, layer: int, context: PassContext) -> RowRoutes:
        sample = self.sample(layer, context)
        if sample is None:
            return self.routes
        made_of, routes = self._sampled.get(layer, (None, self.routes))
        if made_of is not sample:
            routes = sampled_routes(self.routes, sample.sent_R, sample.halo_H, sample.device)
            self._sampled[layer] = sample, routes
        return routes


class Exchange:
    """How a rank gets the rows of its halo. Every rank calls the same methods in the same order."""

    def __init__(
        self,
        options: Options,
        part: Part,
        communicator: Communicator,
        traffic_log: TrafficLog,
        saturation: Saturation | None = None,
        budget: ErrorBudget | None = None,
    ) -> None:
        """Set up the routes; every rank has to call it, when the process group is there."""
        peers, rank, world = communicator.peers, communicator.rank, communicator.world
        self.num_halo = sum(part.halo_rows(peer) for peer in peers)
        self.is_sequential = options.exchange == "sequential"
        forward_wire, backward_wire = (
            wire(
                options.wire,
                TYPES[options.precision],
                communicator.device,
                seed=options.seed * 100_003 + rank,
                clamps=clamps,
            )
            for clamps in (True, False)
        )
        if isinstance(forward_wire, Int8):
            backward_wire = forward_wire  # one stream of random numbers
        self.wires: Mapping[Direction, Wire] = {"forward": forward_wire, "backward": backward_wire}
        self.sources = destinations = [peers]
        """The peers whose rows come, by round."""
        if self.is_sequential and peers:
            self.sources = [[(rank - step) % world] for step in range(1, world)]
            destinations = [[(rank + step) % world] for step in range(1, world)]
        use = relay_use(options)

        def round_of(to: Collection[int], of: Collection[int], *, is_first: bool) -> Round:
            if options.exchange == "broadcast":
                routes = broadcast_routes(part, communicator)
            elif use.forward and part.relays is not None:
                routes = relayed_routes(part, communicator, part.relays, backward=use.backward)
            else:
                routes = boundary_routes(part, communicator, to=to, of=of)
            halo_ids = torch.cat([part.ids_n[:0], *(part.halo_ids[peer] for peer in peers if peer in of)])
            sent_ids = part.ids_n[sent_rows(part, communicator, to).long()]
            begin = sum(part.halo_rows(peer) for peer in peers if peer < min(of, default=0))
            exchange = partial(
                HaloExchange if budget is None else partial(BudgetedExchange, budget=budget),
                error_feedback=options.error_feedback,
                communicator=communicator,
                traffic_log=traffic_log,
                saturation=saturation,
            )
            return Round(
                routes=routes,
                forward=exchange(routes.forward, "forward", policy=policy(options.staleness), wire=forward_wire),
                backward=exchange(
                    routes.backward, "backward", policy=policy(options.staleness_grad), wire=backward_wire
                ),
                sampling=Sampling(
                    options.boundary_sampling, sent_ids, halo_ids, seed=options.seed, device=communicator.device
                ),
                columns=slice(begin, begin + len(halo_ids)),
                is_first=is_first,
            )

        self.rounds = [
            round_of(to, of, is_first=not number)
            for number, (to, of) in enumerate(zip(destinations, self.sources, strict=True))
        ]
        # torch's own annotations do not cover `unique`.
        self._needed_rows = sent_rows(part, communicator, peers).unique().to(communicator.device)  # type: ignore[no-untyped-call]

    def needed(self, rows_nF: Tensor) -> Tensor:
        """Those of this rank's rows that some peer needs, each once."""
        return rows_nF.index_select(0, self._needed_rows)

    def fetch_constant(self, rows_nF: Tensor, *, layer: int) -> Tensor:
        """The halo's rows [H, F] of something that never changes, as they are stored; layer 0 is the preparation."""
        if len(self.rounds) == 1:
            return self.rounds[0].fetch_all(rows_nF, layer).wait()
        halo_HF = rows_nF.new_empty(self.num_halo, rows_nF.shape[1])
        for one in self.rounds:
            halo_HF[one.columns] = one.fetch_all(rows_nF, layer).wait()
        return halo_HF

    def fetch_features(self, own: FeatureRows) -> FeatureRows:
        """The halo's features, in the form of this rank's own."""
        if isinstance(own, DenseRows):
            return DenseRows(self.fetch_constant(own.rows_nF, layer=1))
        [one] = self.rounds  # a sequential exchange has features dense
        return one.fetch_sparse(own, layer=1)

    def skip_constant(self, width: int, *, layer: int) -> None:
        """Record a pass that needed rows [`width`] that never change, and so sent none."""
        for one in self.rounds:
            one.record_skipped(width, layer)


def boundary_counts(part: Part) -> dict[str, dict[str, int]]:
    """How many rows this part sends to and expects from each peer, as JSON for `check_boundaries`."""
    return {
        "sends": {str(peer): len(rows) for peer, rows in part.send_rows.items()},
        "expects": {str(peer): part.halo_rows(peer) for peer in part.remote},
    }


def row_counts(part: Part) -> dict[str, int]:
    """How many rows this part has, sends and needs, by the names of the traffic log."""
    counts = boundary_counts(part)
    return {
        "num_rows": part.num_rows,
        "num_sent": sum(counts["sends"].values()),
        "num_halo": sum(counts["expects"].values()),
    }


def check_boundaries(counts: Sequence[Mapping[str, Mapping[str, int]]]) -> None:
    """Compare what each rank will send with what its peer expects, before one waits for the other for ever.

    Raises:
        CacheError: two parts disagree.
    """
    for p, of_p in enumerate(counts):
        for q, of_q in enumerate(counts):
            if p != q and of_p["sends"][str(q)] != of_q["expects"][str(p)]:
                raise CacheError(
                    f"part {p} sends {of_p['sends'][str(q)]} rows to part {q}, which expects "
                    f"{of_q['expects'][str(p)]}: the parts are not of one cache; copy the whole cache again"
                )
