"""The weights of sums: what a model multiplies each in-edge by.

GCN     A'[i, j] = w[i, j] / sqrt(d[i] d[j]) over the edges and a self-loop of weight 1 at each node that has none;
        d is the weighted in-degree with these loops, in the whole graph. 1/sqrt(0) counts as 0.
mean    A'[i, j] = w[i, j] / sum of w[i, :]. A node without in-edges (or whose weights sum to 0) gets 0.
sum     A'[i, j] = w[i, j]

Whether a halo node has a loop is known to its owner alone, so its factor 1/sqrt(d) comes from there, once, at start.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from trainer.data.csr import rows_of
from trainer.data.part import Csr, Part
from trainer.sparse.adjacency import added

HaloColumn = Callable[[Tensor], Tensor]
"""Takes one float32 value a local row [n], gives that of each halo row [H], by asking the owners."""


Blocks = tuple[Csr, dict[int, Csr]]
"""The weighted edges between this part's rows [n, n], and those from each peer's [n, V[q,p]]."""


def weighted(sums: str, part: Part, halo_column: HaloColumn) -> Blocks:
    """The edges of `part` as `gcn`, `mean` or `sum` weighs them."""
    if sums == "gcn":
        return gcn(part, halo_column)
    return mean(part) if sums == "mean" else (part.local, part.remote)


def gcn(part: Part, halo_column: HaloColumn) -> Blocks:
    """GCN's weights."""
    loops, needs_loop_n = missing_loops(part.local)
    degree_n = part.degree_n + needs_loop_n
    factor_n = _inverse(degree_n).sqrt()
    factor_H = halo_column(factor_n)
    of_peer = dict(
        zip(part.remote, torch.split(factor_H, [block.num_columns for block in part.remote.values()]), strict=True)
    )
    return _scaled(added(part.local, loops), factor_n, factor_n), {
        peer: _scaled(block, factor_n, of_peer[peer]) for peer, block in part.remote.items()
    }


def mean(part: Part) -> Blocks:
    """The weights of the mean over in-edges."""
    share_n = _inverse(part.degree_n, signed=True)
    return _scaled(part.local, share_n, None), {
        peer: _scaled(block, share_n, None) for peer, block in part.remote.items()
    }


def missing_loops(local: Csr) -> tuple[Csr, Tensor]:
    """A self-loop for each row that has none, as a matrix and as a bool [n]."""
    rows_E = rows_of(local)
    needs_loop_n = torch.ones(local.num_rows, dtype=torch.bool)
    needs_loop_n[rows_E[rows_E == local.indices]] = False
    indptr = torch.zeros(local.num_rows + 1, dtype=local.indptr.dtype)
    indptr[1:] = needs_loop_n.cumsum(0)
    indices = needs_loop_n.nonzero().squeeze(1).to(local.indices.dtype)
    return Csr(indptr=indptr, indices=indices, weights=None, num_columns=local.num_columns), needs_loop_n


def _inverse(values: Tensor, *, signed: bool = False) -> Tensor:
    """1/value, and 0 where the value is 0 (or below, unless `signed`)."""
    usable = values != 0 if signed else values > 0
    return torch.where(usable, 1 / values, 0)


def _scaled(csr: Csr, row_factor_n: Tensor, column_factor: Tensor | None) -> Csr:
    weights = row_factor_n[rows_of(csr)]
    if column_factor is not None:
        weights *= column_factor[csr.indices]
    if csr.weights is not None:
        weights *= csr.weights
    return Csr(indptr=csr.indptr, indices=csr.indices, weights=weights, num_columns=csr.num_columns)
