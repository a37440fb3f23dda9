"""Node memory: a state for each node, and the mail of its last event that the state has not taken in yet.

A state is read through the GRU: what a batch uses of a node is its state after its mail. When the batch is read, the
nodes of its events keep that state, and get new mail. So a batch reads what the batches before it have written, mail
has the gradient of one batch, and of several events of a node in one batch the last one counts (Rossi et al. 2020, in
the order of TGL and DistTGL).

The nodes of a memory are divided over the ranks that share it. A rank asks the owners for the rows that it needs, and
the owners answer: three messages a pair of ranks (how many, which, the rows). A write needs no question, since every
rank knows the events of a batch: each owner computes the states of its nodes, sends them to the others, and makes its
nodes' mail of them. All of this goes through the communicator, so a rank that is gone ends the run within the time-out.

Letters: N nodes, n nodes that are read or written, W width of a state, X of a mail (2 W + F), F features of an event, V
values of a packed row, c ends of the events of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.dist.communicator import Communicator
from trainer.temporal.events.stream import EventStream

_TAIL = 5
"""Values of a packed row after state and mail: two times of eight bytes, and whether there is mail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRows:
    """What the memory has of some nodes."""

    packed_nV: Tensor
    """float32, one row a node, as it is sent"""
    width: int

    def __getitem__(self, index: Tensor) -> NodeRows:
        return NodeRows(packed_nV=self.packed_nV[index], width=self.width)

    def __len__(self) -> int:
        return len(self.packed_nV)

    @property
    def state_nW(self) -> Tensor:
        return self.packed_nV[:, : self.width]

    @property
    def mail_nX(self) -> Tensor:
        """Own state and the other node's at the event, and its features; 0 without mail."""
        return self.packed_nV[:, self.width : -_TAIL]

    @property
    def state_time_n(self) -> Tensor:
        """float64: of the event whose mail the state has taken in last; of the stream's first event where of none."""
        return _times(self.packed_nV[:, -_TAIL : -_TAIL + 2])

    @property
    def mail_time_n(self) -> Tensor:
        """float64: of the mail's event, or as `state_time_n`."""
        return _times(self.packed_nV[:, -_TAIL + 2 : -1])

    @property
    def has_mail_n(self) -> Tensor:
        return self.packed_nV[:, -1] > 0

    @classmethod
    def pack(
        cls, state_nW: Tensor, state_time_n: Tensor, mail_nX: Tensor, mail_time_n: Tensor, has_mail_n: Tensor
    ) -> NodeRows:
        """Rows of these values."""
        times = [time_n.unsqueeze(1).view(torch.float32) for time_n in (state_time_n, mail_time_n)]
        packed_nV = torch.cat([state_nW, mail_nX, *times, has_mail_n.float().unsqueeze(1)], 1)
        return cls(packed_nV=packed_nV, width=state_nW.shape[1])


def _times(packed_n2: Tensor) -> Tensor:
    """The float64 numbers that pairs of float32 columns hold."""
    # A copy: a number of eight bytes cannot begin at every place of a row.
    return packed_n2.clone(memory_format=torch.contiguous_format).view(torch.float64).squeeze(1)


def row_bytes(width: int, num_features: int) -> int:
    """Bytes of one node in the memory."""
    return (3 * width + num_features + _TAIL) * 4


class NodeMemory:
    """The memory of one copy, of which this rank owns the rows of some nodes."""

    def __init__(
        self, stream: EventStream, width: int, communicator: Communicator, ranks: Sequence[int], owner_N: Tensor
    ) -> None:
        """Begin before the first event.

        Args:
            stream: whose events are written.
            width: of a state.
            communicator: of the run.
            ranks: those that share this memory; this rank is one of them.
            owner_N: the place among `ranks` of the owner of each node.
        """
        self._stream, self._width, self._communicator, self._ranks = stream, width, communicator, ranks
        self._owner_N, self._own = owner_N, ranks.index(communicator.rank)
        counts = torch.bincount(owner_N, minlength=len(ranks))
        order_N = owner_N.argsort(stable=True)
        self._place_N = torch.empty_like(order_N)
        first = counts.cumsum(0) - counts
        self._place_N[order_N] = torch.arange(stream.num_nodes) - first.repeat_interleave(counts)
        num_own, device = int(counts[self._own]), communicator.device
        start_n = torch.full((num_own,), float(stream.time_M[0]), dtype=torch.float64, device=device)
        self._rows = NodeRows.pack(
            torch.zeros(num_own, width, device=device),
            start_n,
            torch.zeros(num_own, 2 * width + stream.num_features, device=device),
            start_n,
            torch.zeros(num_own, dtype=torch.bool, device=device),
        )
        self._tail = self._rows.packed_nV[:1, -_TAIL:].clone()

    @property
    def own_nodes(self) -> Tensor:
        """The nodes whose rows this rank has, in their order."""
        return (self._owner_N == self._own).nonzero().squeeze(1)

    def reset(self) -> None:
        """Begin again before the first event."""
        packed_nV = self._rows.packed_nV
        packed_nV.zero_()
        packed_nV[:, -_TAIL:] = self._tail

    def save(self) -> Tensor:
        """This rank's rows, copied."""
        return self._rows.packed_nV.clone()

    def restore(self, packed_nV: Tensor) -> None:
        """Continue from rows that were saved."""
        self._rows.packed_nV.copy_(packed_nV)

    def read(self, node_n: Tensor) -> NodeRows:
        """What the memory has of these nodes; every rank that shares it has to call it, be it for no node."""
        if len(self._ranks) == 1:
            return self._rows[node_n]
        places = self._places_by_owner(node_n)
        device = self._communicator.device
        requests = {rank: self._place_N[node_n[place]].to(device) for rank, place in places.items()}
        counts = self._swap(
            {rank: torch.tensor([len(place)], device=device) for rank, place in places.items()}, lambda _: (1,)
        )
        requested = self._swap(requests, lambda rank: (int(counts[rank]),))
        packed_nV = self._rows.packed_nV.new_empty(len(node_n), self._rows.packed_nV.shape[1])
        rows = self._swap(
            {rank: self._rows.packed_nV[place] for rank, place in requested.items()}, lambda rank: (len(places[rank]),)
        )
        for rank, place in places.items():
            packed_nV[place] = rows[rank]
        return NodeRows(packed_nV=packed_nV, width=self._width)

    @torch.no_grad()
    def write(self, states: Callable[[NodeRows], Tensor], first: int, end: int) -> None:
        """Take in the events `first` .. `end` - 1; every rank that shares the memory has to call it.

        Args:
            states: gives the states of rows after their mail.
            first: the first event.
            end: the one after the last.
        """
        stream, device = self._stream, self._communicator.device
        source_b, destination_b = stream.source_M[first:end], stream.destination_M[first:end]
        node_n, end_c = torch.unique(torch.cat([source_b, destination_b]), return_inverse=True)
        places = self._places_by_owner(node_n)
        mine = places[self._ranks[self._own]]
        own_place = self._place_N[node_n[mine]]
        rows = self._rows[own_place]
        own_state = states(rows)
        state_nW = own_state
        if len(self._ranks) > 1:
            gathered = self._swap(dict.fromkeys(self._ranks, own_state), lambda rank: (len(places[rank]),))
            state_nW = own_state.new_empty(len(node_n), self._width)
            for rank, place in places.items():
                state_nW[place] = gathered[rank]
        # The last end of each node among the events: later events come later here, and so does the destination.
        order_c = torch.arange(end - first).repeat(2) * 2 + torch.arange(2).repeat_interleave(end - first)
        last_n = torch.zeros_like(node_n).scatter_reduce_(0, end_c, order_c, "amax")[mine]
        event_k, is_destination_k = last_n // 2, last_n % 2
        other_k = end_c.view(2, -1)[1 - is_destination_k, event_k]
        mail = [own_state, state_nW[other_k.to(device)]]
        if stream.x_MF is not None:
            mail.append(stream.x_MF[first + event_k].to(device))
        self._rows.packed_nV[own_place] = NodeRows.pack(
            own_state,
            rows.mail_time_n,
            torch.cat(mail, 1),
            stream.time_M[first + event_k].double().to(device),
            torch.ones(len(mine), dtype=torch.bool, device=device),
        ).packed_nV

    def _places_by_owner(self, node_n: Tensor) -> dict[int, Tensor]:
        """The places of each rank's nodes among `node_n`, by its number in the run."""
        owner_n = self._owner_N[node_n]
        return {rank: (owner_n == place).nonzero().squeeze(1) for place, rank in enumerate(self._ranks)}

    def _swap(self, outgoing: Mapping[int, Tensor], rows_of: Callable[[int], tuple[int]]) -> dict[int, Tensor]:
        """Send each rank its tensor, and receive one of as many rows as `rows_of` gives from each."""
        own = self._communicator.rank
        incoming = {
            rank: sent.new_empty(*rows_of(rank), *sent.shape[1:]) for rank, sent in outgoing.items() if rank != own
        }
        self._communicator.exchange(
            {rank: sent.contiguous() for rank, sent in outgoing.items() if rank != own}, incoming
        ).wait()
        return {rank: outgoing[own] if rank == own else incoming[rank] for rank in outgoing}
