"""`graphprep.link_loader`: pairs with their labels and random ones, and no edge that gives a pair away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graphprep as gp
from graphprep.errors import UsageError
from graphprep.store.store import GraphStore
from graphprep.topology import Topology
from tests.graphs import labelled_graph, typed_graph
from tests.interop.test_batch_loader import same
from tests.stores import make_cache, make_store


@pytest.fixture
def store() -> GraphStore:
    """A small undirected graph."""
    return make_store(labelled_graph(np.random.default_rng(4), 60, 300, undirected=True))


def pairs_of(batch: Any) -> torch.Tensor:
    """Both ends of each pair, in the store's numbers: [2, pairs]."""
    return batch.n_id[batch.edge_label_index]


def test_all_edges_are_pairs_once(store: GraphStore, tmp_path: Path) -> None:
    """Guards against pairs left out, ends numbered wrongly, and batches that depend on workers or parts."""
    cache = make_cache(store, Topology.flat(2), tmp_path / "cache")
    options: dict[str, Any] = {"num_neighbors": [3, 2], "batch_size": 64, "neg_sampling_ratio": 1.5, "seed": 2}
    batches = list(gp.link_loader(store, num_workers=0, **options))
    for one, other in zip(batches, gp.link_loader(cache, num_workers=2, **options), strict=True):
        assert same(one, other)
    edge_index = store.to_pyg().edge_index
    seen = []
    for batch in batches:
        count = len(batch.input_id)
        assert batch.edge_label.tolist() == [1.0] * count + [0.0] * (-(-3 * count // 2))
        assert pairs_of(batch)[:, :count].equal(edge_index[:, batch.input_id])
        assert batch.edge_label_index.max() < batch.num_sampled_nodes[0]
        assert batch.n_id.unique().numel() == batch.num_nodes
        seen.append(batch.input_id)
    assert torch.cat(seen).sort().values.equal(torch.arange(edge_index.shape[1]))


def test_random_pairs_are_even_and_of_their_pair(store: GraphStore) -> None:
    """Guards against random pairs that depend on the batch, and against nodes that are drawn more often."""
    small, large = (
        {
            int(place): [
                pairs_of(batch)[:, len(batch.input_id) + at + copy * len(batch.input_id)].tolist() for copy in (0, 1)
            ]
            for batch in gp.link_loader(store, num_neighbors=[1], batch_size=size, neg_sampling_ratio=2)
            for at, place in enumerate(batch.input_id)
        }
        for size in (7, 100)
    )
    assert small == large
    ends = np.concatenate([pairs_of(batch)[:, len(batch.input_id) :].flatten() for batch in draws(store, epochs=40)])
    counts = np.bincount(ends, minlength=60)
    # Chi-square with 59 degrees of freedom: 1 in 10,000 is above 106.
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 106


def draws(store: GraphStore, *, epochs: int) -> list[Any]:
    """The batches of some epochs."""
    loader = gp.link_loader(store, num_neighbors=[0], batch_size=1000)
    return [batch for _ in range(epochs) for batch in loader]


def test_a_pair_is_no_edge_of_its_batch(store: GraphStore) -> None:
    """Guards against a model that reads its labels from the graph, in either direction."""
    options: dict[str, Any] = {"num_neighbors": [-1, -1], "batch_size": 16}
    found = 0
    for batch, whole in zip(
        gp.link_loader(store, **options), gp.link_loader(store, exclude=False, **options), strict=True
    ):
        ends = {tuple(pair) for pair in pairs_of(batch)[:, : len(batch.input_id)].T.tolist()}
        edges = [tuple(edge) for edge in batch.n_id[batch.edge_index].T.tolist()]
        assert not ends & {*edges, *((end, start) for start, end in edges)}
        stays = [
            tuple(edge) not in ends and tuple(edge)[::-1] not in ends
            for edge in whole.n_id[whole.edge_index].T.tolist()
        ]
        assert batch.e_id.equal(whole.e_id[stays])
        assert sum(batch.num_sampled_edges) == len(batch.e_id)
        found += len(stays) - sum(stays)
    assert found > 0


def test_labels_and_pairs_of_ones_own(store: GraphStore) -> None:
    """Guards against labels of other pairs, and against random pairs beside them."""
    pairs, label = torch.tensor([[0, 5, 9], [3, 3, 3]]), torch.tensor([2, 0, 1])
    loader = gp.link_loader(store, num_neighbors=[2], edge_label_index=pairs, edge_label=label, batch_size=2)
    for batch in loader:
        assert pairs_of(batch).equal(pairs[:, batch.input_id])
        assert batch.edge_label.equal(label[batch.input_id])


def test_several_types() -> None:
    """Guards against ends among the nodes of the other type."""
    store = make_store(typed_graph(np.random.default_rng(6)))
    kind = next(kind for kind in store.num_edges if kind.source != kind.destination)
    whole = store.to_pyg()[tuple(kind)].edge_index
    for batch in gp.link_loader(store, num_neighbors=[2, 2], edge_type=kind, batch_size=20):
        edges = batch[tuple(kind)]
        first, second = edges.edge_label_index[:, : len(edges.input_id)]
        assert batch[kind.source].n_id[first].equal(whole[0, edges.input_id])
        assert batch[kind.destination].n_id[second].equal(whole[1, edges.input_id])


def test_times_of_pairs() -> None:
    """Guards against edges that are later than the pair they are to predict."""
    graph = gp.from_arrays(
        np.stack([np.arange(400) % 20, np.arange(400) * 7 % 20]), edge_time=np.arange(400), num_nodes=20
    )
    for batch in gp.link_loader(graph, num_neighbors=[5, 5], time="edges", batch_size=50):
        pairs = batch.edge_label_index.shape[1]
        limit = torch.cat([batch.edge_label_time, batch.edge_label_time])
        assert (batch.edge_time <= limit[batch.batch[batch.edge_index[1]]]).all()
        assert batch.batch[batch.edge_label_index].equal(torch.arange(2 * pairs).view(2, pairs))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"edge_label_index": [[1], [60]]}, r"edge_label_index\[1\]\[0\] is 60; nodes are 0 .. 59"),
        ({"edge_label_index": [1, 2]}, r"edge_label_index has shape \(2,\)"),
        ({"edge_label_index": [[1, 2], [3, 4]], "edge_label": [1]}, "edge_label has 1 rows for 2 pairs"),
        ({"edge_label_index": [[1], [3]], "edge_label": [1], "neg_sampling_ratio": 1}, "given beside edge_label"),
        ({"neg_sampling_ratio": -1}, "neg_sampling_ratio is below 0"),
        ({"edge_label_time": [1]}, "edge_label_time needs the times"),
        ({"edge_label_index": np.ones((2, 60), bool)}, "edge_label_index is bool"),
        ({"edge_label_index": [[1], [3]], "edge_label": 1}, "edge_label has no rows for 1 pairs"),
        ({"edge_label_index": [[1], [3]], "edge_label": ["a"]}, "edge_label is <U1; give numbers"),
        ({"neg_sampling_ratio": float("nan")}, "neg_sampling_ratio is nan"),
        ({"neg_sampling_ratio": "1"}, "neg_sampling_ratio is '1'"),
        ({"edge_type": 5}, "there is no edge type 5"),
        ({"edge_type": "a__b__c"}, "there is no edge type 'a__b__c'"),
    ],
)
def test_arguments_that_do_not_fit(store: GraphStore, options: dict[str, Any], sentence: str) -> None:
    """Guards against tracebacks, and against batches of something else than was meant."""
    with pytest.raises(UsageError, match=sentence):
        gp.link_loader(store, num_neighbors=[2], **options)
