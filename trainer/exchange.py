"""Rows from their owners to the ranks that need them, and the gradients of those rows back.

The boundary exchange sends a peer the rows that it has edges from, and nothing else: V[p,q] rows from p to q. Backward
runs the same pairs the other way: a rank returns one partial sum for each row that it had received, and the owner adds
them up. The owner's sum is a sparse product (with the 0/1 matrix that places returned rows), because a row may come
back from several peers, and a product adds in a fixed order on CPU and GPU alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from trainer.accounting import Account, Direction
from trainer.adjacency import Matrix, transposed
from trainer.errors import CacheError
from trainer.part import Csr, Part
from trainer.ranks import Ranks, Swap


class Arriving(Protocol):
    """Rows that were asked for and may still be on their way."""

    def wait(self) -> Tensor:
        """The rows, when they are here; to be called once."""


class Returning(Protocol):
    """Partial sums on their way back to the owners of the rows."""

    def add_to(self, sums_nF: Tensor) -> None:
        """Add what came back to this rank's own rows, float32 [n, F], when it is here; to be called once."""


class Exchange(Protocol):
    """How a rank gets the rows of its halo. Every rank calls the same methods in the same order."""

    @property
    def num_halo(self) -> int:
        """H, the rows that a fetch returns."""

    def fetch(self, rows_nF: Tensor, layer: int, direction: Direction = "forward") -> Arriving:
        """Give out this rank's rows, float32 [n, F], and get the halo's [H, F]; booked on `layer`."""

    def skip(self, layer: int, width: int) -> None:
        """Book a fetch that a kept copy made unnecessary."""

    def give_back(self, partial_HF: Tensor, layer: int) -> Returning:
        """Return partial sums for the halo rows, float32 [H, F], and get those for this rank's own rows."""


class _Halo:
    """Halo rows that arrive in one swap."""

    def __init__(self, swap: Swap, halo_HF: Tensor) -> None:
        self._swap, self._halo_HF = swap, halo_HF

    def wait(self) -> Tensor:
        self._swap.wait()
        return self._halo_HF


class _Returned:
    """Partial sums that come back in one swap, one row for each row that was sent."""

    def __init__(self, swap: Swap, returned_RF: Tensor, place: Matrix) -> None:
        self._swap, self._returned_RF, self._place = swap, returned_RF, place

    def add_to(self, sums_nF: Tensor) -> None:
        self._swap.wait()
        self._place.add_product(self._returned_RF, sums_nF)


class BoundaryExchange:
    """The exact exchange, point to point: only the rows that a peer needs."""

    def __init__(self, part: Part, ranks: Ranks, account: Account) -> None:
        self._ranks, self._account = ranks, account
        self._sent = [len(part.send_rows[peer]) for peer in ranks.peers]
        self._received = [part.halo_rows(peer) for peer in ranks.peers]
        self.num_sent, self.num_halo = sum(self._sent), sum(self._received)
        rows_R = torch.cat([part.send_rows[peer] for peer in ranks.peers]) if ranks.peers else torch.empty(0).long()
        picks = Csr(
            indptr=torch.arange(len(rows_R) + 1, dtype=rows_R.dtype),
            indices=rows_R,
            weights=None,
            num_columns=part.num_rows,
        )
        self._rows_R = rows_R.to(ranks.device)
        self._place = Matrix(transposed(picks), ranks.device)

    def fetch(self, rows_nF: Tensor, layer: int, direction: Direction = "forward") -> Arriving:
        width = rows_nF.shape[1]
        self._account.book(layer, direction, rows=self.num_sent, width=width)
        halo_HF = rows_nF.new_empty(self.num_halo, width)
        outgoing_RF = rows_nF.index_select(0, self._rows_R)
        swap = self._ranks.swap(self._by_peer(outgoing_RF, self._sent), self._by_peer(halo_HF, self._received))
        return _Halo(swap, halo_HF)

    def skip(self, layer: int, width: int) -> None:
        self._account.book(layer, "forward", rows=self.num_sent, width=width, skipped=True)

    def give_back(self, partial_HF: Tensor, layer: int) -> Returning:
        width = partial_HF.shape[1]
        self._account.book(layer, "backward", rows=self.num_halo, width=width)
        returned_RF = partial_HF.new_empty(self.num_sent, width)
        outgoing = self._by_peer(partial_HF.contiguous(), self._received)
        swap = self._ranks.swap(outgoing, self._by_peer(returned_RF, self._sent))
        return _Returned(swap, returned_RF, self._place)

    def _by_peer(self, rows: Tensor, counts: Sequence[int]) -> dict[int, Tensor]:
        return dict(zip(self._ranks.peers, torch.split(rows, list(counts)), strict=True)) if counts else {}


def boundary_counts(part: Part) -> dict[str, dict[str, int]]:
    """How many rows this part sends to and expects from each peer, as facts for `check_boundaries`."""
    return {
        "sends": {str(peer): len(rows) for peer, rows in part.send_rows.items()},
        "expects": {str(peer): part.halo_rows(peer) for peer in part.remote},
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
