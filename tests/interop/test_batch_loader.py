"""`graphprep.loader`: PyG's batches, the same from a store and a cache, for any number of workers and ranks."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import trim_to_layer

import graphprep as gp
from graphprep.errors import UsageError
from graphprep.sampling.samplers import neighbour as sampler
from graphprep.store.store import GraphStore
from graphprep.topology import Topology
from tests.graphs import labelled_graph, typed_graph
from tests.stores import make_cache, make_store


@pytest.fixture
def store() -> GraphStore:
    """A small weighted graph."""
    return make_store(labelled_graph(np.random.default_rng(4), 90, 700, weighted=True))


def same(one: Any, other: Any) -> bool:
    """Whether two batches are equal in everything."""
    mine, its = one.to_dict(), other.to_dict()
    return str(mine.keys()) == str(its.keys()) and all(same_values(mine[key], its[key]) for key in mine)


def same_values(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_values(one[key], other[key]) for key in one)
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else bool(one == other)


def test_batches_of_a_store_and_of_a_cache_are_one(store: GraphStore, tmp_path: Path) -> None:
    """Guards against draws that depend on parts, workers or ranks, and against rows of other nodes."""
    cache = make_cache(store, Topology.flat(3), tmp_path / "cache")
    options: dict[str, Any] = {"num_neighbors": [4, 2], "batch_size": 7, "seed": 5}
    expected = list(gp.loader(store, num_workers=0, **options))
    for loader in (gp.loader(cache, num_workers=3, **options), gp.loader(str(tmp_path / "cache"), **options)):
        assert len(loader) == len(expected)
        for one, other in zip(expected, loader, strict=True):
            assert same(one, other)
    ranks = [list(gp.loader(cache, rank=rank, world_size=2, **options)) for rank in range(2)]
    for number, batch in enumerate(expected):
        assert same(batch, ranks[number % 2][number // 2])
    whole = store.to_pyg()
    train = whole.train_mask.nonzero().view(-1)
    seen = torch.cat([train[batch.input_id] for batch in expected])
    assert seen.sort().values.equal(train)
    for batch in expected:
        assert isinstance(batch, Data)
        assert batch.validate()
        assert batch.n_id[: batch.batch_size].equal(train[batch.input_id])
        for name in ("x", "y", "train_mask"):
            assert batch[name].equal(whole[name][batch.n_id])
        assert batch.edge_weight.equal(whole.edge_weight[batch.e_id])
        assert batch.n_id[batch.edge_index].equal(whole.edge_index[:, batch.e_id])


def test_an_iteration_is_an_epoch(store: GraphStore) -> None:
    """Guards against the same draws in every epoch, and against an epoch that cannot be repeated."""
    loader = gp.loader(store, num_neighbors=[2], batch_size=50)
    first, second = list(loader), list(loader)
    assert not same(first[0], second[0])
    loader.set_epoch(0)
    assert same(first[0], next(iter(loader)))


def test_all_neighbours_give_the_whole_graphs_outputs(store: GraphStore) -> None:
    """Guards against batches that layers of PyG, trimmed hop by hop, compute something else from."""
    torch.manual_seed(0)
    convs = [SAGEConv(5, 8), SAGEConv(8, 3)]
    whole = store.to_pyg()
    expected = convs[1](convs[0](whole.x, whole.edge_index).relu(), whole.edge_index)
    for batch in gp.loader(store, num_neighbors=[-1, -1], batch_size=16, input_nodes=None):
        x, edge_index = batch.x, batch.edge_index
        for layer, conv in enumerate(convs):
            x, edge_index, _ = trim_to_layer(layer, batch.num_sampled_nodes, batch.num_sampled_edges, x, edge_index)
            x = conv(x, edge_index)
            x = x.relu() if layer == 0 else x
        torch.testing.assert_close(x[: batch.batch_size], expected[batch.n_id[: batch.batch_size]])


def test_several_types(tmp_path: Path) -> None:
    """Guards against rows and edges of another type."""
    store = make_store(typed_graph(np.random.default_rng(6)))
    cache = make_cache(store, Topology.flat(3), tmp_path / "cache")
    whole = store.to_pyg()
    labelled = next(name for name in store.num_nodes if "y" in store.node_arrays(name))
    options: dict[str, Any] = {"num_neighbors": [3, 3], "batch_size": 10, "input_nodes": (labelled, None)}
    for batch, other in zip(gp.loader(store, **options), gp.loader(cache, **options), strict=True):
        assert same(batch, other)
        assert batch.validate()
        for name in store.num_nodes:
            if "x" in whole[name]:
                assert batch[name].x.equal(whole[name].x[batch[name].n_id])
        for kind in store.num_edges:
            edges = batch[tuple(kind)]
            ends = torch.stack(
                [batch[kind.source].n_id[edges.edge_index[0]], batch[kind.destination].n_id[edges.edge_index[1]]]
            )
            assert ends.equal(whole[tuple(kind)].edge_index[:, edges.e_id])


def test_times_of_seeds(tmp_path: Path) -> None:
    """Guards against seeds whose own times are not used, and against times that are lost."""
    times = np.arange(400)
    graph = gp.from_arrays(
        np.stack([np.arange(400) % 20, np.arange(400) * 7 % 20]), edge_arrays={"time": times}, num_nodes=20
    )
    batch = next(
        iter(gp.loader(graph, num_neighbors=[5, 5], time="edges", input_nodes=[3, 3, 4], input_time=[50, 390, 0]))
    )
    assert (batch.edge_time <= batch.seed_time[batch.batch[batch.edge_index[1]]]).all()
    assert len(batch.edge_time) > 0
    with pytest.raises(UsageError, match="node has no times of its own; give input_time"):
        gp.loader(graph, num_neighbors=[5], time="edges", input_nodes=[3])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"input_nodes": "trian"}, r"input_nodes is 'trian' \(did you mean 'train'\?\)"),
        ({"input_nodes": [1, 90]}, r"input_nodes\[1\] is 90; nodes are 0 .. 89"),
        ({"input_nodes": [1, 1]}, "input_nodes has a node twice"),
        ({"input_nodes": [0.5]}, "input_nodes are float64"),
        ({"input_nodes": ("paper", None)}, "there is no node type 'paper'"),
        ({"split": 1}, "there is no split 1"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"rank": 2, "world_size": 2}, "rank is 2"),
        ({"arrays": ["z"]}, "there is no array 'z'"),
        ({"time": "edges"}, "the edges have no array 'time'"),
        ({"time": "edge"}, "time is 'edge'"),
        ({"input_time": [1]}, "input_time needs"),
        ({"num_workers": -1}, "num_workers is -1"),
        ({"input_nodes": []}, "input_nodes has no nodes"),
        ({"num_neighbors": 5}, r"num_neighbors of node__to__node is 5; .* as \[15, 10\]"),
        ({"num_neighbors": [2**70]}, "num_neighbors of node__to__node is"),
        ({"num_neighbors": {"node__to__node": 5}}, "num_neighbors of node__to__node is 5"),
        ({"num_neighbors": {3: [5]}}, "there is no edge type 3"),
        ({"batch_size": 2.5}, "batch_size is 2.5; give a whole number"),
        ({"batch_size": None}, "batch_size is None"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"split": "0"}, "split is '0'"),
        ({"world_size": None}, "world_size is None"),
        ({"rank": 0.5, "world_size": 2}, "rank is 0.5"),
        ({"world_size": 0}, "rank is 0 of world_size 0"),
        ({"arrays": "xy"}, "arrays is 'xy'; give a list"),
        ({"drop_last": True}, "drop_last=True leaves no batch of"),
        ({"num_neighbors": None}, "num_neighbors is missing"),
        (
            {"sampler": "ladys"},
            r"sampler is 'ladys' \(did you mean 'ladies'\?\); give one of neighbour, ladies, vertices",
        ),
        ({"sampler": "ladies", "replace": True}, "replace has no meaning with sampler='ladies'"),
        ({"sampler": "vertices"}, "num_neighbors has no meaning with sampler='vertices'"),
        ({"sampler": "vertices", "num_neighbors": None, "shuffle": False}, "shuffle has no meaning"),
    ],
)
def test_arguments_that_do_not_fit(store: GraphStore, options: dict[str, Any], sentence: str) -> None:
    """Guards against tracebacks, and against batches of something else than was meant."""
    with pytest.raises(UsageError, match=sentence):
        gp.loader(store, **{"num_neighbors": [2], **options})


@pytest.mark.parametrize(
    "options",
    [{"sampler": "ladies", "num_neighbors": [12, 8], "batch_size": 7}, {"sampler": "vertices", "batch_size": 30}],
    ids=["ladies", "vertices"],
)
def test_other_samplers_make_batches_of_the_same_kind(
    store: GraphStore, tmp_path: Path, options: dict[str, Any]
) -> None:
    """Guards against draws that depend on parts, workers or ranks, rows of other nodes, and weights of the graph where
    those of the draws are meant."""
    cache = make_cache(store, Topology.flat(3), tmp_path / "cache")
    expected = list(gp.loader(store, num_workers=0, **options))
    for one, other in zip(expected, gp.loader(cache, num_workers=3, **options), strict=True):
        assert same(one, other)
    ranks = [list(gp.loader(cache, rank=rank, world_size=2, **options)) for rank in range(2)]
    for number, batch in enumerate(expected):
        assert same(batch, ranks[number % 2][number // 2])
    whole = store.to_pyg()
    for batch in expected:
        assert torch.equal(batch.x, whole.x[batch.n_id])
        assert torch.equal(batch.n_id[batch.edge_index], whole.edge_index[:, batch.e_id])
        assert batch.edge_weight.shape == batch.e_id.shape
        assert not torch.equal(batch.edge_weight, whole.edge_weight[batch.e_id])
        assert whole.train_mask[batch.n_id[: batch.batch_size]].all()


@pytest.mark.parametrize(
    "options",
    [{"num_neighbors": [3, 2]}, {"num_neighbors": [9, 6], "sampler": "ladies"}, {"sampler": "vertices"}],
    ids=["neighbour", "ladies", "vertices"],
)
def test_a_pickled_loader_makes_the_same_batches(store: GraphStore, options: dict[str, Any]) -> None:
    """Guards against a loader that cannot go to another process, as frameworks send them."""
    loader = gp.loader(store, batch_size=20, num_workers=0, **options)
    copy = pickle.loads(pickle.dumps(loader))
    assert all(same(one, other) for one, other in zip(loader, copy, strict=True))


def test_a_graph_that_is_no_store() -> None:
    """Guards against a traceback for who gives the Data itself, as PyG's own loader takes it."""
    with pytest.raises(UsageError, match="graph is of the type Data; give a store"):
        gp.loader(Data(), num_neighbors=[2])


def test_a_time_that_is_no_number() -> None:
    """Guards against trees without a limit: nothing is later than NaN."""
    graph = gp.from_arrays(np.array([[1, 2], [0, 0]]), edge_time=np.array([1.0, 2.0]), num_nodes=3)
    with pytest.raises(UsageError, match=r"input_time\[1\] is NaN"):
        gp.loader(graph, num_neighbors=[2], input_nodes=[0, 1], time="edges", input_time=[1.0, np.nan])


def test_original_ids_are_there_when_named() -> None:
    """Guards against ids that no batch can have, though only the default leaves them out."""
    graph = gp.from_arrays(np.array([[70, 50], [50, 60]]))
    (batch,) = gp.loader(graph, num_neighbors=[1], input_nodes=None, arrays=["original_id"], num_workers=0)
    assert batch.original_id.tolist() == [50 + 10 * node for node in batch.n_id.tolist()]


def test_batches_after_an_interrupted_one(store: GraphStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against numbers that Ctrl-C leaves behind, of nodes that the next batch does not have."""
    loader = gp.loader(store, num_neighbors=[3, 3], batch_size=20, num_workers=0)
    expected = list(loader)
    number_nodes = sampler.number_nodes

    def interrupted(*arguments: Any) -> Any:
        number_nodes(*arguments)
        raise KeyboardInterrupt

    loader.set_epoch(0)
    with monkeypatch.context() as patched:
        patched.setattr(sampler, "number_nodes", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(iter(loader))
    loader.set_epoch(0)
    assert all(same(one, other) for one, other in zip(expected, loader, strict=True))


def test_only_requested_arrays(store: GraphStore) -> None:
    """Guards against features that are gathered for nobody."""
    batch = next(iter(gp.loader(store, num_neighbors=[3], arrays=["y"])))
    assert "x" not in batch
    assert batch.y.equal(store.to_pyg().y[batch.n_id])
