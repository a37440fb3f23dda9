"""Digits: the same graph everywhere, and one on which a GCN is good."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from graphprep.core.types import RawGraph
from graphprep.datasets import readers, registry
from graphprep.datasets.readers.digits import neighbour_pairs


@pytest.fixture(scope="module")
def digits() -> RawGraph:
    return readers.read(Path("nowhere"), registry.entry("digits"))


def test_counts(digits: RawGraph) -> None:
    """What the registry promises."""
    nodes = digits.nodes["node"]
    assert nodes.num_nodes == 1797
    assert nodes.x is not None
    assert nodes.y is not None
    assert (nodes.x.shape, nodes.x.dtype, nodes.y.dtype) == ((1797, 64), np.float32, np.int64)
    assert (nodes.x.min(), nodes.x.max()) == (0, 1)
    assert set(nodes.y.tolist()) == set(range(10))
    for name, count in (("train_mask", 200), ("val_mask", 300), ("test_mask", 1297)):
        assert getattr(nodes, name).sum() == count
    assert digits.treatment.undirected


def test_graph_is_pinned(digits: RawGraph) -> None:
    """Ties between equally near images must be broken alike on every machine and by every BLAS."""
    (chunk,) = digits.edges[0].chunks()
    assert digits.edges[0].num_edges == len(chunk.src) == 9929
    assert (chunk.src < chunk.dst).all()
    joined = np.stack([chunk.src, chunk.dst]).astype("<i8").tobytes()
    assert hashlib.sha256(joined).hexdigest() == "3025607cdeeb4eb550945876da23671b45ba5b7b885fffad933004c52a969257"


def test_neighbours_are_the_nearest() -> None:
    """Every node must be joined to all that are nearer than its k-th neighbour, and have k at least."""
    pixels, _ = load_digits(return_X_y=True)
    low, high = neighbour_pairs(pixels, 8)
    assert len(np.unique(low * 1797 + high)) == len(low)
    assert np.bincount(np.r_[low, high], minlength=1797).min() >= 8
    distances, near = NearestNeighbors(n_neighbors=9, algorithm="brute").fit(pixels).kneighbors()
    pairs = set(zip(low.tolist(), high.tolist(), strict=True))
    for node in range(1797):
        for other in near[node][distances[node] < distances[node][7] - 1e-6]:
            assert (min(node, other), max(node, other)) in pairs


def test_ties_go_to_the_lower_node() -> None:
    """Four points at the corners of a square: each has two nearest, and one of them has to go."""
    corners = np.array([[0.0, 0], [0, 1], [1, 1], [1, 0]])
    low, high = neighbour_pairs(corners, 1)
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == [(0, 1), (0, 3), (1, 2)]


def test_two_layer_gcn_reaches_95_percent(digits: RawGraph) -> None:
    """The dataset is the first that people train on; a graph or a split that makes it hard would be noticed late."""
    import torch
    from torch.nn.functional import cross_entropy, dropout
    from torch_geometric.nn import GCNConv

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a model only loses by more
    torch.manual_seed(0)
    nodes = digits.nodes["node"]
    x, y = torch.tensor(nodes.x), torch.tensor(nodes.y)
    (chunk,) = digits.edges[0].chunks()
    one_way = torch.tensor(np.stack([chunk.src, chunk.dst]))
    edges = torch.cat([one_way, one_way.flip(0)], dim=1)
    train, test = (torch.tensor(getattr(nodes, f"{part}_mask")[:, 0]) for part in ("train", "test"))
    first, second = GCNConv(64, 32, cached=True), GCNConv(32, 10, cached=True)
    optimiser = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.02, weight_decay=5e-4)
    for epoch in range(81):
        learning = epoch < 80
        hidden = dropout(first(dropout(x, 0.5, learning), edges).relu(), 0.5, learning)
        scores = second(hidden, edges)
        if learning:
            optimiser.zero_grad()
            cross_entropy(scores[train], y[train]).backward()
            optimiser.step()
    torch.set_num_threads(threads)
    assert (scores.argmax(1) == y)[test].float().mean() >= 0.95
