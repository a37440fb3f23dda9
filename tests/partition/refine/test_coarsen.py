"""Clusters of nodes that share nets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from graphprep.core import csr
from graphprep.core.types import EdgeChunk
from graphprep.partition.refine.coarsen import HUB_PINS, cluster
from graphprep.partition.refine.hypergraph import row_nets
from tests.graphs import csr_of


def test_an_undirected_graph_has_the_clusters_of_its_nets() -> None:
    """Guards against clusters that depend on how nets are kept, above all of a hub, whose own net does not count.

    All degrees are powers of two, so that ratings are exact in whichever order they are summed.
    """
    size = 2 * HUB_PINS
    ring = np.arange(size)
    src = np.concatenate([ring, ring[: size // 2], ring])
    dst = np.concatenate([(ring + 1) % size, ring[: size // 2] + size // 2, np.full(size, size)])
    matrix = csr.undirected_simple(csr_of(EdgeChunk(src, dst), size + 1))
    assert set(np.diff(matrix.indptr)) == {4, size}
    nets = row_nets(matrix, matrix)
    part_X, weight_X0 = np.zeros(size + 1, np.int32), np.empty((size + 1, 0))
    found = [
        cluster(each, part_X, weight_X0, most_C=np.empty(0), nodes_a_cluster=8, seed=1)
        for each in (nets, replace(nets, is_mirrored=False))
    ]
    assert np.array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1] < size / 2
