"""Graphs of several types, their caches, written by docs/cache-format.md alone, and their R-GCN on dense matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from tests.trainer.handmade_cache import Array, Writer, flat_topology, seal
from trainer.config.options import Options


@dataclass(frozen=True, kw_only=True)
class Relation:
    """Directed edges between two types, or within one."""

    source: str
    name: str
    destination: str
    src: Array
    dst: Array
    weight: Array | None = None

    @property
    def key(self) -> str:
        return f"{self.source}__{self.name}__{self.destination}"

    @property
    def weights(self) -> Array:
        return np.ones(len(self.src), np.float32) if self.weight is None else self.weight


@dataclass(frozen=True, kw_only=True)
class TypedGraph:
    """A small graph of several types, of which one has labels."""

    x: Mapping[str, Array]
    """By type, in name order; of no column for a type without features."""
    relations: Sequence[Relation]
    target: str
    y: Array
    role: Array
    """0 and 1 to train on, 2 to validate, 3 to test"""
    num_classes: int = 3
    times: Mapping[str, Array] = field(default_factory=dict)
    """By type, of some types"""

    @property
    def masks(self) -> dict[str, Array]:
        role = self.role[:, None]
        return {"train_mask": role < 2, "val_mask": role == 2, "test_mask": role == 3}


def typed_graph(*, seed: int = 0, local_cites: bool = False) -> TypedGraph:
    """Papers, authors and subjects, the last without features; directed, one relation weighted, one without edges.

    With `local_cites` papers cite only papers whose number has the same remainder by 12.
    """
    rng = np.random.default_rng(seed)
    numbers = {"author": 31, "paper": 48, "subject": 7}

    def edges(source: str, name: str, destination: str, count: int) -> Relation:
        src, dst = rng.integers(0, numbers[source], count), rng.integers(0, numbers[destination], count)
        return Relation(source=source, name=name, destination=destination, src=src, dst=dst)

    src, dst = rng.integers(0, numbers["paper"], (2, 200))
    if local_cites:
        keep = src % 12 == dst % 12
        src, dst = src[keep], dst[keep]
    weight = rng.uniform(0.2, 2, len(src)).astype(np.float32)
    y = rng.integers(0, 3, numbers["paper"])
    return TypedGraph(
        x={
            "author": rng.normal(size=(31, 3)).astype(np.float32),
            "paper": (rng.normal(size=(48, 5)) + np.eye(3, 5)[y]).astype(np.float32),
            "subject": np.empty((7, 0), np.float32),
        },
        relations=[
            edges("author", "knows", "author", 0),
            edges("author", "writes", "paper", 70),
            edges("paper", "about", "subject", 40),
            edges("paper", "by", "author", 60),
            Relation(source="paper", name="cites", destination="paper", src=src, dst=dst, weight=weight),
            edges("subject", "of", "paper", 50),
        ],
        target="paper",
        y=y.astype(np.int64),
        role=rng.permutation(48) * 4 // 48,
    )


def knowledge_graph(*, num_relations: int = 2) -> TypedGraph:
    """Nodes of one type without features, and some relations between them."""
    rng, n = np.random.default_rng(5), 40
    return TypedGraph(
        x={"node": np.empty((n, 0), np.float32)},
        relations=[
            Relation(
                source="node",
                name=f"r{number}",
                destination="node",
                src=rng.integers(0, n, 90),
                dst=rng.integers(0, n, 90),
            )
            for number in range(num_relations)
        ],
        target="node",
        y=rng.integers(0, 3, n),
        role=rng.permutation(n) * 4 // n,
    )


def make_typed_cache(
    folder: Path, graph: TypedGraph, assignment: Mapping[str, Array], num_parts: int, **attributes: Any
) -> Path:
    """Write the cache of `graph` with node i of a type in part `assignment[type][i]`; rows of a part are shuffled."""
    writer, rng = Writer(folder), np.random.default_rng(0)
    owned = {
        name: [rng.permutation(np.flatnonzero(assignment[name] == p)) for p in range(num_parts)] for name in graph.x
    }
    row_of = {name: np.zeros(len(x), np.int64) for name, x in graph.x.items()}
    for name, parts in owned.items():
        for rows in parts:
            row_of[name][rows] = np.arange(len(rows))

    def sent(name: str, p: int, q: int) -> Array:
        """The local rows of p, ascending, that have an edge of any relation into q."""
        found = [np.empty(0, np.int64)]
        for relation in graph.relations:
            if relation.source == name:
                crosses = (assignment[name][relation.src] == p) & (assignment[relation.destination][relation.dst] == q)
                found.append(row_of[name][relation.src[crosses]])
        return np.unique(np.concatenate(found))

    for p in range(num_parts):
        counts = {name: len(parts[p]) for name, parts in owned.items()}
        writer.group(f"parts/{p}", {"part": p, "nodes": counts, "index_dtype": "int32"})
        for name, x in graph.x.items():
            rows, nodes = owned[name][p], f"parts/{p}/nodes/{name}"
            writer.group(nodes, {})
            writer.array(f"{nodes}/global_ids", rows.astype(np.int64))
            writer.array(f"{nodes}/degree", np.zeros(len(rows), np.float32))
            if x.shape[1]:
                writer.array(f"{nodes}/x", x[rows])
            if name in graph.times:
                writer.array(f"{nodes}/time", graph.times[name][rows])
            if name == graph.target:
                writer.array(f"{nodes}/y", graph.y[rows])
                for mask, of in graph.masks.items():
                    writer.array(f"{nodes}/{mask}", of[rows])
            for q in range(num_parts):
                if q != p:
                    writer.array(f"{nodes}/send_{q}", sent(name, p, q).astype(np.int32))
                    writer.array(f"{nodes}/recv_{q}", owned[name][q][sent(name, q, p)])
        for relation in graph.relations:
            for q in range(num_parts):
                columns = row_of[relation.source]
                num_columns = len(owned[relation.source][q])
                if q != p:
                    halo = sent(relation.source, q, p)
                    columns, num_columns = np.searchsorted(halo, columns), len(halo)
                here = (assignment[relation.source][relation.src] == q) & (
                    assignment[relation.destination][relation.dst] == p
                )
                row, column = row_of[relation.destination][relation.dst[here]], columns[relation.src[here]]
                order = np.lexsort((column, row))
                shape = [len(owned[relation.destination][p]), num_columns]
                block = f"parts/{p}/edges/{relation.key}/{'local' if p == q else f'from_{q}'}"
                writer.group(block, {"shape": shape, "weighted": relation.weight is not None})
                indptr = np.r_[0, np.bincount(row, minlength=shape[0]).cumsum()]
                writer.array(f"{block}/indptr", indptr.astype(np.int32))
                writer.array(f"{block}/indices", column[order].astype(np.int32))
                if relation.weight is not None:
                    writer.array(f"{block}/data", relation.weight[here][order])
    sizes = {name: len(x) for name, x in graph.x.items()}
    offsets = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
    root = {
        "graphprep_format": 2,
        "graphprep_kind": "cache",
        "dataset": "handmade",
        "source": {},
        "num_parts": num_parts,
        "node_types": sizes,
        "node_offsets": offsets,
        "edge_types": {relation.key: len(relation.src) for relation in graph.relations},
        "num_features": {name: x.shape[1] for name, x in graph.x.items()},
        "num_classes": {name: graph.num_classes if name == graph.target else 0 for name in graph.x},
        "num_splits": {name: int(name == graph.target) for name in graph.x},
        "task": "classes",
        "aggregated": {},
        "topology": flat_topology(num_parts),
        "slowest_links": [["" if p == q else "network" for q in range(num_parts)] for p in range(num_parts)],
        "options": {},
        "quality": {},
    }
    writer.group("", root | attributes)
    seal(folder)
    return folder


def mean_matrices(graph: TypedGraph) -> list[Tensor]:
    """The mean over in-edges of each relation, dense: [nodes of the destination, nodes of the source]."""
    found = []
    for relation in graph.relations:
        matrix = np.zeros((len(graph.x[relation.destination]), len(graph.x[relation.source])))
        np.add.at(matrix, (relation.dst, relation.src), relation.weights.astype(np.float64))
        total = matrix.sum(1, keepdims=True)
        found.append(torch.from_numpy(np.divide(matrix, total, out=np.zeros_like(matrix), where=total != 0)))
    return found


def dense_rgcn_scores(options: Options, weights: Mapping[str, Tensor], graph: TypedGraph) -> Tensor:
    """The scores of the target's nodes by the network whose state is `weights`, with learnt rows in graph order."""
    matrices, names = mean_matrices(graph), list(graph.x)
    with_features = [name for name in names if graph.x[name].shape[1]]
    rows = {}
    for name in names:
        if name in with_features:
            number = with_features.index(name)
            x = torch.from_numpy(graph.x[name].astype(np.float64))
            rows[name] = x @ weights[f"model.inputs.weights.{number}"] + weights[f"model.inputs.biases.{number}"]
        else:
            number = [other for other in names if other not in with_features].index(name)
            rows[name] = weights[f"model.inputs.learnt.{number}.rows_kF"]
    outputs = []
    for layer in range(options.layers):
        prefix, is_last = f"model.layers.{layer}.", layer == options.layers - 1 and options.jumping == "none"
        out = {name: of @ weights[f"{prefix}own_FG"] + weights[f"{prefix}bias_G"] for name, of in rows.items()}
        used = [number for number, one in enumerate(graph.relations) if not is_last or one.destination == graph.target]
        for place, number in enumerate(used):
            relation = graph.relations[number]
            matrix = weights[f"{prefix}relations.matrices"]
            if options.bases:
                shares = weights[f"{prefix}relations.shares_RB"][place]
                of_relation = sum(share * one for share, one in zip(shares, matrix, strict=True))
            else:
                of_relation = matrix[place]
            means = matrices[number] @ rows[relation.source]
            out[relation.destination] = out[relation.destination] + means @ of_relation
        if options.residual:
            skip = weights.get(f"model.skips.{layer}.weight_FG")
            out = {name: of + (rows[name] if skip is None else rows[name] @ skip) for name, of in out.items()}
        if is_last:
            return out[graph.target]
        rows = {name: of.relu() for name, of in out.items()}
        outputs.append(rows[graph.target])
    return torch.cat(outputs, 1) @ weights["model.jump.weight_FC"] + weights["model.jump.bias_C"]


def dense_rgcn_loss(options: Options, weights: Mapping[str, Tensor], graph: TypedGraph) -> Tensor:
    """The training loss."""
    train = torch.from_numpy(graph.role < 2)
    return functional.cross_entropy(dense_rgcn_scores(options, weights, graph)[train], torch.from_numpy(graph.y)[train])


def dense_rgcn_losses(options: Options, weights: Mapping[str, Tensor], graph: TypedGraph) -> list[float]:
    """The training losses of every epoch with Adam and weight decay on the inputs and the first layer."""
    weights = {name: value.double().clone().requires_grad_() for name, value in weights.items()}
    decayed = [name for name in weights if name.startswith(("model.inputs.", "model.layers.0."))]
    optimizer = torch.optim.Adam(
        [
            {"params": [weights[name] for name in decayed], "weight_decay": options.weight_decay},
            {"params": [value for name, value in weights.items() if name not in decayed]},
        ],
        lr=options.lr,
    )
    losses = []
    for _ in range(options.epochs):
        optimizer.zero_grad()
        loss = dense_rgcn_loss(options, weights, graph)
        loss.backward()
        if options.clip_norm:
            torch.nn.utils.clip_grad_norm_(list(weights.values()), options.clip_norm)
        optimizer.step()
        losses.append(loss.item())
    return losses
