"""Nested groups of ranks by link bandwidth: ranks of a machine, machines of a rack.

Partitioners cut across the slow links between them first, and relayed exchange (`graphprep.traffic.relay`) sends a row
once to each group.

The bandwidth of a pair of ranks is its share when all pairs send at once: the minimum, over the links of its route, of
the link's bandwidth divided by the number of pairs that are routed over it. So a machine's network card, which
many pairs share, is slower than its bandwidth says.

Ranks are joined from the best bandwidth down (average linkage: Sokal, Michener 1958). Clusters that are all joined to
each other at about the same bandwidth become one group at once; where the best links form no such clique (the rings of
a hybrid cube mesh), the two clusters are joined that have most good neighbours in common.

Letters: P ranks, K clusters, D link directions, L levels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from graphprep.topology.crossings import crossings
from graphprep.topology.network import Topology
from graphprep.topology.rank_groups import RankGroup, levels, ranks_in

ONE_LEVEL = 1.25
"""Bandwidths within this factor count as alike."""


def rank_groups(topology: Topology) -> RankGroup:
    """The ranks of a topology as nested groups; a single rank is its number."""
    return groups_of(pair_bandwidth(topology))


def group_levels(group: RankGroup) -> NDArray[np.int32]:
    """int32 [L, P]: the number of each rank's group on every level from the top one down; L is 0 without groups.

    A rank that is no member of a group on a level is one by itself there. Ranks of one group on a level are of one
    group on all levels above.
    """
    num_ranks = len(ranks_in(group))
    number_LP = np.zeros((max(0, levels(group) - 1), num_ranks), np.int32)
    parts = [group]
    for number_P in number_LP:
        parts = [inner for part in parts for inner in ([part] if isinstance(part, int) else part)]
        for number, part in enumerate(parts):
            number_P[ranks_in(part)] = number
    return number_LP


def pair_bandwidth(topology: Topology) -> NDArray[np.float64]:
    """float64 [P, P], symmetric: bytes a second of each pair while all pairs send; infinite on the diagonal."""
    crossed = crossings(topology)
    pairs_D = np.asarray(crossed.sum(axis=1), np.float64).ravel()
    direction, pair = sparse.coo_array(crossed).coords
    worst = np.zeros(topology.num_ranks**2)
    np.maximum.at(worst, pair, (pairs_D * _seconds_a_byte(topology))[direction])
    seconds_PP = worst.reshape(topology.num_ranks, topology.num_ranks)
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / np.maximum(seconds_PP, seconds_PP.T))


def pair_seconds(topology: Topology) -> NDArray[np.float64]:
    """float64 [P, P], symmetric: link seconds that one byte from p to q takes on all links of its route together."""
    seconds = crossings(topology).T @ _seconds_a_byte(topology)
    seconds_PP = seconds.reshape(topology.num_ranks, topology.num_ranks)
    return np.asarray((seconds_PP + seconds_PP.T) / 2)


def _seconds_a_byte(topology: Topology) -> NDArray[np.float64]:
    """float64 [D], of each link direction."""
    return np.array([1 / (link.gbytes_per_s * 1e9) for link in topology.links for _ in range(2)], np.float64)


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
