"""Rows from their owners to the ranks that need them, and the gradients of those rows back.

An exchange is made in rounds. A round is two lanes (which rows go where) with a courier each (whether they go in this
epoch, and in what form). `boundary` and `broadcast` have one round, with all peers; `sequential` has one a peer: in
round s each rank sends to the rank s places after it and gets the rows of the one s places before, so that no rank
ever holds the rows of more than two peers (the next one's travel while one's are summed). The aggregation asks round
after round for rows of the halo, and gives back partial sums for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

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
from trainer.exchange.halo_exchange import HaloExchange, PendingRows
from trainer.exchange.row_routes import RowRoutes, boundary, broadcast, sent_rows, thinned
from trainer.exchange.sampling import Sample, Sampling
from trainer.exchange.saturation import Saturation
from trainer.exchange.wire import Int8, wire
from trainer.sparse.feature_rows import DenseRows, FeatureRows, SparseRows


class Round:
    """The rows of some peers. Every rank calls the same methods of the same rounds in the same order."""

    def __init__(
        self,
        routes: RowRoutes,
        forward: HaloExchange,
        backward: HaloExchange,
        *,
        sampling: Sampling,
        columns: slice,
        is_first: bool,
    ) -> None:
        self._routes, self._forward, self._backward = routes, forward, backward
        self._sampling, self._is_first = sampling, is_first
        self.columns = columns
        """Which rows of the halo come in this round; halo rows are counted peer after peer."""

    def fetch(
        self,
        rows_nF: Tensor,
        layer: int,
        step: PassContext,
        *,
        before_dropout_RF: Callable[[], Tensor] | None = None,
        again: bool = False,
    ) -> PendingRows:
        """Give out this rank's rows [n, F] and get those of this round's peers, of this epoch or an earlier one.

        Args:
            rows_nF: what peers compute with.
            layer: whose copies are meant and where bytes are booked.
            step: the pass.
            before_dropout_RF: makes what the change of the rows is measured on.
            again: whether they have come before in this pass, and were not kept.
        """
        return self._forward.send(
            rows_nF,
            layer,
            step,
            before_dropout_RF,
            route=self._sampled(layer, step).forward,
            begins=self._is_first and not again,
        )

    def give_back(self, partial_HF: Tensor, layer: int, step: PassContext) -> PendingRows:
        """Return partial sums for the rows of this round, and get the sums [n, F] of those for this rank's own rows."""
        route = self._sampled(layer, step).backward
        return self._backward.send(partial_HF, layer, step, route=route, begins=self._is_first)

    def fetch_all(self, rows_nF: Tensor, layer: int) -> PendingRows:
        """The rows of this round's peers as they are stored, and in full."""
        return self._forward.send_all(rows_nF, layer, "forward" if layer else "setup", begins=self._is_first)

    def fetch_entries(self, rows: SparseRows, layer: int) -> SparseRows:
        """The same of rows that are held by their entries, when they are here."""
        return self._forward.send_entries(rows, layer, "forward", begins=self._is_first)

    def skip(self, width: int, layer: int) -> None:
        """Book a pass in which no row [`width`] was sent, since the receivers hold what never changes."""
        self._forward.record_skipped(width, layer, begins=self._is_first)

    def sample(self, layer: int, step: PassContext) -> Sample | None:
        """Which rows `layer` keeps in the pass `step`; None for all of them."""
        return self._sampling.draw(layer, step)

    def _sampled(self, layer: int, step: PassContext) -> RowRoutes:
        sample = self.sample(layer, step)
        return self._routes if sample is None else thinned(self._routes, sample.sent_R, sample.halo_H)


class Exchange:
    """How a rank gets the rows of its halo. Every rank calls the same methods in the same order."""

    def __init__(
        self,
        options: Options,
        part: Part,
        communicator: Communicator,
        traffic_log: TrafficLog,
        saturation: Saturation | None = None,
    ) -> None:
        """Lay the lanes; every rank has to call it, when the ranks are connected."""
        self.num_halo = sum(part.halo_rows(peer) for peer in communicator.peers)
        self.is_sequential = options.exchange == "sequential"
        form, of_gradients = (
            wire(
                options.wire,
                TYPES[options.precision],
                communicator.device,
                seed=options.seed * 100_003 + communicator.rank,
                clamps=clamps,
            )
            for clamps in (True, False)
        )
        if isinstance(form, Int8):
            of_gradients = form  # one stream of draws
        first_of, first = {}, 0
        for peer in communicator.peers:
            first_of[peer] = first
            first += part.halo_rows(peer)

        def halo_exchange(routes: RowRoutes, direction: Direction, policy_text: str) -> HaloExchange:
            return HaloExchange(
                routes.forward if direction == "forward" else routes.backward,
                direction,
                policy=policy(policy_text),
                wire=form if direction == "forward" else of_gradients,
                error_feedback=options.error_feedback,
                communicator=communicator,
                traffic_log=traffic_log,
                saturation=saturation,
            )

        def whole_round(to: Collection[int], of: Collection[int], *, is_first: bool) -> Round:
            sampling = Sampling(
                options.boundary_sampling,
                part.ids_n[sent_rows(part, communicator, to).long()].to(communicator.device),
                torch.cat([part.ids_n[:0], *(part.halo_ids[peer] for peer in communicator.peers if peer in of)]).to(
                    communicator.device
                ),
                seed=options.seed,
            )
            routes = (
                broadcast(part, communicator)
                if options.exchange == "broadcast"
                else boundary(part, communicator, to=to, of=of)
            )
            begin = min((first_of[peer] for peer in of), default=0)
            return Round(
                routes,
                halo_exchange(routes, "forward", options.staleness),
                halo_exchange(routes, "backward", options.staleness_grad),
                sampling=sampling,
                columns=slice(begin, begin + sum(part.halo_rows(peer) for peer in of)),
                is_first=is_first,
            )

        self.sources: list[list[int]]
        """The peers whose rows come, by round."""
        if self.is_sequential and communicator.peers:
            steps = range(1, communicator.world)
            self.sources = [[(communicator.rank - step) % communicator.world] for step in steps]
            destinations = [[(communicator.rank + step) % communicator.world] for step in steps]
        else:
            self.sources, destinations = [communicator.peers], [communicator.peers]
        self.rounds = [
            whole_round(to, of, is_first=not number)
            for number, (to, of) in enumerate(zip(destinations, self.sources, strict=True))
        ]
        self._watches = policy(options.staleness).watches
        # torch's own annotations do not cover `unique`.
        self._needed_rows = sent_rows(part, communicator, communicator.peers).unique().to(communicator.device)  # type: ignore[no-untyped-call]

    def watches(self, step: PassContext) -> bool:
        """Whether the pass asks how much the rows of the forward direction have changed."""
        return step.training and self._watches

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
        """The same of layer 1's, in the form of this rank's own."""
        if isinstance(own, DenseRows):
            return DenseRows(self.fetch_constant(own.rows_nF, layer=1))
        [one] = self.rounds  # a sequential exchange has features dense
        return one.fetch_entries(own, layer=1)

    def skip_constant(self, width: int, *, layer: int) -> None:
        """Book a pass that needed rows [`width`] that never change, and so sent none."""
        for one in self.rounds:
            one.skip(width, layer)


def boundary_counts(part: Part) -> dict[str, dict[str, int]]:
    """How many rows this part sends to and expects from each peer, as facts for `check_boundaries`."""
    return {
        "sends": {str(peer): len(rows) for peer, rows in part.send_rows.items()},
        "expects": {str(peer): part.halo_rows(peer) for peer in part.remote},
    }


def exchanged(part: Part) -> dict[str, int]:
    """How many rows this part has, sends and needs, by the names of the accounts."""
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
