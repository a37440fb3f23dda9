"""A loop of one's own over parts of a graph of several types, with PyTorch Geometric's typed models."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GATConv, GCNConv, GraphConv, HANConv, HeteroConv, HGTConv, SAGEConv, to_hetero

from tests.trainer.rank_group import among_ranks, run_options
from tests.trainer.typed_cache import TypedGraph, make_typed_cache, typed_graph
from trainer.base.errors import OptionError, TrainingError
from trainer.data.cache import open_cache
from trainer.dist.communicator import Communicator
from trainer.distributed_graph import DistributedGraph

EPOCHS, CLASSES, WORLDS = 4, 3, (1, 3)
CITES = ("paper", "cites", "paper")
Edges = dict[tuple[str, str, str], Tensor]


class Typed(nn.Module):
    """Layers over all types, with learnt rows for subjects, which have no features."""

    def __init__(self, *layers: nn.Module, weighted: bool = False) -> None:
        super().__init__()
        self.subjects, self.weighted = nn.Embedding(7, 4), weighted
        self.layers = nn.ModuleList(layers)
        self.out = nn.Linear(8, CLASSES)

    def forward(self, x_dict: dict[str, Tensor], edges: Edges, subjects: Tensor, weights: Edges) -> Tensor:
        rows = {**x_dict, "subject": self.subjects(subjects)}
        for layer in self.layers:
            more = {"edge_weight_dict": weights} if self.weighted else {}
            rows = {name: of_type.relu() for name, of_type in layer(rows, edges, **more).items()}
        scores: Tensor = self.out(rows["paper"])
        return scores


def relations(graph: TypedGraph) -> list[tuple[str, str, str]]:
    return [(one.source, one.name, one.destination) for one in graph.relations]


class Sage(nn.Module):
    """A model of one type, which to_hetero makes one of several."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = SAGEConv((-1, -1), 8), SAGEConv((-1, -1), 8)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.two(self.one(x, edge_index).relu(), edge_index)
        return out


def model_of(kind: str, graph: TypedGraph) -> Typed:
    """A model with the same first weights each time."""
    torch.manual_seed(2)
    keys = relations(graph)

    def mixed() -> nn.Module:
        convs: dict[tuple[str, str, str], nn.Module] = {key: SAGEConv((-1, -1), 8) for key in keys}
        convs["author", "writes", "paper"] = GATConv((-1, -1), 4, heads=2, add_self_loops=False)
        convs["paper", "about", "subject"] = GraphConv((-1, -1), 8)
        return HeteroConv(convs, aggr="sum")

    def gcn() -> nn.Module:
        convs: dict[tuple[str, str, str], nn.Module] = {CITES: GCNConv(-1, 8)}
        convs |= {("paper", "by", "author"): GraphConv((-1, -1), 8), ("subject", "of", "paper"): GraphConv((-1, -1), 8)}
        return HeteroConv(convs, aggr="sum")

    metadata = (list(graph.x), keys)
    return {
        "mixed": lambda: Typed(mixed(), mixed()),
        "gcn": lambda: Typed(gcn(), HeteroConv({CITES: GCNConv(-1, 8)}), weighted=True),
        "to_hetero": lambda: Typed(to_hetero(Sage(), metadata)),
        "hgt": lambda: Typed(HGTConv({"author": 3, "paper": 5, "subject": 4}, 8, metadata, 2), HGTConv(8, 8, metadata)),
    }[kind]()


KINDS = ("mixed", "gcn", "to_hetero", "hgt")


def loss_of(scores: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    return functional.cross_entropy(scores[mask], y[mask], reduction="sum")


def whole_run(graph: TypedGraph, kind: str) -> tuple[dict[str, Tensor], list[float], Tensor]:
    """First weights, losses and last scores of PyTorch Geometric's own full-batch training."""
    model, y = model_of(kind, graph), torch.from_numpy(graph.y)
    x_dict = {name: torch.from_numpy(x) for name, x in graph.x.items() if x.shape[1]}
    pairs = list(zip(relations(graph), graph.relations, strict=True))
    edges = {key: torch.from_numpy(np.stack([one.src, one.dst])) for key, one in pairs}
    weights = {key: torch.from_numpy(one.weight) for key, one in pairs if one.weight is not None}
    data = (x_dict, edges, torch.arange(7), weights)
    with torch.no_grad():
        model(*data)  # which gives lazy weights their shapes
    first = {name: value.clone() for name, value in model.state_dict().items()}
    optimiser, losses, train = torch.optim.Adam(model.parameters(), lr=0.02), [], torch.from_numpy(graph.role < 2)
    for _ in range(EPOCHS):
        optimiser.zero_grad()
        loss = loss_of(model(*data), y, train) / int(train.sum())
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(float(loss.detach()))
    with torch.no_grad():
        return first, losses, model(*data)


def own_run(
    communicator: Communicator, *, cache: str, kind: str, first: dict[str, Tensor]
) -> tuple[list[float], Tensor, float]:
    """Losses and last scores in the dataset's order of a loop over parts, and how far lazy weights were apart."""
    graph = DistributedGraph(run_options(cache), open_cache(cache), communicator)
    model = model_of(kind, typed_graph())
    graph.distribute(model)
    data = (graph.x_dict, graph.edge_index_dict, graph.node_ids_dict["subject"], graph.edge_weight_dict)
    torch.manual_seed(communicator.rank)
    with torch.no_grad():
        model(*data)  # which draws lazy weights, other ones on each rank
    drawn = torch.cat([value.ravel() for value in model.state_dict().values()]).double()
    apart = abs(graph.total(drawn.sum()) - graph.world_size * float(drawn.sum()))
    if communicator.rank == 0:
        model.load_state_dict(first)
    graph.broadcast_weights(model)
    optimiser, losses = torch.optim.Adam(model.parameters(), lr=0.02), []
    num_train = graph.total(graph.train_mask.sum())
    for epoch in range(1, EPOCHS + 1):
        graph.begin_epoch(epoch)
        optimiser.zero_grad()
        loss = loss_of(model(*data), graph.y, graph.train_mask) / num_train
        loss.backward()  # type: ignore[no-untyped-call]
        graph.sum_gradients(model)
        optimiser.step()
        losses.append(graph.total(loss.detach()))
    with torch.no_grad():
        own_nC = model(*data)
    scores = torch.zeros(48, CLASSES)
    scores[graph.node_ids] = own_nC
    return losses, communicator.all_reduce(scores), apart


@pytest.fixture(scope="module")
def typed_caches(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Caches of one and three parts of one graph; the first part is the largest."""
    root, graph, rng = tmp_path_factory.mktemp("typed"), typed_graph(), np.random.default_rng(4)
    return {
        parts: make_typed_cache(
            root / str(parts),
            graph,
            {name: np.minimum(rng.integers(0, parts + 1, len(x)), parts - 1) for name, x in graph.x.items()},
            parts,
        )
        for parts in WORLDS
    }


@pytest.fixture(scope="module")
def whole_runs() -> dict[str, tuple[dict[str, Tensor], list[float], Tensor]]:
    return {kind: whole_run(typed_graph(), kind) for kind in KINDS}


@pytest.fixture(scope="module")
def own_runs(typed_caches: dict[int, Path], whole_runs: dict[str, Any]) -> dict[tuple[str, int], Any]:
    """The runs of all kinds on 1 and 3 ranks."""
    found = {}
    for world in WORLDS:
        run = partial(own_run, cache=str(typed_caches[world]))
        runs = among_ranks(world, [partial(run, kind=kind, first=whole_runs[kind][0]) for kind in KINDS])
        found |= {(kind, world): one for kind, one in zip(KINDS, runs, strict=True)}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world", WORLDS)
def test_typed_models_compute_and_learn_as_on_the_whole_graph(
    own_runs: dict[tuple[str, int], Any], whole_runs: dict[str, Any], kind: str, world: int
) -> None:
    """Guards against halo rows of another type, gradients that do not reach the owners of sources, and lazy weights
    that are others on each rank."""
    _, losses, scores = whole_runs[kind]
    found, found_scores, apart = own_runs[kind, world]
    assert apart < 1e-9
    assert found == pytest.approx(losses, rel=1e-5)
    assert torch.allclose(found_scores, scores, atol=1e-4)
    assert losses[-1] < losses[0]


@pytest.fixture
def graph(typed_caches: dict[int, Path]) -> DistributedGraph:
    return DistributedGraph.open(typed_caches[1])


def test_what_a_typed_graph_has(graph: DistributedGraph, typed_caches: dict[int, Path]) -> None:
    whole = typed_graph()
    assert graph.node_type == "paper"
    assert {name: x.shape for name, x in graph.x_dict.items()} == {"author": (31, 3), "paper": (48, 5)}
    assert graph.num_nodes_dict == {"author": 31, "paper": 48, "subject": 7}
    assert list(graph.edge_index_dict) == relations(whole)
    assert list(graph.edge_weight_dict) == [CITES]
    assert int(graph.train_mask.sum()) == int((whole.role < 2).sum())
    with pytest.raises(TrainingError, match="several edge types; use edge_index_dict, by"):
        graph.edge_index  # noqa: B018
    with pytest.raises(OptionError, match="author"):
        DistributedGraph.open(typed_caches[1], target="author")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda: HeteroConv({CITES: GATConv(5, 4)}), "other edges than the graph's tensors in edge_index_dict"),
        (lambda: HeteroConv({("paper", "by", "author"): SAGEConv((5, 2), 4)}), "other rows than the 48 and 31"),
        (lambda: HANConv(5, 4, (["paper"], [CITES])), "takes all types at once, which only HGTConv can"),
    ],
)
def test_layers_that_would_be_wrong_are_refused(graph: DistributedGraph, model: Any, words: str) -> None:
    made = model()
    graph.distribute(made)
    edges = {**graph.edge_index_dict, CITES: graph.edge_index_dict[CITES].clone()}
    x_dict = {"paper": graph.x_dict["paper"], "author": graph.x_dict["author"][:5]}
    with pytest.raises(TrainingError, match=words):
        made(x_dict, edges)
