"""GAT and GATv2 with features of edges, against PyG's layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.nn import GATConv, GATv2Conv

from tests.trainer.handmade_cache import HandmadeGraph, make_cache, random_graph
from tests.trainer.test_parity import load_global_ids, network_on_one_rank
from trainer.base.errors import OptionError, TrainingError
from trainer.base.pass_context import PassContext
from trainer.config.command_line import parse
from trainer.data.cache import open_cache
from trainer.startup.preflight import check_task, ignored_arrays

HEADS = 2


def graph_with(edge_features: str) -> tuple[HandmadeGraph, torch.Tensor]:
    """A graph, and the features of its edges [E, D]; one node has no in-edges."""
    graph = random_graph(weighted=True, seed=4)
    keep = graph.dst != 5
    graph.src, graph.dst = graph.src[keep], graph.dst[keep]
    assert graph.weight is not None
    graph.weight = graph.weight[keep]
    rng = np.random.default_rng(0)
    if edge_features == "weights":
        return graph, torch.from_numpy(graph.weight).unsqueeze(1)
    graph.edge_attr = rng.normal(size=(len(graph.src), 3)).astype(np.float64)
    if edge_features == "whole numbers":
        graph.edge_attr = rng.integers(0, 4, len(graph.src)).astype(np.uint8)
    return graph, torch.from_numpy(graph.edge_attr).float().view(len(graph.src), -1)


@pytest.mark.parametrize("edge_features", ["weights", "rows", "whole numbers"])
@pytest.mark.parametrize("model", ["gat", "gatv2"])
def test_scores_and_gradients_are_those_of_pyg(tmp_path: Path, model: str, edge_features: str) -> None:
    """Features of another edge, a loop without the mean of the others, or a gradient that one term lacks."""
    graph, features_ED = graph_with(edge_features)
    cache = make_cache(tmp_path / "cache", graph, np.zeros(60, int), 1)
    name = "weights" if edge_features == "weights" else "edge_attr"
    options: dict[str, Any] = {"heads": HEADS, "layers": 1, "dropout": 0.0, "edge_features": name}
    network, features = network_on_one_rank(cache, model=model, **options)
    [layer] = network.model.layers
    torch.manual_seed(0)
    with torch.no_grad():
        layer.bias_G.normal_()
    kind = {"gat": GATConv, "gatv2": GATv2Conv}[model]
    width_in, width = graph.x.shape[1], graph.num_classes
    conv = kind(width_in, width, heads=HEADS, concat=False, edge_dim=features_ED.shape[1])
    with torch.no_grad():
        conv.bias.copy_(layer.bias_G)
        if model == "gat":
            conv.lin.weight.copy_(layer.weight_FG.T)
            conv.att_src.copy_(layer.source_hF)
            conv.att_dst.copy_(layer.destination_hF)
            by_head_hFD = conv.lin_edge.weight.view(HEADS, width, -1)
            layer.edge_DX.copy_(torch.einsum("hfd,hf->dh", by_head_hFD, conv.att_edge.squeeze(0)))
        else:
            conv.lin_l.weight.copy_(layer.weight_FG.T)
            conv.lin_r.weight.copy_(layer.destination_FG.T)
            conv.lin_edge.weight.copy_(layer.edge_DX.T)
            conv.att.copy_(layer.source_hF)
            conv.lin_l.bias.zero_()
            conv.lin_r.bias.zero_()
    edges = torch.from_numpy(np.stack([graph.src, graph.dst]))
    expected = conv(torch.from_numpy(graph.x), edges, edge_attr=features_ED)[load_global_ids(cache)]
    found = network(features, PassContext.evaluation(1))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    direction = torch.randn(found.shape)
    found.backward(direction)
    expected.backward(direction)
    edge_grad_DX = layer.edge_DX.grad
    if model == "gat":
        # Scores depend on the product of PyG's two weights alone.
        att_hF = conv.att_edge.squeeze(0).detach()
        edge_grad_DX = torch.einsum("dh,hf->dhf", edge_grad_DX, att_hF).flatten(1)
        pairs = [
            (layer.weight_FG.grad.T, conv.lin.weight.grad),
            (layer.source_hF.grad, conv.att_src.grad[0]),
            (layer.destination_hF.grad, conv.att_dst.grad[0]),
        ]
    else:
        pairs = [
            (layer.weight_FG.grad.T, conv.lin_l.weight.grad),
            (layer.destination_FG.grad.T, conv.lin_r.weight.grad),
            (layer.source_hF.grad, conv.att.grad[0]),
        ]
    for ours, theirs in [*pairs, (edge_grad_DX.T, conv.lin_edge.weight.grad)]:
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "weighted", "shape", "message"),
    [
        ("weights", False, None, "neither weights nor arrays"),
        ("times", True, (2,), "have no times; give --edge-features edge_attr or weights"),
        ("edge_attr", True, (2, 2), "takes one number or a row of numbers"),
        ("edge_attr", True, (0,), "takes one number or a row of numbers"),
    ],
)
def test_features_that_are_not_there_are_refused(
    tmp_path: Path, name: str, weighted: bool, shape: tuple[int, ...] | None, message: str
) -> None:
    """A name that is mistyped ends in a traceback on every rank, or trains without the features."""
    graph = random_graph(weighted=weighted)
    graph.edge_attr = None if shape is None else np.ones((len(graph.src), *shape), np.float32)
    cache = make_cache(tmp_path / "cache", graph, np.zeros(60, int), 1)
    options = parse([str(cache), "--model", "gat", "--edge-features", name])
    with pytest.raises(TrainingError, match=message):
        check_task(open_cache(str(cache)), options)


def test_models_without_attention_do_not_take_features_of_edges() -> None:
    """An option that does nothing."""
    with pytest.raises(OptionError, match="does nothing for --model gcn"):
        parse(["cache", "--model", "gcn", "--edge-features", "weights"])


def test_what_is_read_is_not_said_to_be_ignored(tmp_path: Path) -> None:
    """A line that sends the user looking for an option that is given."""
    graph = random_graph(weighted=True)
    graph.edge_attr = np.ones(len(graph.src), np.float32)
    folder = str(make_cache(tmp_path / "cache", graph, np.zeros(60, int), 1))
    cache = open_cache(folder)
    for name, words in (("weights", ["arrays edge_attr"]), ("edge_attr", ["weights are ignored"])):
        sentences = ignored_arrays(parse([folder, "--model", "gat", "--edge-features", name]), cache)
        assert len(sentences) == len(words)
        assert all(word in sentence for word, sentence in zip(words, sentences, strict=True))
