"""Rows from their owners to the ranks that need them, and the gradients of those rows back.

An exchange is two lanes (which rows go where) with a courier each (whether they go in this epoch, and in what form).
The aggregation sees neither: it asks for the halo's rows, and gives back partial sums for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from trainer.accounting import Account, Direction
from trainer.courier import Courier, Delivery
from trainer.errors import CacheError
from trainer.lanes import Lane, boundary, broadcast, sent_rows
from trainer.options import Options
from trainer.part import Part
from trainer.passes import Pass
from trainer.policies import policy
from trainer.precision import TYPES
from trainer.ranks import Ranks
from trainer.wire import wire

_LANES = {"boundary": boundary, "broadcast": broadcast}


class Exchange:
    """How a rank gets the rows of its halo. Every rank calls the same methods in the same order."""

    def __init__(self, options: Options, part: Part, ranks: Ranks, account: Account) -> None:
        """Lay the lanes; every rank has to call it, when the ranks are connected."""
        self.num_halo = sum(part.halo_rows(peer) for peer in ranks.peers)
        lanes = _LANES[options.exchange](part, ranks)
        form = wire(options.wire, TYPES[options.precision], ranks.device, seed=options.seed * 100_003 + ranks.rank)

        def courier(lane: Lane, direction: Direction, policy_text: str) -> Courier:
            return Courier(
                lane,
                direction,
                policy=policy(policy_text),
                wire=form,
                error_feedback=options.error_feedback,
                ranks=ranks,
                account=account,
            )

        self._forward = courier(lanes.forward, "forward", options.staleness)
        self._backward = courier(lanes.backward, "backward", options.staleness_grad)
        # torch's own annotations do not cover `unique`.
        self._needed_rows = sent_rows(part, ranks).unique().to(ranks.device)  # type: ignore[no-untyped-call]

    def watches(self, step: Pass) -> bool:
        """Whether the pass asks how much the rows of the forward direction have changed."""
        return self._forward.watches(step)

    def fetch(self, rows_nF: Tensor, layer: int, step: Pass, before_dropout_nF: Tensor | None = None) -> Delivery:
        """Give out this rank's rows [n, F] and get the halo's [H, F], of this epoch or an earlier one.

        Args:
            rows_nF: what peers compute with.
            layer: 2 .. L.
            step: the pass.
            before_dropout_nF: what the rows would be without dropout, if they have been through it: what their change
                is measured on.
        """
        values_nF = rows_nF if before_dropout_nF is None else before_dropout_nF
        return self._forward.send(rows_nF, layer, step, lambda: values_nF.index_select(0, self._needed_rows))

    def give_back(self, partial_HF: Tensor, layer: int, step: Pass) -> Delivery:
        """Return partial sums for the halo's rows [H, F], and get the sums [n, F] of those for this rank's own rows."""
        return self._backward.send(partial_HF, layer, step)

    def fetch_constant(self, rows_nF: Tensor, *, layer: int) -> Tensor:
        """The halo's rows [H, F] of something that never changes, as they are stored; layer 0 is the preparation."""
        return self._forward.send_all(rows_nF, layer, "forward" if layer else "setup").wait()

    def skip_constant(self, rows_nF: Tensor, *, layer: int) -> None:
        """Book a pass that needed rows that never change, and so sent none."""
        self._forward.book_skipped(rows_nF, layer)


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
