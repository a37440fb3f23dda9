"""TGN (Rossi et al. 2020), with static and dynamic node memory as in DistTGL (Zhou et al. 2023).

    state      GRU of the memory's state and its mail: the states of both ends of a node's last event, the features of
               the event, and the time between the mail and the one before it
    node       the state, and its features at the time of the event that is scored, or a learnt vector of the node's own
    embedding  attention over the most recent neighbours at a time: their nodes, the features of the events, and the
               time since each of them
    score      two layers on the embeddings of source and destination, and on their products

Time enters as cos(w t + b) of differences t, with learnt w and b. Products of a matrix with the encoding of every
neighbour's time would be most of the work; they are made once for a query: of the query before the scores, and of the
weighted sum of the encodings after them.

Letters: N nodes, n nodes, v nodes with the features of a time, q queries (a node at a time), K neighbours of each, H
heads, W width, F features of an event, T values of a time encoding.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from trainer.base.optimiser import Optimiser, optimiser
from trainer.config.options import Options
from trainer.temporal.events.memory import NodeRows
from trainer.temporal.events.stream import EventStream


class TimeEncoding(nn.Module):
    """cos(w t + b) of times t, with frequencies from one in the mean gap between events down to one in the stream."""

    def __init__(self, width: int, stream: EventStream) -> None:
        super().__init__()
        duration = max(float(stream.time_M[-1] - stream.time_M[0]), 1e-6) if stream.num_events else 1.0
        self._unit = duration / max(stream.num_events, 1)
        slowest = 1 / max(stream.num_events, 2)
        self.weight = nn.Parameter(slowest ** torch.linspace(0, 1, width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, time: Tensor) -> Tensor:
        """Encode times of any shape; the values are a further dimension."""
        return ((time / self._unit).float().unsqueeze(-1) * self.weight + self.bias).cos()


class RecentAttention(nn.Module):
    """Attention of each query over its neighbours."""

    def __init__(self, width: int, heads: int, num_features: int) -> None:
        super().__init__()
        self._heads, self._scale = heads, 1 / math.sqrt(width // heads)
        self.query = nn.Linear(width, width)
        self.node = nn.Linear(width, 2 * width, bias=False)
        # Of times and features of events: keys and values.
        self.event_key = nn.Parameter(torch.empty(heads, width // heads, width + num_features))
        self.event_value = nn.Parameter(torch.empty(heads, width // heads, width + num_features))
        for matrix in (self.event_key, self.event_value):
            nn.init.uniform_(matrix, -1 / math.sqrt(matrix.shape[2]), 1 / math.sqrt(matrix.shape[2]))
        self.merge = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(
        self, node_nW: Tensor, query_q: Tensor, neighbour_qK: Tensor, event_qKT: Tensor, exists_qK: Tensor
    ) -> Tensor:
        """The embeddings of the queries: [q, W].

        Args:
            node_nW: the nodes that queries and neighbours are places of.
            query_q: the node of each query.
            neighbour_qK: its neighbours.
            event_qKT: time encodings and features of their events.
            exists_qK: which of them are there.
        """
        heads, width = self._heads, node_nW.shape[1]
        key_nHV, value_nHV = self.node(node_nW).view(len(node_nW), 2, heads, -1).unbind(1)
        query_qHV = self.query(node_nW)[query_q].view(len(query_q), heads, -1)
        of_nodes_qKH = (key_nHV[neighbour_qK] * query_qHV.unsqueeze(1)).sum(3)
        query_qHT = torch.einsum("qhv,hvt->qht", query_qHV, self.event_key)
        score_qKH = (of_nodes_qKH + event_qKT @ query_qHT.mT) * self._scale
        score_qKH = score_qKH.masked_fill(~exists_qK.unsqueeze(2), -math.inf)
        # A query without neighbours has a softmax of nothing, NaN.
        share_qKH = score_qKH.softmax(1).masked_fill(~exists_qK.unsqueeze(2), 0.0)
        of_nodes_qHV = (share_qKH.unsqueeze(3) * value_nHV[neighbour_qK]).sum(1)
        of_events_qHV = torch.einsum("qht,hvt->qhv", share_qKH.mT @ event_qKT, self.event_value)
        sums_qW = (of_nodes_qHV + of_events_qHV).reshape(len(query_q), width)
        merged: Tensor = self.merge(torch.cat([node_nW[query_q], sums_qW], 1))
        return merged


class Tgn(nn.Module):
    """The weights of TGN, and of the scores of pairs."""

    def __init__(
        self, stream: EventStream, *, width: int, heads: int, num_classes: int = 0, node_vectors: bool = True
    ) -> None:
        """Draw the first weights.

        Args:
            stream: that is learnt.
            width: of states and embeddings.
            heads: of the attention; they divide the width.
            num_classes: of states to predict; 0 for one score a pair.
            node_vectors: whether nodes without features have learnt vectors.
        """
        super().__init__()
        self._reads_event = bool(num_classes and stream.num_features)
        self.num_outputs = max(num_classes, 1)
        """Of a pair."""
        self.time = TimeEncoding(width, stream)
        self.gru = nn.GRUCell(3 * width + stream.num_features, width)
        self.static: nn.Embedding | nn.Linear | None = None
        if stream.num_node_features:
            self.static = nn.Linear(stream.num_node_features, width)
        elif node_vectors:
            self.static = nn.Embedding(stream.num_nodes, width)
        self.state = nn.Linear(width, width)
        self.attention = RecentAttention(width, heads, stream.num_features)
        length = 3 * width + (stream.num_features if self._reads_event else 0)
        self.score = nn.Sequential(nn.Linear(length, width), nn.ReLU(), nn.Linear(width, self.num_outputs))

    def states(self, rows: NodeRows) -> Tensor:
        """The states of nodes after their mail: [n, W]."""
        mailed = rows.has_mail_n.nonzero().squeeze(1)
        if not len(mailed):
            return rows.state_nW
        read = rows[mailed]
        passed = self.time(read.mail_time_n - read.state_time_n)
        new_state = self.gru(torch.cat([read.mail_nX, passed], 1), read.state_nW)
        return rows.state_nW.index_copy(0, mailed, new_state)

    def nodes(self, stream: EventStream, node_v: Tensor, row_v: Tensor | None, state_vW: Tensor) -> Tensor:
        """Nodes by their states, and by their features or learnt vectors: [v, W].

        Args:
            stream: whose features are read.
            node_v: the nodes.
            row_v: of their features that change; None where none do.
            state_vW: their states.
        """
        nodes: Tensor = self.state(state_vW)
        if self.static is None:
            return nodes
        known = stream.node_features(node_v, row_v) if stream.num_node_features else node_v
        static_vW: Tensor = self.static(known.to(state_vW.device))
        return static_vW + nodes

    def pair_scores(self, source_qW: Tensor, destination_qW: Tensor, x_qF: Tensor | None) -> Tensor:
        """One score a pair, [q, 1], or those of the classes of its event, [q, C], which read the event's features."""
        pairs = [source_qW, destination_qW, source_qW * destination_qW]
        if self._reads_event and x_qF is not None:
            pairs.append(x_qF)
        scores: Tensor = self.score(torch.cat(pairs, 1))
        return scores


def model_and_optimiser(
    stream: EventStream, options: Options, *, num_classes: int, device: torch.device
) -> tuple[Tgn, Optimiser]:
    """A model whose first weights the seed decides, and what changes them."""
    torch.manual_seed(options.seed)
    model = Tgn(
        stream,
        width=options.hidden,
        heads=options.heads,
        num_classes=num_classes,
        node_vectors=options.node_vectors,
    ).to(device)
    decays = [(parameter, options.weight_decay) for parameter in model.parameters()]
    return model, optimiser(options.optimiser, decays, momentum=options.momentum)
