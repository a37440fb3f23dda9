"""Every model on dense N x N matrices in float64, with autograd doing all the work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from tests.trainer.handmade_cache import HandmadeGraph
from trainer.config.options import Options

Weights = Mapping[str, Tensor]


def dense_adjacency(graph: HandmadeGraph, model: str) -> Tensor:
    """The weighted matrix, row i holding the in-edges of node i, as the model aggregates with it.

    For attention its entries are how many edges there are, with a self-loop at each node that has none.
    """
    n = graph.num_nodes
    weight = np.ones(len(graph.src)) if graph.weight is None else graph.weight.astype(np.float64)
    if model in ("gat", "gatv2"):
        weight = np.ones(len(graph.src))
    matrix = np.zeros((n, n))
    np.add.at(matrix, (graph.dst, graph.src), weight)
    if model in ("gcn", "gat", "gatv2"):
        has_loop = np.zeros(n, bool)
        has_loop[graph.src[graph.src == graph.dst]] = True
        matrix += np.diag((~has_loop).astype(float))
    if model == "gcn":
        degree = matrix.sum(1)
        factor = np.divide(1.0, np.sqrt(degree), out=np.zeros(n), where=degree > 0)
        matrix = factor[:, None] * matrix * factor[None, :]
    elif model == "sage":
        total = matrix.sum(1, keepdims=True)
        matrix = np.divide(matrix, total, out=np.zeros_like(matrix), where=total != 0)
    return torch.from_numpy(matrix)


def dense_layer(options: Options, of: Weights, matrix: Tensor, rows: Tensor, *, is_last: bool) -> Tensor:
    """What one layer gives, from its parameters by their names."""
    match options.model:
        case "gcn":
            out = matrix @ rows @ of["weight_FG"]
        case "sage" if options.aggregator == "max":
            out = rows @ of["own_FG"] + dense_maximum(matrix, rows) @ of["neighbours_FG"]
        case "sage":
            out = rows @ of["own_FG"] + matrix @ rows @ of["neighbours_FG"]
        case "gin":
            sums = (1 + of["epsilon"]) * rows + matrix @ rows
            hidden = (sums @ of["first_FG"] + of["first_bias_G"]).relu()
            return hidden @ of["second_GG"] + of["second_bias_G"]
        case _:
            out = dense_attention(options, of, matrix, rows)
            if is_last:
                out = out.mean(1)
            out = out.flatten(1)
    return out + of["bias_G"]


def dense_maximum(matrix: Tensor, rows: Tensor) -> Tensor:
    """The greatest row of each node's in-neighbours; 0 where there are none."""
    is_edge = matrix != 0
    greatest = torch.where(is_edge.unsqueeze(2), rows.unsqueeze(0), float("-inf")).amax(1)
    return torch.where(is_edge.any(1, keepdim=True), greatest, torch.zeros_like(greatest))


def dense_attention(options: Options, of: Weights, counts: Tensor, rows: Tensor) -> Tensor:
    """The attention of all nodes to all others: [N, heads, F]."""
    num_heads = len(of["source_hF"])
    values = (rows @ of["weight_FG"]).unflatten(1, (num_heads, -1))
    if options.model == "gat":
        from_source, to_destination = (values * of["source_hF"]).sum(2), (values * of["destination_hF"]).sum(2)
        scores = functional.leaky_relu(to_destination.unsqueeze(1) + from_source.unsqueeze(0), 0.2)
    else:
        terms = (rows @ of["destination_FG"]).unflatten(1, (num_heads, -1))
        sums = functional.leaky_relu(terms.unsqueeze(1) + values.unsqueeze(0), 0.2)
        scores = (sums * of["source_hF"]).sum(3)
    shares = (scores + counts.log().unsqueeze(2)).softmax(1)
    return torch.einsum("ijh,jhf->ihf", shares, values)


def dense_scores(options: Options, weights: Weights, matrix: Tensor, x: Tensor) -> Tensor:
    """The scores [N, C] of the network whose state dict is `weights`, without dropout or normalisation."""
    rows, outputs = x, []
    for number in range(options.layers):
        is_last = number == options.layers - 1 and options.jumping == "none"
        prefix = f"model.layers.{number}."
        of = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
        out = dense_layer(options, of, matrix, rows, is_last=is_last)
        if options.residual:
            skip = weights.get(f"model.skips.{number}.weight_FG")
            out = out + (rows if skip is None else rows @ skip)
        if is_last:
            return out
        rows = functional.elu(out) if options.model in ("gat", "gatv2") else out.relu()
        outputs.append(rows)
    together = torch.cat(outputs, 1) if options.jumping == "cat" else torch.stack(outputs).amax(0)
    return together @ weights["model.jump.weight_FC"] + weights["model.jump.bias_C"]


def is_decayed(options: Options, name: str) -> bool:
    """Whether weight decay is for this parameter."""
    if options.model in ("gat", "gatv2"):
        return "bias" not in name
    return name.startswith("model.layers.0.")


def dense_losses(options: Options, weights: Weights, graph: HandmadeGraph) -> list[float]:
    """The training losses of every epoch with Adam and weight decay, from the first `weights` on."""
    matrix, x = dense_adjacency(graph, options.model), torch.from_numpy(graph.x.astype(np.float64))
    y, train = torch.from_numpy(graph.y), torch.from_numpy(graph.masks["train_mask"][:, options.split])
    weights = {name: value.double().clone().requires_grad_() for name, value in weights.items()}
    groups: list[dict[str, Any]] = [{"params": [], "weight_decay": decay} for decay in (options.weight_decay, 0.0)]
    for name, value in weights.items():
        groups[0 if is_decayed(options, name) else 1]["params"].append(value)
    optimizer = torch.optim.Adam([group for group in groups if group["params"]], lr=options.lr)
    losses = []
    for _ in range(options.epochs):
        optimizer.zero_grad()
        loss = functional.cross_entropy(dense_scores(options, weights, matrix, x)[train], y[train])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
