"""GCN and GraphSAGE on a dense N x N matrix in float64, with autograd doing all the work."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from handmade_cache import HandmadeGraph
from torch import Tensor
from torch.nn import functional

from trainer.options import Options


def dense_adjacency(graph: HandmadeGraph, model: str) -> Tensor:
    """The weighted matrix, row i holding the in-edges of node i, as the model aggregates with it."""
    n = graph.num_nodes
    weight = np.ones(len(graph.src)) if graph.weight is None else graph.weight.astype(np.float64)
    matrix = np.zeros((n, n))
    np.add.at(matrix, (graph.dst, graph.src), weight)
    if model == "gcn":
        has_loop = np.zeros(n, bool)
        has_loop[graph.src[graph.src == graph.dst]] = True
        matrix += np.diag((~has_loop).astype(float))
        degree = matrix.sum(1)
        factor = np.divide(1.0, np.sqrt(degree), out=np.zeros(n), where=degree > 0)
        matrix = factor[:, None] * matrix * factor[None, :]
    else:
        total = matrix.sum(1, keepdims=True)
        matrix = np.divide(matrix, total, out=np.zeros_like(matrix), where=total != 0)
    return torch.from_numpy(matrix)


def dense_scores(options: Options, weights: dict[str, Tensor], matrix: Tensor, x: Tensor) -> Tensor:
    """The scores [N, C] of the network whose state dict is `weights`, without dropout or normalisation."""
    rows = x
    for number in range(options.layers):
        layer = f"layers.{number}"
        if options.model == "gcn":
            rows = matrix @ rows @ weights[f"{layer}.weight_FG"]
        else:
            rows = rows @ weights[f"{layer}.own_FG"] + matrix @ rows @ weights[f"{layer}.neighbours_FG"]
        rows = rows + weights[f"{layer}.bias_G"]
        if number < options.layers - 1:
            rows = rows.relu()
    return rows


def dense_losses(options: Options, weights: dict[str, Tensor], graph: HandmadeGraph) -> list[float]:
    """The training losses of every epoch with Adam and weight decay on layer 1, from the first `weights` on."""
    matrix, x = dense_adjacency(graph, options.model), torch.from_numpy(graph.x.astype(np.float64))
    y, train = torch.from_numpy(graph.y), torch.from_numpy(graph.masks["train_mask"][:, options.split])
    weights = {name: value.double().clone().requires_grad_() for name, value in weights.items()}
    groups: list[dict[str, Any]] = [{"params": [], "weight_decay": decay} for decay in (options.weight_decay, 0.0)]
    for name, value in weights.items():
        groups[0 if name.startswith("layers.0.") else 1]["params"].append(value)
    optimizer = torch.optim.Adam([group for group in groups if group["params"]], lr=options.lr)
    losses = []
    for _ in range(options.epochs):
        optimizer.zero_grad()
        loss = functional.cross_entropy(dense_scores(options, weights, matrix, x)[train], y[train])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
