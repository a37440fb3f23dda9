"""Ranks that share a group of snapshots: which nodes each has, and how rows get from one to the other.

Where a group does not fit one rank, S ranks of consecutive numbers share it: rank r belongs to group r // S and is its
member r % S. Each node has an owner among the members, the same one in every group, so a state at a border goes from
its owner to the same owner in the next group.

Rows are exchanged in the order of snapshots, which is the same on all members. So a member has one worker.

Letters: S members, n own rows, h rows of other members, F features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from trainer.dist.communicator import Communicator


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Members:
    """The ranks of one group, from the point of view of one of them."""

    communicator: Communicator
    number: int
    """S, of every group"""
    owner_N: Tensor
    """int64, the member that has each node"""

    @property
    def own(self) -> int:
        """This rank among the members."""
        return self.communicator.rank % self.number

    @property
    def peers(self) -> list[int]:
        """The other members, ascending."""
        return [member for member in range(self.number) if member != self.own]

    def rank(self, member: int) -> int:
        """The rank of a member of this group."""
        return self.communicator.rank - self.own + member


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowExchange:
    """Which rows each member sends to which, once for all kinds of rows."""

    members: Members
    send: Mapping[int, Tensor]
    """By peer, int64: own rows"""
    counts: Mapping[int, int]
    """By peer in ascending order: how many rows come from it"""

    @property
    def num_rows(self) -> int:
        """h"""
        return sum(self.counts.values())

    def fetch(self, rows_nF: Tensor) -> Tensor:
        """The rows of the other members, peer after peer: [h, F]. It records no gradient."""
        rows_nF = rows_nF.detach()
        received_hF = rows_nF.new_empty(self.num_rows, rows_nF.shape[1])
        self._exchange({peer: rows_nF[rows] for peer, rows in self.send.items()}, self._by_peer(received_hF))
        return received_hF

    def give_back(self, gradient_hF: Tensor, sums_nF: Tensor) -> None:
        """Send gradients of fetched rows to their owners, and add those of own rows to `sums_nF`."""
        received = {peer: gradient_hF.new_empty(len(rows), gradient_hF.shape[1]) for peer, rows in self.send.items()}
        self._exchange({peer: rows.contiguous() for peer, rows in self._by_peer(gradient_hF).items()}, received)
        for peer, rows in self.send.items():
            sums_nF.index_add_(0, rows, received[peer])

    def _by_peer(self, rows_hF: Tensor) -> dict[int, Tensor]:
        return dict(zip(self.counts, torch.split(rows_hF, list(self.counts.values())), strict=True))

    def _exchange(self, outgoing: Mapping[int, Tensor], incoming: Mapping[int, Tensor]) -> None:
        rank = self.members.rank
        self.members.communicator.exchange(
            {rank(peer): rows for peer, rows in outgoing.items()}, {rank(peer): rows for peer, rows in incoming.items()}
        ).wait()


class _Completed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows_nF: Tensor, exchange: RowExchange) -> Tensor:
        ctx.exchange, ctx.num_own = exchange, len(rows_nF)
        return torch.cat([rows_nF, exchange.fetch(rows_nF)])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        own_nF = gradient[: ctx.num_own].clone()
        ctx.exchange.give_back(gradient[ctx.num_own :], own_nF)
        return own_nF, None


def completed(rows_nF: Tensor, exchange: RowExchange | None) -> Tensor:
    """Own rows and below them those of other members, with gradients that go back to the owners: [n + h, F]."""
    return rows_nF if exchange is None else cast(Tensor, _Completed.apply(rows_nF, exchange))  # type: ignore[no-untyped-call]


def of_all_members(rows_kF: Tensor, members: Members) -> Tensor:
    """As many rows of each member, in the order of members, with gradients that go back: [S k, F]."""
    count, every = len(rows_kF), torch.arange(len(rows_kF), device=rows_kF.device)
    exchange = RowExchange(
        members=members, send=dict.fromkeys(members.peers, every), counts=dict.fromkeys(members.peers, count)
    )
    blocks = list(torch.split(completed(rows_kF, exchange), count))
    blocks.insert(members.own, blocks.pop(0))
    return torch.cat(blocks)
