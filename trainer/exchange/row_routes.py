"""Which rows travel between this rank and its peers: a route is one direction of an exchange.

    boundary    forward, rank p sends rank q the V[p,q] rows that q has edges from; backward, q returns one partial sum
                for each of them
    broadcast   forward, rank p sends every peer its whole block of n rows, as CAGNET (Tripathy et al. 2020) and SANCUS
                (Peng et al. 2022) do; backward, q returns a whole block of partial sums, most of them 0 where parts
                are good
    relayed     the rows of `boundary`, of which some are passed on by another rank that needs them (`relay_routes`)

A route packs the rows to send, says how many go to and come from each peer, and unpacks what was received. Whether rows
are sent at all in an epoch, and in what form, is decided in `trainer.exchange.halo_exchange`.

The owner's sum of the gradients that it receives is a sparse product (with the 0/1 matrix that maps received rows to
own rows) on the boundary routes, because a row may come back from several peers, and a product adds in a fixed order
on CPU and GPU alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trainer.base.to_device import to_device
from trainer.data.csr import Csr
from trainer.data.part import Part
from trainer.data.relays import PartRelays
from trainer.dist.communicator import Communicator
from trainer.exchange.relay_routes import RelayPlan
from trainer.sparse.adjacency import Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRoute:
    """One direction. Peers are in the order of `Communicator.peers` everywhere."""

    pack: Callable[[Tensor], Tensor]
    """From all rows to the send buffer: the rows that leave, each once."""
    picks_R: Tensor | None = None
    """The rows that leave, where `pack` selects them and does nothing else."""
    send_counts: Sequence[int]
    """Rows for each peer: consecutive ones of the send buffer, unless `to_all`."""
    to_all: bool = False
    """Whether every peer gets the whole send buffer."""
    recv_counts: Sequence[int]
    """Rows from each peer."""
    unpack: Callable[[Tensor], Tensor]
    """From the receive buffer, peer after peer: forward to the halo's rows [H, F], backward to sums [n, F] for own
    rows."""
    own_rows_R: Tensor | None = None
    """Backward, the own row that each received row is for, if no two are for the same one."""
    relays: RelayPlan | None = None
    """How rows of the halo arrive that do not come from their owners. Then forward the rows to send are those that this
    rank sends itself, and backward those received are for these."""
    without_relays: RowRoute | None = None
    """Forward, the same of all rows, each from its owner."""

    def split_sent(self, send_buffer: Tensor) -> list[Tensor]:
        """The send buffer by peer."""
        if self.to_all:
            return [send_buffer] * len(self.send_counts)
        return _split(send_buffer, self.send_counts)

    def split_received(self, recv_buffer: Tensor) -> list[Tensor]:
        """The receive buffer by peer."""
        return _split(recv_buffer, self.recv_counts)

    def add_to(self, recv_buffer: Tensor, sums_nF: Tensor) -> None:
        """Add what `unpack` makes of it to `sums_nF`; with rows of one peer no other [n, F] is made."""
        if self.own_rows_R is None:
            sums_nF += self.unpack(recv_buffer)
        else:
            sums_nF.index_add_(0, self.own_rows_R, recv_buffer.to(sums_nF.dtype))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRoutes:
    """Both directions of an exchange."""

    forward: RowRoute
    backward: RowRoute


def boundary_routes(part: Part, communicator: Communicator, *, to: Collection[int], of: Collection[int]) -> RowRoutes:
    """The routes of the rows that a peer needs, from their owners.

    Args:
        part: this rank's.
        communicator: the ranks of the run.
        to: the peers that get rows, and return gradients; the others get none.
        of: the peers whose rows come.
    """
    peers = communicator.peers
    sent = [len(part.send_rows[peer]) if peer in to else 0 for peer in peers]
    received = [part.halo_rows(peer) if peer in of else 0 for peer in peers]
    return _routes_of(part, communicator, sent_rows(part, communicator, to), sent, received, only_one=len(to) == 1)


def relayed_routes(part: Part, communicator: Communicator, relays: PartRelays, *, backward: bool) -> RowRoutes:
    """The routes of the rows that a peer needs, by the relays of the cache.

    Args:
        part: this rank's.
        communicator: the ranks of the run.
        relays: of the part.
        backward: whether gradients take the same way back, or go straight to their owners.
    """
    peers = communicator.peers
    whole = boundary_routes(part, communicator, to=peers, of=peers)
    sent = [int(is_direct.sum()) for is_direct in _split(relays.is_direct_R, whole.forward.send_counts)]
    rows_R = sent_rows(part, communicator, peers)[relays.is_direct_R]
    own = _routes_of(part, communicator, rows_R, sent, whole.forward.recv_counts, only_one=False)
    plan = RelayPlan.of(relays)
    return RowRoutes(
        forward=replace(own.forward, relays=plan, without_relays=whole.forward),
        backward=replace(own.backward, relays=plan) if backward else whole.backward,
    )


def _routes_of(
    part: Part,
    communicator: Communicator,
    rows_R: Tensor,
    sent: Sequence[int],
    received: Sequence[int],
    *,
    only_one: bool,
) -> RowRoutes:
    """The routes on which the local rows `rows_R` leave.

    Args:
        part, communicator: this rank's.
        rows_R: peer after peer.
        sent, received: rows to and from each peer.
        only_one: whether they go to one peer.
    """
    device = communicator.device
    picks = Csr(
        indptr=torch.arange(len(rows_R) + 1, dtype=rows_R.dtype),
        indices=rows_R,
        weights=None,
        num_columns=part.num_rows,
    )
    to_own_rows, rows_R = Matrix(picks.transposed(), device), rows_R.to(device)
    return RowRoutes(
        forward=RowRoute(
            pack=lambda rows_nF: rows_nF.index_select(0, rows_R),
            picks_R=rows_R,
            send_counts=sent,
            recv_counts=received,
            unpack=lambda halo_HF: halo_HF,
        ),
        backward=RowRoute(
            pack=lambda partial_HF: partial_HF,
            send_counts=received,
            recv_counts=sent,
            unpack=lambda returned_RF: to_own_rows @ returned_RF,
            own_rows_R=rows_R if only_one else None,
        ),
    )


def sampled_routes(routes: RowRoutes, kept_R: Tensor, kept_H: Tensor, device: torch.device) -> RowRoutes:
    """Boundary routes on which only some rows travel; the others are received as zeros.

    Args:
        routes: of all rows.
        kept_R: bool, in the host's memory: which of the rows that peers need are sent.
        kept_H: bool, likewise: which of the halo's rows are received.
        device: where rows are.
    """
    plan = None
    if routes.forward.relays is not None:
        kept_R = kept_R[routes.forward.relays.is_direct_R]
        plan = routes.forward.relays.of_kept(kept_H)
    rows_K, columns_M = (to_device(kept.nonzero().squeeze(1), device) for kept in (kept_R, kept_H))
    sent = [int(kept.sum()) for kept in _split(kept_R, routes.forward.send_counts)]
    received = [int(kept.sum()) for kept in _split(kept_H, routes.forward.recv_counts)]

    def scatter(rows_KF: Tensor, places_K: Tensor, number: int) -> Tensor:
        return rows_KF.new_zeros(number, rows_KF.shape[1]).index_copy_(0, places_K, rows_KF)

    own_rows_R = routes.backward.own_rows_R
    return RowRoutes(
        forward=RowRoute(
            pack=lambda rows_nF: routes.forward.pack(rows_nF).index_select(0, rows_K),
            send_counts=sent,
            recv_counts=received,
            unpack=lambda rows_MF: scatter(rows_MF, columns_M, len(kept_H)),
            relays=plan,
        ),
        backward=RowRoute(
            pack=lambda partial_HF: partial_HF.index_select(0, columns_M),
            send_counts=received,
            recv_counts=sent,
            unpack=lambda rows_KF: routes.backward.unpack(scatter(rows_KF, rows_K, len(kept_R))),
            own_rows_R=None if own_rows_R is None else own_rows_R[rows_K],
            relays=plan,
        ),
    )


def broadcast_routes(part: Part, communicator: Communicator) -> RowRoutes:
    """The routes of whole blocks. Ranks exchange which rows of a block are a halo's; every rank has to call it."""
    peers, device = communicator.peers, communicator.device
    num_rows = [counts["rows"] for counts in communicator.all_gather_object({"rows": part.num_rows})]
    block_rows, num_blocks = [num_rows[peer] for peer in peers], len(peers)
    halo_counts = [part.halo_rows(peer) for peer in peers]
    rows_H = torch.empty(sum(halo_counts), dtype=torch.int64, device=device)
    by_peer = _split(rows_H, halo_counts)
    communicator.exchange(
        {peer: part.send_rows[peer].to(device, torch.int64) for peer in peers},
        dict(zip(peers, by_peer, strict=True)),
        purpose="preparation",
    ).wait()
    total = 0
    for rows_of_peer, count in zip(by_peer, block_rows, strict=True):
        rows_of_peer += total
        total += count

    def to_blocks(partial_HF: Tensor) -> Tensor:
        return partial_HF.new_zeros(total, partial_HF.shape[1]).index_copy_(0, rows_H, partial_HF)

    def sum_of_blocks(returned: Tensor) -> Tensor:
        return returned.view(num_blocks, part.num_rows, returned.shape[1]).sum(0, dtype=torch.float32)

    own_rows = [part.num_rows] * num_blocks
    return RowRoutes(
        forward=RowRoute(
            pack=lambda rows_nF: rows_nF.contiguous(),
            send_counts=own_rows,
            to_all=True,
            recv_counts=block_rows,
            unpack=lambda blocks_MF: blocks_MF.index_select(0, rows_H),
        ),
        backward=RowRoute(pack=to_blocks, send_counts=block_rows, recv_counts=own_rows, unpack=sum_of_blocks),
    )


def sent_rows(part: Part, communicator: Communicator, to: Collection[int]) -> Tensor:
    """The local rows that each of the peers `to` needs, peer after peer: [R]."""
    return torch.cat(
        [
            torch.empty(0, dtype=part.local.indices.dtype),
            *(part.send_rows[peer] for peer in communicator.peers if peer in to),
        ]
    )


def _split(rows: Tensor, counts: Sequence[int]) -> list[Tensor]:
    return list(torch.split(rows, list(counts))) if counts else []
