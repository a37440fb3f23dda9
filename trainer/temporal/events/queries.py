"""What the scores of some pairs need: the nodes whose memory is read, and the neighbours of each query.

It depends on the stream alone, not on weights or memory. The time of a query is that of the event that its pair is
compared with, and its neighbours are of strictly earlier events.

Letters: b events, m destinations of each of them, q = b (1 + m) queries (sources first), n nodes, v of them
with the features of a time, K neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.temporal.events.memory import NodeRows
from trainer.temporal.events.stream import EventStream
from trainer.temporal.events.tgn import Tgn

AT_A_TIME = 1 << 14
"""Queries whose neighbours' rows are in memory at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queries:
    """The queries of b events with m destinations each."""

    event_b: Tensor
    num_destinations: int
    """Of each event: m."""
    node_n: Tensor
    """Every node that is read, ascending."""
    node_v: Tensor
    """The place among them of each node with features of a time; as `node_n` where features do not change."""
    row_v: Tensor | None
    """The row of the features that change; None where none do."""
    query_q: Tensor
    """The place among v of each query's node, and below of its neighbours."""
    neighbour_qK: Tensor
    event_qK: Tensor
    passed_qK: Tensor
    """float64: the time since each neighbour's event."""
    exists_qK: Tensor

    @classmethod
    def of(cls, stream: EventStream, event_b: Tensor, destination_bm: Tensor, number: int) -> Queries:
        """The queries of the sources of events and of destinations, with at most `number` neighbours each."""
        query_q = torch.cat([stream.source_M[event_b], destination_bm.reshape(-1)])
        event_q = torch.cat([event_b, event_b.repeat_interleave(destination_bm.shape[1])])
        neighbours = stream.recent_neighbours(query_q, stream.first_of_time(event_q), number)
        all_p = torch.cat([query_q, neighbours.node_qK.reshape(-1)])
        row_v = None
        if stream.changing is None:
            node_n, place = torch.unique(all_p, return_inverse=True)
            node_v = torch.arange(len(node_n))
        else:
            # A neighbour has its features at the time of the query. A row is of one node; before the first one the node
            # itself is the key.
            time_p = stream.time_M[torch.cat([event_q, event_q.repeat_interleave(number)])]
            row_p = stream.changing.rows_before(all_p, time_p)
            key_v, place = torch.unique(torch.where(row_p < 0, all_p, stream.num_nodes + row_p), return_inverse=True)
            row_v = (key_v - stream.num_nodes).clamp(min=-1)
            nodes_v = torch.empty_like(key_v).index_copy_(0, place, all_p)
            node_n, node_v = torch.unique(nodes_v, return_inverse=True)
        return cls(
            event_b=event_b,
            num_destinations=destination_bm.shape[1],
            node_n=node_n,
            node_v=node_v,
            row_v=row_v,
            query_q=place[: len(query_q)],
            neighbour_qK=place[len(query_q) :].view_as(neighbours.node_qK),
            event_qK=neighbours.event_qK,
            passed_qK=(stream.time_M[event_q].unsqueeze(1) - stream.time_M[neighbours.event_qK]).double(),
            exists_qK=neighbours.exists_qK,
        )

    def scores(self, model: Tgn, stream: EventStream, rows: NodeRows) -> Tensor:
        """The scores of all pairs, float32 [b, m]; with one destination an event, those of its classes [b, C].

        Args:
            model: the weights.
            stream: whose features are read.
            rows: of `node_n`, in their order.
        """
        number, each = len(self.event_b), self.num_destinations
        if not number:
            return rows.packed_nV.new_zeros(0, each * model.num_outputs)
        embedding_qW = self.embeddings(model, stream, rows)
        source_bW, destination_pW = embedding_qW[:number], embedding_qW[number:]
        x_pF = None
        if stream.x_MF is not None:
            x_pF = stream.x_MF[self.event_b].to(source_bW.device).repeat_interleave(each, 0)
        scores = model.pair_scores(source_bW.repeat_interleave(each, 0), destination_pW, x_pF)
        return scores.view(number, each * scores.shape[1])

    def embeddings(self, model: Tgn, stream: EventStream, rows: NodeRows) -> Tensor:
        """The embeddings of all queries: [q, W]; see `scores`."""
        state_nW = model.states(rows)
        state_vW = state_nW if self.row_v is None else state_nW[self.node_v.to(state_nW.device)]
        node_vW = model.nodes(stream, self.node_n[self.node_v], self.row_v, state_vW)
        device = node_vW.device
        pieces = []
        for begin in range(0, len(self.query_q), AT_A_TIME):
            here = slice(begin, begin + AT_A_TIME)
            encoded = [model.time(self.passed_qK[here].to(device))]
            if stream.x_MF is not None:
                encoded.append(stream.x_MF[self.event_qK[here]].to(device))
            pieces.append(
                model.attention(
                    node_vW,
                    self.query_q[here].to(device),
                    self.neighbour_qK[here].to(device),
                    torch.cat(encoded, 2),
                    self.exists_qK[here].to(device),
                )
            )
        return torch.cat(pieces)
