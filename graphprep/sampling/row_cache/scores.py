"""Scores of rows for a cache that is filled once: how many neighbours a node has, how often an epoch needed it.

Visit probabilities are the third kind; see `graphprep.traffic.visits`. Letters: N nodes of a type, n rows of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from graphprep.sampling.graph import SamplingGraph


def degrees(graph: SamplingGraph, node_type: str) -> NDArray[np.int64]:
    """Edges that begin at each node, of all types: who has many is drawn often (PaGraph, Lin et al. 2020)."""
    count = np.zeros(graph.num_nodes[node_type], np.int64)
    for kind, matrix in graph.edges.items():
        if kind.source == node_type:
            count += np.bincount(matrix.indices, minlength=len(count))
    return count


def presampled_counts(num_nodes: int, batches: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    """How many of some batches, those of an epoch drawn beforehand, need each node (GNNLab, Yang et al. 2022)."""
    count = np.zeros(num_nodes, np.int64)
    for ids_n in batches:
        count[ids_n] += 1
    return count
