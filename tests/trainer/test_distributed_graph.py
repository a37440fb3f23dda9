"""A loop of one's own over parts, with PyTorch Geometric's layers: as one device with the whole graph computes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import (
    APPNP,
    GAT,
    GCN,
    GIN,
    BatchNorm,
    GCNConv,
    GraphConv,
    GraphSAGE,
    LayerNorm,
    LGConv,
    PNAConv,
    TransformerConv,
)

from tests.trainer.handmade_cache import HandmadeGraph
from tests.trainer.parity_cases import graphs
from tests.trainer.rank_group import among_ranks, run_options
from trainer import distributed_graph
from trainer.base.errors import CacheError, OptionError, TrainingError
from trainer.config.options import Options
from trainer.data.cache import open_cache
from trainer.dist.communicator import Communicator
from trainer.distributed_graph import DistributedGraph

UNDIRECTED, WEIGHTED = "undirected", "directed, weighted, uneven"
EPOCHS, CLASSES = 3, 3


class Layers(nn.Module):
    """Two layers of a kind, called with rows and edges alone."""

    def __init__(self, one: nn.Module, two: nn.Module, *, weighted: bool = False) -> None:
        super().__init__()
        self.one, self.two, self.weighted = one, two, weighted

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        weights = (edge_weight,) if self.weighted else ()
        hidden: Tensor = self.one(x, edge_index, *weights)
        out: Tensor = self.two(hidden.relu(), edge_index, *weights)
        return out


def model_of(kind: str, dropout: float = 0.0) -> nn.Module:
    """A model with the same first weights each time."""
    torch.manual_seed(1)
    counts = torch.tensor([0, 10, 20, 20, 10])

    def aggregated(width: int, out: int) -> nn.Module:
        return PNAConv(width, out, ["mean", "max", "std"], ["identity", "amplification"], deg=counts)

    return {
        "sage": lambda: GraphSAGE(6, 8, 3, CLASSES, dropout=dropout, norm=nn.LayerNorm(8)),
        "sage, max": lambda: GraphSAGE(6, 8, 2, CLASSES, aggr="max", jk="cat"),
        "gat": lambda: GAT(6, 8, 2, CLASSES, heads=2, v2=False),
        "gatv2": lambda: GAT(6, 8, 2, CLASSES, heads=2, v2=True),
        "gin": lambda: GIN(6, 8, 2, CLASSES),
        "gcn": lambda: GCN(6, 8, 2, CLASSES),
        "graph": lambda: Layers(GraphConv(6, 8), GraphConv(8, CLASSES), weighted=True),
        "transformer": lambda: Layers(TransformerConv(6, 8, heads=2), TransformerConv(16, CLASSES)),
        "pna": lambda: Layers(aggregated(6, 8), aggregated(8, CLASSES)),
    }[kind]()


def loss_of(scores: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    return functional.cross_entropy(scores[mask], y[mask], reduction="sum")


def whole_run(graph: HandmadeGraph, kind: str) -> tuple[list[float], Tensor]:
    """Losses and last scores of PyTorch Geometric's own full-batch training."""
    model, x, y = model_of(kind), torch.from_numpy(graph.x), torch.from_numpy(graph.y)
    edge_index, train = torch.from_numpy(np.stack([graph.src, graph.dst])), torch.from_numpy(graph.train)
    weights = {} if graph.weight is None else {"edge_weight": torch.from_numpy(graph.weight)}
    if kind not in ("gcn", "graph"):
        weights = {}
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(EPOCHS):
        optimiser.zero_grad()
        loss = loss_of(model(x, edge_index, **weights), y, train) / int(train.sum())
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(float(loss.detach()))
    with torch.no_grad():
        return losses, model(x, edge_index, **weights)


def own_run(
    communicator: Communicator, *, cache: str, kind: str, dropout: float = 0.0, **options: Any
) -> tuple[list[float], Tensor, dict[str, Tensor], int]:
    """Losses, last scores in the dataset's order, weights, and bytes sent by this rank, of a loop over parts."""
    graph = DistributedGraph(run_options(cache, **options), open_cache(cache), communicator)
    model = model_of(kind, dropout)
    if communicator.rank:
        torch.nn.init.zeros_(next(model.parameters()))  # rank 0's weights have to come
    graph.distribute(model)
    before = graph.bytes_sent
    weights = {"edge_weight": graph.edge_weight} if kind in ("gcn", "graph") else {}
    optimiser, losses = torch.optim.Adam(model.parameters(), lr=0.02), []
    num_train = graph.total(graph.train_mask.sum())
    for epoch in range(1, EPOCHS + 1):
        graph.begin_epoch(epoch)
        optimiser.zero_grad()
        loss = loss_of(model(graph.x, graph.edge_index, **weights), graph.y, graph.train_mask) / num_train
        loss.backward()  # type: ignore[no-untyped-call]
        graph.sum_gradients(model)
        optimiser.step()
        losses.append(graph.total(loss.detach()))
    model.eval()
    with torch.no_grad():
        own_nC = model(graph.x, graph.edge_index, **weights)
    scores = torch.zeros(60, own_nC.shape[1])
    scores[graph.node_ids] = own_nC
    return losses, communicator.all_reduce(scores), model.state_dict(), graph.bytes_sent - before


CASES = [
    *((kind, WEIGHTED) for kind in ("sage", "gatv2", "gcn", "graph")),
    *((kind, UNDIRECTED) for kind in ("sage, max", "gat", "gin", "gcn", "transformer", "pna")),
]


OPTIONS: dict[str, dict[str, Any]] = {
    "dropout": {"dropout": 0.5},
    "exact": {},
    "stale": {"staleness": "fixed:4"},
    "half": {"wire": "bf16"},
    "whole blocks": {"exchange": "broadcast"},
}
"""Runs of GraphSAGE beside the cases."""


@pytest.fixture(scope="module")
def own_runs(caches: dict[tuple[str, int], Path]) -> dict[Any, Any]:
    """The runs of all cases, by kind, graph and number of ranks, and of the options, by name and number."""
    found: dict[Any, Any] = {}
    for world in (1, 3):
        tasks: dict[Any, Any] = {
            (kind, name, world): partial(own_run, cache=str(caches[name, world]), kind=kind) for kind, name in CASES
        }
        for name, options in OPTIONS.items():
            if world == 3 or name == "dropout":
                tasks[name, world] = partial(own_run, cache=str(caches[WEIGHTED, world]), kind="sage", **options)
        found |= dict(zip(tasks, among_ranks(world, list(tasks.values())), strict=True))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), CASES)
@pytest.mark.parametrize("world", [1, 3])
def test_layers_compute_and_learn_as_on_the_whole_graph(
    own_runs: dict[tuple[str, str, int], Any], kind: str, name: str, world: int
) -> None:
    graph, _ = graphs()[name]
    losses, scores = whole_run(graph, kind)
    found, found_scores, weights, _ = own_runs[kind, name, world]
    assert found == pytest.approx(losses, rel=1e-5)
    assert torch.allclose(found_scores, scores, atol=1e-4)
    assert losses[-1] < losses[0]
    plain = model_of(kind)
    plain.load_state_dict(weights)  # by its own names
    assert {key: value.shape for key, value in plain.state_dict().items()} == {k: v.shape for k, v in weights.items()}


@pytest.mark.slow
def test_dropout_does_not_depend_on_the_number_of_ranks(own_runs: dict[Any, Any]) -> None:
    one, three = (own_runs["dropout", world][0] for world in (1, 3))
    assert one == pytest.approx(three, rel=1e-5)
    assert one != pytest.approx(own_runs["sage", WEIGHTED, 1][0], rel=1e-3)  # something was dropped


@pytest.mark.slow
def test_options_of_the_exchange_apply(own_runs: dict[Any, Any]) -> None:
    """Guards against options that are taken and ignored."""
    exact, stale, half, whole = (own_runs[name, 3] for name in ("exact", "stale", "half", "whole blocks"))
    assert stale[3] < 0.9 * exact[3]
    assert half[3] < 0.9 * exact[3]
    assert whole[3] > exact[3]
    assert whole[0] == pytest.approx(exact[0], rel=1e-6)
    assert stale[0] != pytest.approx(exact[0], rel=1e-6)


@pytest.fixture
def graph(caches: dict[tuple[str, int], Path]) -> DistributedGraph:
    return DistributedGraph.open(caches[WEIGHTED, 1])


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda: Layers(GraphConv(6, 8), BatchNorm(8)), r"layer two.module \(BatchNorm1d\) computes over all rows"),
        (lambda: Layers(GraphConv(6, 8), nn.BatchNorm1d(8)), "computes over all rows"),
        (lambda: Layers(GraphConv(6, 8), LayerNorm(8)), "computes over all rows"),
        (lambda: nn.Linear(6, 3), "no layer of torch_geometric's MessagePassing"),
        (lambda: Layers(APPNP(2, 0.1, add_self_loops=False, normalize=False), nn.Identity()), "more than once a call"),
        (lambda: Layers(LGConv(), LGConv()), "normalises by the degrees of other ranks' nodes"),
        (lambda: Layers(GCNConv(6, 8, improved=True), GCNConv(8, 3)), "GCNConv with its defaults can"),
        (lambda: Layers(GCNConv(6, 8), GCNConv(8, 3)), "give it the graph's edge_weight"),
    ],
)
def test_layers_that_would_be_wrong_are_refused(graph: DistributedGraph, model: Any, words: str) -> None:
    def scores() -> Tensor:
        made = model()
        graph.distribute(made)
        found: Tensor = made(graph.x, graph.edge_index)
        return found

    with pytest.raises(TrainingError, match=words):
        scores()


def test_rows_and_edges_have_to_be_this_ranks(graph: DistributedGraph) -> None:
    model = model_of("sage")
    layers = graph.distribute(model)
    with pytest.raises(TrainingError, match="with other rows than the 60 of this rank"):
        model(graph.x[:5], graph.edge_index)
    with pytest.raises(TrainingError, match="other edges than the graph's edge_index"):
        model(graph.x, graph.edge_index.clone())
    layers.remove()
    assert len(model(graph.x[:5], torch.tensor([[0], [1]]))) == 5


def test_a_layer_that_failed_normalises_again_afterwards(graph: DistributedGraph) -> None:
    """Guards against a layer that stays changed by a call that raised."""
    layer = GCNConv(6, 3)
    graph.distribute(layer)
    layer.lin = nn.Linear(5, 3)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        layer(graph.x, graph.edge_index, graph.edge_weight)
    assert layer.normalize


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"stalenes": "none"}, OptionError, r"no option stalenes \(did you mean staleness\?\)"),
        ({"hidden": 3}, OptionError, "no option hidden"),
        ({"staleness": "never"}, OptionError, "never"),
        ({"exchange": "sequential"}, OptionError, "boundary or broadcast, not by sequential"),
        ({"timeout": -1}, OptionError, "expected a number"),
    ],
)
def test_wrong_options_are_one_sentence(
    caches: dict[tuple[str, int], Path], options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        DistributedGraph.open(caches[WEIGHTED, 1], **options)


def test_a_cache_of_another_number_of_parts_is_refused(caches: dict[tuple[str, int], Path], tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="has 3 parts and this run 1 rank"):
        DistributedGraph.open(caches[WEIGHTED, 3])
    with pytest.raises(CacheError, match="there is no folder"):
        DistributedGraph.open(tmp_path / "none")


def test_every_accepted_option_is_one_of_the_trainers() -> None:
    assert set(distributed_graph.ACCEPTED) <= set(Options.__dataclass_fields__)
