"""Inductive training: the graph that the training nodes induce, without any other node and edge.

Each part keeps its training nodes and the edges whose two ends are both training nodes; degrees are those that are
left. So nothing of a validation or test node, not even its number of edges, is seen before it is asked for. Which
halo rows are training nodes is known to their owners, who say so once; which of them are then still needed is known to
the receiver, who says so in return. The rest of training does not know that it sees a subgraph.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from trainer.data.csr import rows_of
from trainer.data.part import Csr, Part
from trainer.dist.communicator import Communicator


def induced(part: Part, communicator: Communicator) -> Part:
    """The part of the training graph that this rank owns, with as many rows as it has training nodes.

    Every rank has to call it, when the ranks are connected.
    """
    keep_n = part.train_n
    keep_H = _told(communicator, {peer: keep_n[rows.long()] for peer, rows in part.send_rows.items()}, _widths(part))
    remote, needed = {}, {}
    for peer, block in part.remote.items():
        kept = _kept(block, keep_n, keep_H[peer])
        needed[peer] = torch.bincount(kept.indices, minlength=kept.num_columns) > 0
        remote[peer] = _columns(kept, needed[peer])
    # A column that is needed is a training node's, so in numbers of the whole halo:
    asked = {peer: keep_H[peer].clone() for peer in keep_H}
    for peer, mask in asked.items():
        mask[mask.clone()] = needed[peer]
    wanted = _told(communicator, asked, {peer: len(rows) for peer, rows in part.send_rows.items()})
    place_n = keep_n.cumsum(0) - 1
    local = _kept(part.local, keep_n, keep_n)
    return replace(
        part,
        ids_n=part.ids_n[keep_n],
        halo_ids={peer: ids[asked[peer]] for peer, ids in part.halo_ids.items()},
        x_nF=None if part.x_nF is None else part.x_nF[keep_n],
        aggregated_nF=None,
        y=part.y[keep_n],
        train_n=part.train_n[keep_n],
        val_n=part.val_n[keep_n],
        test_n=part.test_n[keep_n],
        degree_n=_sums(local) + sum((_sums(block) for block in remote.values()), start=torch.zeros(1)),
        local=local,
        remote=remote,
        send_rows={peer: place_n[rows[wanted[peer]].long()].to(rows.dtype) for peer, rows in part.send_rows.items()},
    )


def _widths(part: Part) -> dict[int, int]:
    return {peer: block.num_columns for peer, block in part.remote.items()}


def _told(communicator: Communicator, mine: dict[int, Tensor], expected: dict[int, int]) -> dict[int, Tensor]:
    """Tell each peer a bool mask, and learn theirs, of the lengths that are expected."""
    theirs = {
        peer: torch.empty(length, dtype=torch.uint8, device=communicator.device) for peer, length in expected.items()
    }
    communicator.exchange(
        {peer: mask.to(communicator.device, torch.uint8) for peer, mask in mine.items()}, theirs, purpose="preparation"
    ).wait()
    return {peer: mask.cpu().bool() for peer, mask in theirs.items()}


def _kept(block: Csr, rows_n: Tensor, columns: Tensor) -> Csr:
    """The block's kept rows and columns, renumbered; order of edges stays."""
    row_E = rows_of(block)
    edges = rows_n[row_E] & columns[block.indices]
    counts_n = torch.bincount(row_E[edges], minlength=block.num_rows)[rows_n]
    place = columns.cumsum(0) - 1
    return Csr(
        indptr=torch.cat([counts_n.new_zeros(1), counts_n.cumsum(0)]).to(block.indptr.dtype),
        indices=place[block.indices[edges]].to(block.indices.dtype),
        weights=None if block.weights is None else block.weights[edges],
        num_columns=int(columns.sum()),
    )


def _columns(block: Csr, columns: Tensor) -> Csr:
    """The block without the columns that no edge is in."""
    place = columns.cumsum(0) - 1
    return replace(block, indices=place[block.indices].to(block.indices.dtype), num_columns=int(columns.sum()))


def _sums(block: Csr) -> Tensor:
    """The weighted in-degree of every row, float32 [n]."""
    weights = torch.ones(block.num_edges) if block.weights is None else block.weights
    return torch.zeros(block.num_rows).index_add_(0, rows_of(block), weights)
