"""Inductive training: the subgraph that the training nodes induce, without any other node and edge.

Each part keeps its training nodes and the edges whose two ends are both training nodes; degrees are those of the
subgraph. So nothing of a validation or test node, not even its number of edges, is seen before it is evaluated. Which
halo rows are training nodes is known to their owners, who send that once; which of them are then still needed is known
to the receiver, who sends that back. The rest of training is the same as on a whole graph.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from trainer.data.cross_edges import CrossEdges
from trainer.data.csr import select
from trainer.data.part import Part
from trainer.dist.communicator import Communicator


def training_subgraph(part: Part, communicator: Communicator) -> Part:
    """The part of the training graph that this rank owns, with as many rows as it has training nodes.

    Every rank has to call it, when the process group is there.
    """
    keep_n = part.train_n
    keep_H = _exchange_masks(
        communicator,
        {peer: keep_n[rows.long()] for peer, rows in part.send_rows.items()},
        {peer: block.num_columns for peer, block in part.remote.items()},
    )
    remote, needed_H = {}, {}
    for peer, block in part.remote.items():
        kept = select(block, keep_n, keep_H[peer])
        needed = torch.bincount(kept.indices, minlength=kept.num_columns) > 0
        remote[peer] = select(kept, torch.ones(kept.num_rows, dtype=torch.bool), needed)
        # A column that is needed is a training node's, so in numbers of the whole halo:
        needed_H[peer] = keep_H[peer].masked_scatter(keep_H[peer], needed)
    needed_by = _exchange_masks(communicator, needed_H, {peer: len(rows) for peer, rows in part.send_rows.items()})
    new_row_n = keep_n.cumsum(0) - 1
    local = select(part.local, keep_n, keep_n)
    remote_degrees = (block.row_sums(torch.float32) for block in remote.values())
    return replace(
        part,
        ids_n=part.ids_n[keep_n],
        halo_ids={peer: ids[needed_H[peer]] for peer, ids in part.halo_ids.items()},
        x_nF=None if part.x_nF is None else part.x_nF[keep_n],
        aggregated_nF=None,
        y=part.y[keep_n],
        train_n=part.train_n[keep_n],
        val_n=part.val_n[keep_n],
        test_n=part.test_n[keep_n],
        degree_n=local.row_sums(torch.float32) + sum(remote_degrees, start=torch.zeros(1)),
        local=local,
        remote=remote,
        relays=None,
        send_rows={
            peer: new_row_n[rows[needed_by[peer]].long()].to(rows.dtype) for peer, rows in part.send_rows.items()
        },
    )


def training_cross_edges(graph: CrossEdges) -> CrossEdges:
    """The edges of the training graph that are between parts; nothing is sent for it."""
    keep_N = graph.train_N
    counts = [int(keep_n.sum()) for keep_n in torch.split(keep_N, list(graph.row_counts))]
    return CrossEdges(
        edges=select(graph.edges, keep_N, keep_N),
        row_counts=counts,
        sum_counts=counts,
        train_N=keep_N[keep_N],
    )


def _exchange_masks(communicator: Communicator, masks: dict[int, Tensor], lengths: dict[int, int]) -> dict[int, Tensor]:
    """Send each peer a bool mask, and get theirs, of the given lengths."""
    device = communicator.device
    received = {peer: torch.empty(length, dtype=torch.uint8, device=device) for peer, length in lengths.items()}
    sent = {peer: mask.to(device, torch.uint8) for peer, mask in masks.items()}
    communicator.exchange(sent, received, purpose="preparation").wait()
    return {peer: mask.cpu().bool() for peer, mask in received.items()}
