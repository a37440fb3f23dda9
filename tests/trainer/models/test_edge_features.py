"""GraphSAGE and GIN with features of edges, against PyG's GINEConv and PyG layers of the same formula."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GINEConv, MessagePassing

from tests.trainer.handmade_cache import HandmadeGraph, make_cache, random_graph
from tests.trainer.layers.test_attention import Sizes
from tests.trainer.models.test_gat import graph_with
from tests.trainer.rank_group import among_ranks, empty_traffic_log, run_options, train_once
from tests.trainer.test_parity import load_global_ids, network_on_one_rank
from trainer.base.errors import OptionError
from trainer.base.pass_context import PassContext
from trainer.config.command_line import parse
from trainer.data.cache import open_cache
from trainer.data.part import load_part
from trainer.dist.communicator import Communicator
from trainer.exchange.exchange import Exchange
from trainer.layers import messages
from trainer.layers.aggregate import Aggregation
from trainer.startup.preflight import ignored_arrays

EPOCHS = 3
MODELS: dict[str, dict[str, Any]] = {
    "gin": {"model": "gin", "lr": 0.003},
    "sage": {"model": "sage"},
    "sage, max": {"model": "sage", "aggregator": "max"},
}
WORLDS = (1, 3)


class SageOfEdges(MessagePassing):
    """W_self h_i + W [mean, or maximum, over j of h_j f_ij] + b."""

    def __init__(self, own_FG: Tensor, together: Tensor, bias_G: Tensor, aggr: str) -> None:
        super().__init__(aggr=aggr)
        self.own_FG, self.together, self.bias_G = (nn.Parameter(one) for one in (own_FG, together, bias_G))

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        return x @ self.own_FG + self.propagate(edge_index, x=x, edge_attr=edge_attr) @ self.together + self.bias_G

    def message(self, x_j: Tensor, edge_attr: Tensor) -> Tensor:
        return torch.cat([x_j, edge_attr], 1)


class OfPyg(nn.Module):
    """PyG's layers with the weights of ours."""

    def __init__(self, layers: nn.ModuleList, aggr: str) -> None:
        super().__init__()
        self.layers = nn.ModuleList(self._layer(layer, aggr) for layer in layers)

    def _layer(self, layer: Any, aggr: str) -> MessagePassing:
        of = {name: value.detach().clone() for name, value in layer.state_dict().items()}
        if "epsilon" not in of:
            return SageOfEdges(of["own_FG"], torch.cat([of["neighbours_FG"], of["edge_DG"]]), of["bias_G"], aggr)
        mlp = nn.Sequential(nn.Linear(*of["first_FG"].shape), nn.ReLU(), nn.Linear(*of["second_GG"].shape))
        conv = GINEConv(mlp, train_eps=True, edge_dim=len(of["edge_DF"]))
        state = {
            "eps": of["epsilon"],
            "nn.0.weight": of["first_FG"].T,
            "nn.0.bias": of["first_bias_G"],
            "nn.2.weight": of["second_GG"].T,
            "nn.2.bias": of["second_bias_G"],
            "lin.weight": of["edge_DF"].T,
            "lin.bias": of["edge_bias_F"],
        }
        conv.load_state_dict(state)
        return conv

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = layer(x, edge_index, edge_attr).relu()
        return self.layers[-1](x, edge_index, edge_attr)


def tensors_of(graph: HandmadeGraph, features_ED: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.from_numpy(graph.x), torch.from_numpy(np.stack([graph.src, graph.dst])), features_ED


@pytest.fixture(scope="module")
def unweighted() -> tuple[HandmadeGraph, Tensor]:
    """A graph without weights, three features an edge, and a node without in-edges."""
    graph, features_ED = graph_with("rows")
    graph.weight = None
    return graph, features_ED


@pytest.fixture(scope="module")
def caches(unweighted: tuple[HandmadeGraph, Tensor], tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    root, nodes = tmp_path_factory.mktemp("edges"), np.arange(60)
    return {world: make_cache(root / f"{world}", unweighted[0], nodes % world, world) for world in WORLDS}


@pytest.fixture(scope="module")
def trained(caches: dict[int, Path]) -> dict[tuple[str, int], Any]:
    """The run of every model on one rank and on three, and on three with one peer after the other; and sums."""
    runs: dict[tuple[str, int], Any] = {}
    for world in WORLDS:
        settings = dict(MODELS)
        if world > 1:
            settings |= {f"{name}, sequential": {**of, "exchange": "sequential"} for name, of in MODELS.items()}
        tasks = [
            partial(
                train_once,
                cache=str(caches[world]),
                epochs=EPOCHS,
                layers=3,
                weight_decay=0.0,
                edge_features="edge_attr",
                **of,
            )
            for of in settings.values()
        ]
        *found, sums = among_ranks(world, [*tasks, partial(sampled_sums, cache=str(caches[world]))])
        runs |= {(name, world): run for name, run in zip(settings, found, strict=True)} | {("sums", world): sums}
    return runs


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_losses_are_those_of_pyg_on_any_number_of_ranks(
    trained: dict[tuple[str, int], Any], caches: dict[int, Path], unweighted: tuple[HandmadeGraph, Tensor], name: str
) -> None:
    """Features of another edge, a mean over local edges alone, or a gradient that one rank keeps to itself."""
    graph, inputs = unweighted[0], tensors_of(*unweighted)
    options = {"layers": 3, "edge_features": "edge_attr", **MODELS[name]}
    network, _ = network_on_one_rank(caches[1], **options)
    model = OfPyg(network.model.layers, MODELS[name].get("aggregator", "mean"))
    optimiser = torch.optim.Adam(model.parameters(), lr=MODELS[name].get("lr", 0.01))
    train, y, losses = torch.from_numpy(graph.train), torch.from_numpy(graph.y), []
    for _ in range(EPOCHS):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(*inputs)[train], y[train])
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert trained[name, 1].losses == pytest.approx(losses, rel=1e-5)
    assert trained[name, 3].losses == pytest.approx(losses, rel=1e-5)
    assert trained[f"{name}, sequential", 3].losses == pytest.approx(losses, rel=1e-5)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("values", [1, 50, None])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_pyg(
    monkeypatch: pytest.MonkeyPatch,
    caches: dict[int, Path],
    unweighted: tuple[HandmadeGraph, Tensor],
    name: str,
    values: int | None,
) -> None:
    """A chunk of edges that loses a row's first edges, or a gradient of U, b or a row that misses some edges."""
    if values is not None:
        monkeypatch.setattr(messages, "_VALUES", values)
    network, features = network_on_one_rank(caches[1], edge_features="edge_attr", layers=2, **MODELS[name])
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    model = OfPyg(network.model.layers, MODELS[name].get("aggregator", "mean"))
    expected = model(*tensors_of(*unweighted))[load_global_ids(caches[1])]
    found = network(features, PassContext(epoch=1, training=True))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    direction = torch.randn(found.shape)
    found.backward(direction)
    expected.backward(direction)
    for ours, theirs in zip(network.model.layers, model.layers, strict=True):
        if name == "gin":
            pairs = [
                (ours.edge_DF.grad.T, theirs.lin.weight.grad),
                (ours.edge_bias_F.grad, theirs.lin.bias.grad),
                (ours.first_FG.grad.T, theirs.nn[0].weight.grad),
                (ours.epsilon.grad, theirs.eps.grad),
            ]
        else:
            together = torch.cat([ours.neighbours_FG.grad, ours.edge_DG.grad])
            pairs = [(ours.own_FG.grad, theirs.own_FG.grad), (together, theirs.together.grad)]
        for one, other in pairs:
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4 * float(other.abs().max()))


@pytest.mark.parametrize("name", ["gin", "sage"])
def test_edge_weights_count_in_means_and_not_in_messages(tmp_path: Path, name: str) -> None:
    """A mean of features that leaves weights aside beside one of rows that does not; GINE with weights twice."""
    graph, features_ED = graph_with("rows")
    cache = make_cache(tmp_path / "cache", graph, np.zeros(60, int), 1)
    network, features = network_on_one_rank(cache, edge_features="edge_attr", layers=1, **MODELS[name])
    [layer] = network.model.layers
    found = network(features, PassContext.evaluation(1))
    x, edges, _ = tensors_of(graph, features_ED)
    if name == "gin":
        expected = OfPyg(network.model.layers, "mean")(x, edges, features_ED)
    else:
        weight_E = torch.from_numpy(graph.weight).unsqueeze(1)
        together = torch.cat([x[edges[0]], features_ED], 1) * weight_E
        sums, totals = torch.zeros(60, together.shape[1]), torch.zeros(60, 1)
        sums.index_add_(0, edges[1], together)
        totals.index_add_(0, edges[1], weight_E)
        means = sums / totals.where(totals > 0, torch.ones(60, 1))
        weights = torch.cat([layer.neighbours_FG, layer.edge_DG])
        expected = x @ layer.own_FG + means @ weights + layer.bias_G
    torch.testing.assert_close(found, expected[load_global_ids(cache)], rtol=1e-4, atol=1e-5)


def test_no_tensor_has_edges_x_features_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of messages that are all made at once is that of the edges, many times that of the nodes."""
    monkeypatch.setattr(messages, "_VALUES", 1 << 14)
    graph = random_graph(num_nodes=400, num_edges=40_000)
    graph.edge_attr = np.ones((len(graph.src), 2), np.float32)
    cache = make_cache(tmp_path / "cache", graph, np.zeros(400, int), 1)
    network, features = network_on_one_rank(cache, model="gin", hidden=64, edge_features="edge_attr")
    with Sizes() as sizes:
        network(features, PassContext(epoch=1, training=True)).square().sum().backward()
    assert sizes.largest < len(graph.src) * 64 / 10


@pytest.mark.parametrize("name", ["gin", "sage"])
def test_one_and_two_threads_give_the_same_bits(tmp_path: Path, name: str) -> None:
    """A sum over edges whose order depends on the threads: runs on other machines then drift apart."""
    graph = random_graph(num_nodes=3000, num_edges=90_000)
    graph.edge_attr = np.random.default_rng(0).normal(size=(len(graph.src), 5)).astype(np.float32)
    cache = make_cache(tmp_path / "cache", graph, np.zeros(3000, int), 1)
    results: list[list[Tensor]] = []
    threads = torch.get_num_threads()
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            of = {**MODELS[name], "hidden": 32, "dropout": 0.3, "edge_features": "edge_attr"}
            network, features = network_on_one_rank(cache, **of)
            network.train()
            scores = network(features, PassContext(epoch=1, training=True))
            scores.square().sum().backward()
            of_messages = [one for key, one in network.named_parameters() if "edge" in key and name == "gin"]
            results.append([scores.detach(), *(one.grad for one in of_messages if one.grad is not None)])
    finally:
        torch.set_num_threads(threads)
    assert len(results[0]) == (5 if name == "gin" else 1)
    for one, two in zip(*results, strict=True):
        assert torch.equal(one, two)


@pytest.mark.slow
def test_sampled_messages_are_unbiased(trained: dict[tuple[str, int], Any]) -> None:
    """A message whose row is weighted before the ReLU, in place of the message, is biased; so is one of a zero row."""
    exact, sampled = trained["sums", 3]
    assert sampled.mean().item() == pytest.approx(exact.mean().item(), rel=0.02)
    torch.testing.assert_close(sampled, exact, rtol=0.1, atol=1.5)
    exact, sampled = trained["sums", 1]
    torch.testing.assert_close(sampled, exact)


def sampled_sums(communicator: Communicator, *, cache: str) -> tuple[Tensor, Tensor]:
    """The exact sums of rank 0's rows, and the mean of those of some samples."""
    part = load_part(open_cache(cache), communicator.rank, split=0, edge_features="edge_attr")
    communicator.connect()
    options = run_options(cache, model="gin", edge_features="edge_attr", boundary_sampling=0.5)
    exchange = Exchange(options, part, communicator, empty_traffic_log(communicator))
    aggregation = Aggregation(part, exchange, communicator, sums=None)
    edge_DF, bias_F = torch.ones(3, 6) / 3, torch.full((6,), 0.5)

    def sums(context: PassContext) -> Tensor:
        of_pass = messages.MessageSums(aggregation=aggregation, layer=1, context=context)
        return of_pass(part.x_nF.float(), None, edge_DF, bias_F)

    exact = sums(PassContext.evaluation(1))
    samples = [sums(PassContext(epoch=epoch, training=True)) for epoch in range(1, 81)]
    return exact, torch.stack(samples).mean(0)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--model gin --exchange tensor", "through a ReLU"),
        ("--model gin --exchange sequential --wire int8", "fetches gin's rows again"),
    ],
)
def test_what_messages_cannot_do_is_refused(words: str, sentence: str) -> None:
    """Columns by themselves have no message; rows that are rounded another way have another gradient."""
    with pytest.raises(OptionError, match=sentence):
        parse(["cache", *words.split(), "--edge-features", "a"])
    parse(["cache", *words.split()])


def test_weights_that_messages_ignore_are_named(tmp_path: Path) -> None:
    """Plain GIN uses the weights, so who adds features of edges should see that GINE does not."""
    graph, _ = graph_with("rows")
    folder = str(make_cache(tmp_path / "cache", graph, np.zeros(60, int), 1))
    cache = open_cache(folder)
    [said] = ignored_arrays(parse([folder, "--model", "gin", "--edge-features", "edge_attr"]), cache)
    assert "weights are ignored by --model gin with --edge-features" in said
    [said] = ignored_arrays(parse([folder, "--model", "gin"]), cache)
    assert "the edges' arrays edge_attr are ignored: --edge-features does not name them" in said
    assert not ignored_arrays(parse([folder, "--model", "sage", "--edge-features", "edge_attr"]), cache)
