"""Nested groups of ranks by link bandwidth, for partitioners that cut across the slow links first.

The bandwidth of a pair of ranks is its share when all pairs send at once: the minimum, over the links of its route, of
the link's bandwidth divided by the number of pairs that are routed over it. So a machine's network card, which
many pairs share, is slower than its bandwidth says.

Ranks are joined from the best bandwidth down (average linkage: Sokal, Michener 1958). Clusters that are all joined to
each other at about the same bandwidth become one group at once; where the best links form no such clique (the rings of
a hybrid cube mesh), the two clusters are joined that have most good neighbours in common.

Letters: P ranks, K clusters.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from graphprep.partition.methods.rank_groups import RankGroup, ranks_in
from graphprep.topology import Topology
from graphprep.traffic import LinkModel

ONE_LEVEL = 1.25
"""Bandwidths within this factor count as alike."""


def rank_groups(topology: Topology) -> RankGroup:
    """The ranks of a topology as nested groups; a single rank is its number."""
    return groups_of(pair_bandwidth(topology))


def pair_bandwidth(topology: Topology) -> NDArray[np.float64]:
    """float64 [P, P], symmetric: bytes a second of each pair while all pairs send; infinite on the diagonal."""
    model = LinkModel.of(topology)
    pairs_D = np.asarray(model.crossed.sum(axis=1), np.float64).ravel()
    seconds_PP = _worst_hop(model, pairs_D / model.bytes_per_s_D)
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / np.maximum(seconds_PP, seconds_PP.T))


def pair_seconds(topology: Topology) -> NDArray[np.float64]:
    """float64 [P, P], symmetric: link seconds that one byte from p to q takes on all links of its route together."""
    model = LinkModel.of(topology)
    seconds_PP = (model.crossed.T @ (1.0 / model.bytes_per_s_D)).reshape(model.num_ranks, model.num_ranks)
    return np.asarray((seconds_PP + seconds_PP.T) / 2)


def _worst_hop(model: LinkModel, seconds_D: NDArray[np.float64]) -> NDArray[np.float64]:
    crossings = sparse.coo_array(model.crossed)
    direction, pair = crossings.coords
    worst = np.zeros(model.num_ranks**2)
    np.maximum.at(worst, pair, seconds_D[direction])
    return worst.reshape(model.num_ranks, model.num_ranks)


def groups_of(bandwidth_PP: NDArray[np.float64]) -> RankGroup:
    """Nested groups from pair bandwidths, float64 [P, P], symmetric; the diagonal is ignored."""
    clusters: list[RankGroup] = list(range(len(bandwidth_PP)))
    joined_at = [np.inf] * len(clusters)
    sizes_K = np.ones(len(clusters))
    linkage_KK = bandwidth_PP.astype(np.float64)
    np.fill_diagonal(linkage_KK, -np.inf)
    while len(clusters) > 1:
        members = _to_join(linkage_KK, sizes_K)
        inner = linkage_KK[np.ix_(members, members)]
        level = float(inner[np.isfinite(inner)].mean())
        parts: list[RankGroup] = []
        for k in members:
            cluster = clusters[k]
            alike = isinstance(cluster, list) and joined_at[k] < ONE_LEVEL * level
            parts += cluster if alike and isinstance(cluster, list) else [cluster]
        parts.sort(key=lambda part: ranks_in(part)[0])
        first, rest = members[0], members[1:]
        row_K = np.average(linkage_KK[members], axis=0, weights=sizes_K[members])
        linkage_KK[first], linkage_KK[:, first] = row_K, row_K
        linkage_KK[first, first] = -np.inf
        sizes_K[first] = sizes_K[members].sum()
        clusters[first], joined_at[first] = parts, level
        clusters = [cluster for k, cluster in enumerate(clusters) if k not in rest]
        joined_at = [bandwidth for k, bandwidth in enumerate(joined_at) if k not in rest]
        sizes_K = np.delete(sizes_K, rest)
        linkage_KK = np.delete(np.delete(linkage_KK, rest, axis=0), rest, axis=1)
    return clusters[0]


def _to_join(linkage_KK: NDArray[np.float64], sizes_K: NDArray[np.float64]) -> list[int]:
    """The clusters that are joined next, ascending."""
    best = linkage_KK.max()
    good_KK = linkage_KK >= best / ONE_LEVEL
    _, label_K = connected_components(good_KK, directed=False)
    a, b = np.nonzero(np.triu(linkage_KK >= best * (1 - 1e-9)))
    members = np.flatnonzero(label_K == label_K[a[0]])
    if good_KK[np.ix_(members, members)].sum() == len(members) * (len(members) - 1):
        return [int(k) for k in members]
    # Infinite only on the diagonal, where a cluster's link to itself must count for nothing.
    known_KK = np.where(np.isfinite(linkage_KK), linkage_KK, 0.0)
    in_common = (np.minimum(known_KK[a], known_KK[b]) * sizes_K).sum(axis=1)
    choice = int(np.argmax(in_common > in_common.max() * (1 - 1e-9)))
    return [int(a[choice]), int(b[choice])]
