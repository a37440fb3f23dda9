"""The weights of sums: what a model multiplies each in-edge by.

GCN     A'[i, j] = w[i, j] / sqrt(d[i] d[j]) over the edges and a self-loop of weight 1 at each node that has none;
        d is the weighted in-degree with these loops, in the whole graph. 1/sqrt(0) counts as 0.
mean    A'[i, j] = w[i, j] / sum of w[i, :]. A node without in-edges (or whose weights sum to 0) gets 0.
sum     A'[i, j] = w[i, j]

Whether a halo node has a loop is known to its owner alone, so its factor 1/sqrt(d) is fetched from there, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from trainer.data.csr import Csr, add, indptr_of
from trainer.data.part import Part
from trainer.sparse.row_sums import weighted_row_sums

HaloColumn = Callable[[Tensor], Tensor]
"""From one float32 value a local row [n] to the owners' values of the halo rows [H]."""
Blocks = tuple[Csr, dict[int, Csr]]
"""The weighted edges between this part's rows [n, n], and those from each peer's [n, V[q,p]]."""


def weighted(sums: str, part: Part, halo_column: HaloColumn) -> Blocks:
    """The edges of `part` as `gcn`, `mean` or `sum` weighs them."""
    if sums == "gcn":
        return _gcn(part, halo_column)
    return _mean(part) if sums == "mean" else (part.local, part.remote)


def row_factor(sums: str, part: Part) -> Tensor | None:
    """What `gcn` or `mean` multiplies the edges into each of a part's rows by, beside their own weights: [n]."""
    if sums == "sum":
        return None
    if sums == "mean":
        return _inverse(part.degree_n, signed=True)
    _, needs_loop_n = missing_loops(part.local)
    return _inverse(part.degree_n + needs_loop_n).sqrt()


def weighted_cross_edges(sums: str, edges: Csr, factor_M: Tensor | None) -> Csr:
    """Edges between parts as `gcn`, `mean` or `sum` weighs them, from the `row_factor` of all parts."""
    return edges if factor_M is None else _scaled(edges, factor_M, factor_M if sums == "gcn" else None)


def _gcn(part: Part, halo_column: HaloColumn) -> Blocks:
    loops, factor_n = missing_loops(part.local)[0], row_factor("gcn", part)
    assert factor_n is not None
    factor_H = halo_column(factor_n)
    of_peer = dict(
        zip(part.remote, torch.split(factor_H, [block.num_columns for block in part.remote.values()]), strict=True)
    )
    return _scaled(add(part.local, loops), factor_n, factor_n), {
        peer: _scaled(block, factor_n, of_peer[peer]) for peer, block in part.remote.items()
    }


def _mean(part: Part) -> Blocks:
    share_n = row_factor("mean", part)
    assert share_n is not None
    return _scaled(part.local, share_n, None), {
        peer: _scaled(block, share_n, None) for peer, block in part.remote.items()
    }


def missing_loops(local: Csr) -> tuple[Csr, Tensor]:
    """A self-loop for each row that has none, as a matrix and as a bool [n]."""
    row_E = local.row_E
    needs_loop_n = torch.ones(local.num_rows, dtype=torch.bool)
    needs_loop_n[row_E[row_E == local.indices]] = False
    indices = needs_loop_n.nonzero().squeeze(1).to(local.indices.dtype)
    indptr = indptr_of(needs_loop_n, local.indptr.dtype)
    return Csr(indptr=indptr, indices=indices, weights=None, num_columns=local.num_columns), needs_loop_n


def edge_feature_sums(blocks: Sequence[Csr]) -> Tensor:
    """The sum of the features of each row's edges, times their weights: float32 [n, D].

    Args:
        blocks: the edges of the same rows from several ranks, all with features.
    """
    return torch.stack([_feature_sums(block) for block in blocks]).sum(0)


def _feature_sums(block: Csr) -> Tensor:
    assert block.features is not None
    numbers_E = torch.arange(block.num_edges, dtype=block.indptr.dtype)
    return weighted_row_sums(block.indptr, numbers_E, block.weights, block.features)


def edge_feature_maxima(blocks: Sequence[Csr]) -> Tensor:
    """The greatest feature of each row's edges, feature by feature, 0 without edges: float32 [n, D]; see above."""
    maxima = [
        torch.segment_reduce(
            block.features, "max", lengths=block.indptr.diff().long(), initial=float("-inf"), unsafe=True
        )
        for block in blocks
        if block.features is not None
    ]
    greatest_nD = torch.stack(maxima).amax(0)
    return greatest_nD.masked_fill_(greatest_nD == float("-inf"), 0)


def loop_features(needs_loop_n: Tensor, blocks: Sequence[Csr]) -> Tensor:
    """The features of the loops that `missing_loops` adds, in its order: the mean of those of the row's edges, or 0."""
    edges = [(block.row_E, block.features) for block in blocks if block.features is not None]
    width = edges[0][1].shape[1]
    sums_nD = torch.zeros(len(needs_loop_n), width, dtype=torch.float64)
    counts_n = torch.zeros(len(needs_loop_n), dtype=torch.int64)
    for row_E, features_ED in edges:
        sums_nD.index_add_(0, row_E, features_ED.double())
        counts_n += row_E.bincount(minlength=len(counts_n))
    return (sums_nD / counts_n.clamp_(min=1).unsqueeze(1))[needs_loop_n].float()


def _inverse(values: Tensor, *, signed: bool = False) -> Tensor:
    """1/value, and 0 where the value is 0 (or below, unless `signed`)."""
    usable = values != 0 if signed else values > 0
    return torch.where(usable, 1 / values, 0)


def _scaled(csr: Csr, row_factor_n: Tensor, column_factor: Tensor | None) -> Csr:
    weights = row_factor_n[csr.row_E]
    if column_factor is not None:
        weights *= column_factor[csr.indices]
    if csr.weights is not None:
        weights *= csr.weights
    return replace(csr, weights=weights)
