"""Fetches the rows of the first nodes of pairs from their owners, and sends the gradients of those rows back.

Pairs are at the owner of their second node, so only rows of first nodes travel. A batch is one question to every peer
(the numbers of the nodes, each once), one answer (their rows, in fp32), and in training one message back (the rows'
gradients, which the owner adds up). A sum over all ranks before each batch says how many rows everyone asks whom for,
and how many ranks have further batches, so that all make as many.

Letters: n rows of this rank, k pairs of a batch, m different first nodes of them, F columns, P ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.data.part import Part
from trainer.dist.communicator import Communicator


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedRows:
    """The rows of one batch."""

    rows_mF: Tensor
    """Of the different first nodes, those of rank 0 first"""
    place_k: Tensor
    """Which of them each pair has"""
    own_rows: Tensor
    """Rows of this rank among them, and at which places they are"""
    own: slice
    slices: dict[int, slice]
    """By peer, the places of its rows"""
    answered: dict[int, Tensor]
    """By peer, the rows of this rank that it has asked for"""
    has_more: bool
    """Whether some rank has a further batch"""


class PairRows:
    """Rows of any nodes of the graph, by their numbers in it."""

    def __init__(self, num_nodes: int, part: Part, communicator: Communicator) -> None:
        """Learn from all ranks which nodes they have, one rank after the other; every rank has to call it."""
        rank, world = communicator.rank, communicator.world
        self._communicator = communicator
        self._sorted_n, self._row_n = part.ids_n.sort()
        self._owner_N = torch.zeros(num_nodes, dtype=torch.int32)
        counts = communicator.all_reduce_numbers(
            [part.num_rows if one == rank else 0 for one in range(world)], "preparation"
        )
        own = part.ids_n.to(communicator.device)
        for owner, count in enumerate(counts):
            ids = own if owner == rank else own.new_empty(count)
            if owner == rank:
                communicator.exchange(dict.fromkeys(communicator.peers, own), {}, purpose="preparation").wait()
            else:
                communicator.exchange({}, {owner: ids}, purpose="preparation").wait()
            self._owner_N[ids.cpu()] = owner

    def fetch(self, rows_nF: Tensor, source_k: Tensor, *, has_more: bool) -> FetchedRows:
        """The rows of the nodes `source_k` (int64 [k], on the CPU); every rank has to call it.

        Args:
            rows_nF: this rank's own.
            source_k: which nodes; may be none.
            has_more: whether this rank has a further batch.
        """
        communicator, device = self._communicator, rows_nF.device
        id_m, place_k = torch.unique(source_k, return_inverse=True)
        owner_m = self._owner_N[id_m]
        order_m = owner_m.argsort(stable=True)
        id_m, counts = id_m[order_m], owner_m.bincount(minlength=communicator.world).tolist()
        new_place_m = torch.empty_like(order_m)
        new_place_m[order_m] = torch.arange(len(order_m))
        asked_PP, has_more = self._counts(counts, has_more=has_more)
        ends = torch.tensor([0, *counts]).cumsum(0).tolist()
        slices = {rank: slice(ends[rank], ends[rank + 1]) for rank in range(communicator.world)}
        own = slices.pop(communicator.rank)
        requested = {
            peer: torch.empty(asked_PP[peer][communicator.rank], dtype=torch.int64, device=device) for peer in slices
        }
        communicator.exchange(
            {peer: id_m[where].to(device) for peer, where in slices.items()}, requested, purpose="pairs"
        ).wait()
        answered = {peer: self._rows(ids.cpu()).to(device) for peer, ids in requested.items()}
        own_rows = self._rows(id_m[own]).to(device)
        rows_mF = rows_nF.new_empty(len(id_m), rows_nF.shape[1])
        rows_mF[own] = rows_nF[own_rows]
        communicator.exchange(
            {peer: rows_nF[rows] for peer, rows in answered.items()},
            {peer: rows_mF[where] for peer, where in slices.items()},
            purpose="pairs",
        ).wait()
        return FetchedRows(
            rows_mF=rows_mF,
            place_k=new_place_m[place_k].to(device),
            own_rows=own_rows,
            own=own,
            slices=slices,
            answered=answered,
            has_more=has_more,
        )

    def send_back(self, fetched: FetchedRows, gradient_mF: Tensor, gradient_nF: Tensor) -> None:
        """Add the gradients of a batch's rows to those of the rows at their owners; every rank has to call it.

        Args:
            fetched: the batch.
            gradient_mF: of its rows.
            gradient_nF: of this rank's own, changed in place.
        """
        received = {
            peer: gradient_nF.new_empty(len(rows), gradient_nF.shape[1]) for peer, rows in fetched.answered.items()
        }
        self._communicator.exchange(
            {peer: gradient_mF[where].contiguous() for peer, where in fetched.slices.items()}, received, purpose="pairs"
        ).wait()
        gradient_nF.index_add_(0, fetched.own_rows, gradient_mF[fetched.own])
        for peer, rows in fetched.answered.items():
            gradient_nF.index_add_(0, rows, received[peer])

    def _counts(self, counts: list[int], *, has_more: bool) -> tuple[list[list[int]], bool]:
        """How many rows rank p (row) asks rank q (column) for, and whether some rank has more to ask."""
        rank, world = self._communicator.rank, self._communicator.world
        own = [number for one in range(world) for number in (counts if one == rank else [0] * world)]
        *asked, more = self._communicator.all_reduce_numbers([*own, int(has_more)], "pairs")
        return [asked[one * world : (one + 1) * world] for one in range(world)], more > 0

    def _rows(self, ids: Tensor) -> Tensor:
        """The rows of nodes of this rank."""
        return self._row_n[torch.searchsorted(self._sorted_n, ids)]
