"""Attention: blocks of edges, large scores, dropped coefficients, and what is never allocated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from tests.trainer.dense_reference import dense_adjacency, dense_scores
from tests.trainer.handmade_cache import HandmadeGraph, make_cache, random_graph
from tests.trainer.test_parity import load_global_ids, network_on_one_rank
from trainer.base.hash_rng import bernoulli, pair_ids
from trainer.base.pass_context import PassContext
from trainer.base.precision import TYPES
from trainer.layers import attention
from trainer.sparse import attention_scores
from trainer.sparse.dropout import Dropout
from trainer.sparse.feature_rows import DenseRows

GAT = {"model": "gat", "heads": 2}
GATV2 = {"model": "gatv2", "heads": 3, "layers": 3}


class Sizes(TorchDispatchMode):
    """Looks at every tensor that any operation gives out, forward and backward."""

    def __init__(self) -> None:
        super().__init__()
        self.largest, self.operations = 0, set[str]()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        self.operations.add(str(function))
        for value in result if isinstance(result, tuple | list) else [result]:
            if isinstance(value, Tensor) and value.layout == torch.strided:
                # A view of a few numbers (a weight laid out along all edges) takes no memory of its own.
                self.largest = max(self.largest, value.untyped_storage().nbytes() // max(value.element_size(), 1))
        return result


@pytest.mark.parametrize("model", ["gat", "gatv2"])
def test_no_tensor_has_edges_x_heads_x_features_entries(tmp_path: Path, model: str) -> None:
    """The memory of a GAT layer that gathers a row an edge is that of the edges, a hundred times that of the nodes."""
    heads, width = 2, 64
    graph = random_graph(num_nodes=400, num_edges=40_000)
    cache = make_cache(tmp_path / "cache", graph, np.zeros(400, int), 1)
    network, features = network_on_one_rank(cache, model=model, heads=heads, hidden=width, dropout=0.5)
    network.train()
    everything = len(graph.src) * heads * width
    with Sizes() as sizes:
        network(features, PassContext(epoch=1, training=True)).square().sum().backward()
    assert "aten.sparse_sampled_addmm.out" in sizes.operations
    assert sizes.largest < everything / 3
    with Sizes() as sizes:
        torch.ones(400, heads * width).index_select(0, torch.from_numpy(graph.src).long())
    assert sizes.largest >= everything


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> tuple[HandmadeGraph, Path]:
    """A directed graph with self-loops, duplicates and nodes without edges, on one rank."""
    graph = random_graph(loops_and_duplicates=True, seed=3, num_edges=150)
    graph.src, graph.dst = (ends[(graph.src > 3) & (graph.dst > 3)] for ends in (graph.src, graph.dst))
    return graph, make_cache(tmp_path_factory.mktemp("odd") / "cache", graph, np.zeros(60, int), 1)


def both_gradients(
    odd: tuple[HandmadeGraph, Path], change: Callable[[torch.nn.Module], None] = lambda network: None, **options: Any
) -> None:
    """Compare scores and all gradients with those of dense matrices."""
    graph, cache = odd
    network, features = network_on_one_rank(cache, **options)
    change(network)
    weights = {name: value.detach().double().requires_grad_() for name, value in network.state_dict().items()}
    network.train()
    found = network(features, PassContext(epoch=1, training=True))
    reference_options = network._options
    matrix, x = dense_adjacency(graph, reference_options.model), torch.from_numpy(graph.x.astype(np.float64))
    expected_scores = dense_scores(reference_options, weights, matrix, x)[load_global_ids(cache)]
    torch.testing.assert_close(found.double(), expected_scores, rtol=1e-4, atol=1e-5)
    direction = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    found.backward(direction)
    expected_scores.backward(direction.double())
    for name, parameter in network.named_parameters():
        expected = weights[name].grad
        assert parameter.grad is not None
        assert expected is not None
        torch.testing.assert_close(
            parameter.grad.double(), expected, rtol=1e-3, atol=1e-4 * expected.abs().max().item() + 1e-6
        )


ONE_OUTPUT = {"model": "gatv2", "heads": 3, "output_heads": 1}


@pytest.mark.parametrize("options", [GAT, GATV2, ONE_OUTPUT, {"model": "sage", "aggregator": "max"}, {"model": "gin"}])
def test_gradients_are_those_of_dense_matrices(odd: tuple[HandmadeGraph, Path], options: dict[str, Any]) -> None:
    """A gradient that misses what the softmax or the attention vector adds trains nearly as well as the right one."""
    both_gradients(odd, **options)


@pytest.mark.parametrize("options", [GAT, GATV2])
@pytest.mark.parametrize("edges", [1, 7])
def test_blocks_of_edges_join(
    odd: tuple[HandmadeGraph, Path], monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], edges: int
) -> None:
    """A row that is cut between blocks, or a block without edges, loses a part of its softmax."""
    monkeypatch.setattr(attention, "_edges_at_a_time", lambda pattern, heads: edges)
    monkeypatch.setattr(attention_scores, "_VALUES", 50)
    both_gradients(odd, **options)


@pytest.mark.parametrize("options", [GAT, GATV2])
def test_one_and_two_threads_give_the_same_bits(tmp_path: Path, options: dict[str, Any]) -> None:
    """A sum over edges or over rows whose order depends on the threads: runs on other machines then drift apart."""
    graph = random_graph(num_nodes=3000, num_edges=90_000)
    cache = make_cache(tmp_path / "cache", graph, np.zeros(3000, int), 1)
    results: list[list[Tensor]] = []
    threads = torch.get_num_threads()
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            network, features = network_on_one_rank(cache, **options, hidden=32, dropout=0.3)
            network.train()
            scores = network(features, PassContext(epoch=1, training=True))
            scores.square().sum().backward()
            attention_vectors = [layer.source_hF for layer in network.model.layers]
            results.append([scores.detach(), *(vector.grad for vector in attention_vectors if vector.grad is not None)])
    finally:
        torch.set_num_threads(threads)
    assert len(results[0]) == 1 + len(network.model.layers)
    for one, two in zip(*results, strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("options", [GAT, GATV2])
def test_large_scores_do_not_overflow(odd: tuple[HandmadeGraph, Path], options: dict[str, Any]) -> None:
    """exp(100) is beyond fp32, so a softmax that does not take the greatest score away gives NaN."""

    def enlarge(network: torch.nn.Module) -> None:
        with torch.no_grad():
            network.model.layers[0].source_hF.mul_(300)

    both_gradients(odd, enlarge, **options)


def test_dropped_coefficients_are_those_of_the_masks(odd: tuple[HandmadeGraph, Path]) -> None:
    """Dropout before the softmax, other draws in the backward pass, or a gradient without the mask's scale."""
    graph, cache = odd
    network, features = network_on_one_rank(cache, **GAT, layers=1, dropout=0.0, attention_dropout=0.6)
    network.train()
    step, heads, ids = PassContext(epoch=3, training=True), 2, load_global_ids(cache)
    found = network(features, step)
    mask = Dropout(ids, ids[:0], num_nodes=60, seed=0).of_edges(0.6, 1, step)
    assert mask is not None
    everyone = torch.arange(60)
    rows, columns = everyone.repeat_interleave(60), everyone.repeat(60)
    factors = mask.factors(rows, columns, heads, None).view(heads, 60, 60).permute(1, 2, 0)
    assert factors.unique().tolist() == pytest.approx([0.0, 2.5])
    assert (factors == 0).float().mean().item() == pytest.approx(0.6, abs=0.02)

    layer = network.model.layers[0]
    weights = {name: value.detach().clone().requires_grad_() for name, value in layer.named_parameters()}
    counts = dense_adjacency(graph, "gat").float()[ids][:, ids]
    values = (torch.from_numpy(graph.x)[ids] @ weights["weight_FG"]).unflatten(1, (heads, -1))
    of_source, of_destination = (values * weights["source_hF"]).sum(2), (values * weights["destination_hF"]).sum(2)
    pairs = functional.leaky_relu(of_destination.unsqueeze(1) + of_source.unsqueeze(0), 0.2)
    shares = (pairs + counts.log().unsqueeze(2)).softmax(1) * factors
    expected = torch.einsum("ijh,jhf->ihf", shares, values).mean(1) + weights["bias_G"]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    direction = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    found.backward(direction)
    expected.backward(direction)
    for name, parameter in layer.named_parameters():
        torch.testing.assert_close(parameter.grad, weights[name].grad, rtol=1e-3, atol=1e-5)


def test_draws_of_edges_are_independent() -> None:
    """A draw that depends on one end alone drops all of a node's edges together."""
    one, other = torch.arange(300).unsqueeze(1), torch.arange(300).unsqueeze(0)
    kept = bernoulli(pair_ids(one, other), 5, 0.5).float()
    for means in (kept.mean(0), kept.mean(1)):
        assert (means - 0.5).abs().max().item() < 0.15
    assert (kept == kept.T).float().mean().item() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("options", [GAT, GATV2])
def test_half_precision_stays_near_fp32(
    odd: tuple[HandmadeGraph, Path], options: dict[str, Any], precision: str
) -> None:
    """Scores and sums in half precision, or rows that are stored in fp32 whatever is asked for."""
    _, cache = odd
    found = []
    for name in ("fp32", precision):
        network, features = network_on_one_rank(cache, **options, precision=name)
        features._rows = DenseRows(features._rows.dense().to(TYPES[name]))
        found.append(network(features, PassContext.evaluation(1)))
    assert found[1].dtype == torch.float32
    torch.testing.assert_close(found[1], found[0], rtol=0.1, atol=0.05)
