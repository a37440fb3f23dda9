"""Which rows travel between this rank and its peers: a lane is one direction of an exchange.

    boundary    forward, rank p sends rank q the V[p,q] rows that q has edges from; backward, q returns one partial sum
                for each of them
    broadcast   forward, rank p sends every peer its whole block of n rows, the way of CAGNET and SANCUS; backward, q
                returns a whole block of partial sums, most of them 0 where parts are good

A lane only lays out: it packs what leaves, says how many rows go to and come from each peer, and unpacks what has
arrived. Whether rows are sent at all, and in what form, is not its business, so all of that works for both.

The owner's sum of what comes back is a sparse product (with the 0/1 matrix that places returned rows) in the boundary
lanes, because a row may come back from several peers, and a product adds in a fixed order on CPU and GPU alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.data.part import Csr, Part
from trainer.dist.communicator import Communicator
from trainer.sparse.adjacency import Matrix, transposed


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRoute:
    """One direction. Peers are in the order of `Communicator.peers` everywhere."""

    pack: Callable[[Tensor], Tensor]
    """From the rows that are to travel to those that leave, each once."""
    departing: Sequence[int]
    """Rows for each peer; consecutive ones of what leaves, unless `to_all`."""
    to_all: bool
    """Whether every peer gets all that leaves."""
    arriving: Sequence[int]
    """Rows from each peer."""
    unpack: Callable[[Tensor], Tensor]
    """From all that arrived, peer after peer: forward the halo's rows [H, F], backward the sums [n, F] for own rows."""
    rows_R: Tensor | None = None
    """Backward, the own row that each of those that arrive is for, if no two are for the same one."""

    def pieces(self, leaving: Tensor) -> list[Tensor]:
        """What leaves, by peer."""
        return [leaving] * len(self.departing) if self.to_all else _split(leaving, self.departing)

    def add_to(self, arrived: Tensor, sums_nF: Tensor) -> None:
        """Add what `unpack` makes of it to `sums_nF`; with rows of one peer no other [n, F] is made."""
        if self.rows_R is None:
            sums_nF += self.unpack(arrived)
        else:
            sums_nF.index_add_(0, self.rows_R, arrived.to(sums_nF.dtype))

    def places(self, arrived: Tensor) -> list[Tensor]:
        """What arrives, by peer."""
        return _split(arrived, self.arriving)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRoutes:
    """Both directions of an exchange."""

    forward: RowRoute
    backward: RowRoute


def boundary(part: Part, communicator: Communicator, *, to: Collection[int], of: Collection[int]) -> RowRoutes:
    """The lanes of the rows that a peer needs.

    Args:
        part: this rank's.
        communicator: the ranks of the run.
        to: the peers that get rows, and return gradients; the others get none.
        of: the peers whose rows come.
    """
    sent = [len(part.send_rows[peer]) if peer in to else 0 for peer in communicator.peers]
    received = [part.halo_rows(peer) if peer in of else 0 for peer in communicator.peers]
    rows_R = sent_rows(part, communicator, to)
    picks = Csr(
        indptr=torch.arange(len(rows_R) + 1, dtype=rows_R.dtype),
        indices=rows_R,
        weights=None,
        num_columns=part.num_rows,
    )
    place, rows_R = Matrix(transposed(picks), communicator.device), rows_R.to(communicator.device)
    return RowRoutes(
        forward=RowRoute(
            pack=lambda rows_nF: rows_nF.index_select(0, rows_R),
            departing=sent,
            to_all=False,
            arriving=received,
            unpack=lambda halo_HF: halo_HF,
        ),
        backward=RowRoute(
            pack=lambda partial_HF: partial_HF,
            departing=received,
            to_all=False,
            arriving=sent,
            unpack=lambda returned_RF: place @ returned_RF,
            rows_R=rows_R if len(to) == 1 else None,
        ),
    )


def thinned(routes: RowRoutes, kept_R: Tensor, kept_H: Tensor) -> RowRoutes:
    """Boundary lanes on which only some rows travel: the others arrive as zeros.

    Args:
        lanes: of all rows.
        kept_R: bool, which of the rows that leave go at all.
        kept_H: bool, which of the rows that should arrive are sent.
    """
    going_K, coming_M = kept_R.nonzero().squeeze(1), kept_H.nonzero().squeeze(1)
    sent = [int(piece.sum()) for piece in _split(kept_R, routes.forward.departing)]
    received = [int(piece.sum()) for piece in _split(kept_H, routes.forward.arriving)]

    def spread(rows_KF: Tensor, places_K: Tensor, number: int) -> Tensor:
        return rows_KF.new_zeros(number, rows_KF.shape[1]).index_copy_(0, places_K, rows_KF)

    return RowRoutes(
        forward=RowRoute(
            pack=lambda rows_nF: routes.forward.pack(rows_nF).index_select(0, going_K),
            departing=sent,
            to_all=False,
            arriving=received,
            unpack=lambda rows_MF: spread(rows_MF, coming_M, len(kept_H)),
        ),
        backward=RowRoute(
            pack=lambda partial_HF: partial_HF.index_select(0, coming_M),
            departing=received,
            to_all=False,
            arriving=sent,
            unpack=lambda rows_KF: routes.backward.unpack(spread(rows_KF, going_K, len(kept_R))),
            rows_R=None if routes.backward.rows_R is None else routes.backward.rows_R[going_K],
        ),
    )


def broadcast(part: Part, communicator: Communicator) -> RowRoutes:
    """The lanes of whole blocks. The ranks tell each other which rows of a block are a halo's; all have to call it."""
    blocks = [facts["rows"] for facts in communicator.all_gather_object({"rows": part.num_rows})]
    theirs = [blocks[peer] for peer in communicator.peers]
    rows_H = torch.empty(
        sum(part.halo_rows(peer) for peer in communicator.peers), dtype=torch.int64, device=communicator.device
    )
    places = _split(rows_H, [part.halo_rows(peer) for peer in communicator.peers])
    communicator.exchange(
        {peer: part.send_rows[peer].to(communicator.device, torch.int64) for peer in communicator.peers},
        dict(zip(communicator.peers, places, strict=True)),
        purpose="preparation",
    ).wait()
    first = 0
    for place, rows in zip(places, theirs, strict=True):
        place += first
        first += rows

    def blocks_of(partial_HF: Tensor) -> Tensor:
        return partial_HF.new_zeros(first, partial_HF.shape[1]).index_copy_(0, rows_H, partial_HF)

    own = [part.num_rows] * len(communicator.peers)
    return RowRoutes(
        forward=RowRoute(
            pack=lambda rows_nF: rows_nF.contiguous(),
            departing=own,
            to_all=True,
            arriving=theirs,
            unpack=lambda blocks_MF: blocks_MF.index_select(0, rows_H),
        ),
        backward=RowRoute(
            pack=blocks_of,
            departing=theirs,
            to_all=False,
            arriving=own,
            unpack=lambda returned: returned.view(len(own), part.num_rows, returned.shape[1]).sum(
                0, dtype=torch.float32
            ),
        ),
    )


def sent_rows(part: Part, communicator: Communicator, to: Collection[int]) -> Tensor:
    """The local rows that each of the peers `to` needs, peer after peer: [R]."""
    return torch.cat(
        [torch.empty(0, dtype=part.local.indices.dtype), *(part.send_rows[p] for p in communicator.peers if p in to)]
    )


def _split(rows: Tensor, counts: Sequence[int]) -> list[Tensor]:
    return list(torch.split(rows, list(counts))) if counts else []
