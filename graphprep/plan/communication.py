"""What the exchanges of an epoch take on the links, and what they send.

Layer 1 exchanges nothing. Each other layer exchanges halo rows, or the columns of a tensor-parallel sum, forward and
backward, in the type of the wire; a validation is one more forward exchange in fp32, always of all rows. A policy that
keeps rows sends a share of them, spread over epochs. The gradients of the weights are summed in a ring.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from graphprep.plan.partitioned_graph import PartitionedGraph
from graphprep.plan.training import WIRE_BYTES, TrainingPlan
from graphprep.traffic import LinkModel
from graphprep.traffic.tensor import tensor_bytes, tensor_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Communication:
    """Of an epoch with its share of a validation."""

    row_seconds: float
    """Of exchanging rows and their gradients: each exchange takes as long as its slowest link direction."""
    weights_seconds: float
    row_bytes: int
    weight_bytes: int

    @property
    def seconds(self) -> float:
        return self.row_seconds + self.weights_seconds


def communication(
    graph: PartitionedGraph,
    model: LinkModel,
    training: TrainingPlan,
    tensor: Mapping[int, int],
    *,
    shares: Mapping[tuple[int, str], float] | None = None,
) -> Communication:
    """What an epoch exchanges.

    Args:
        graph: the counts.
        model: of its topology.
        training: the options.
        tensor: the width of each tensor-parallel layer, by its number from 1.
        shares: by layer and direction, what a run sends of the exact bytes that chooses bits and age of rows, in place
            of what `training` says; all of a layer that is not there. Every link is taken to have the same share.
    """
    forward, backward = training.sent_shares
    uses_relays = training.relay != "off" and shares is None  # a budget's copies are of single pairs of ranks
    ahead = graph.traffic if uses_relays else graph.traffic.without_relays()
    back = graph.traffic.without_relays() if backward < 1 else ahead  # kept gradients go straight to their owners
    back = back.reversed()
    rows, gradients = graph.cross, graph.cross.reversed()

    def of_boundary(wire: str) -> dict[int, int]:
        """The bytes of a row by the layer's number."""
        of_layers = training.row_bytes(graph.num_features, graph.num_classes, wire=wire)
        return {number: size for number, size in enumerate(of_layers, 1) if size and number not in tensor}

    def share(number: int, direction: str) -> float:
        if shares is not None:
            return shares.get((number, direction), 1.0)
        return forward if direction == "forward" else backward

    def of_tensor(of_sum: Callable[..., float], wire: str) -> float:
        value_bytes, more_bytes = WIRE_BYTES[wire]
        return sum(of_sum(width, value_bytes=value_bytes, more_bytes=more_bytes) for width in tensor.values())

    def all_bytes(width: int, **sizes: int) -> float:
        return sum(int(bytes_PP.sum()) for bytes_PP in tensor_bytes(rows, width, **sizes))

    seconds = sum(
        share(layer, "forward") * model.bottleneck(ahead, size)
        + share(layer, "backward") * model.bottleneck(back, size)
        for layer, size in of_boundary(training.wire).items()
    )
    seconds += sum(of_tensor(partial(tensor_seconds, model, way), training.wire) for way in (rows, gradients))
    validation = sum(model.bottleneck(ahead, size) for size in of_boundary("fp32").values())
    validation += of_tensor(partial(tensor_seconds, model, rows), "fp32")
    number = int(graph.traffic.rows_PP.sum())
    sent = number * sum(
        size * (share(layer, "forward") + share(layer, "backward"))
        for layer, size in of_boundary(training.wire).items()
    )
    sent += 2 * of_tensor(all_bytes, training.wire)
    exact = number * sum(of_boundary("fp32").values()) + of_tensor(all_bytes, "fp32")
    return Communication(
        row_seconds=seconds + validation / training.eval_every,
        weights_seconds=_weights_seconds(graph, model, training),
        row_bytes=round(sent + exact / training.eval_every),
        weight_bytes=training.weight_bytes(*graph.widths, ranks=graph.topology.num_ranks),
    )


def _weights_seconds(graph: PartitionedGraph, model: LinkModel, training: TrainingPlan) -> float:
    """Seconds of the all-reduce of weight gradients, as a ring in rank order: 2 (k - 1) times a k-th of them to the
    next rank, all ranks at once (Patarasuk and Yuan 2009)."""
    ranks = graph.topology.num_ranks
    if ranks == 1:
        return 0.0
    pieces_PP = np.zeros((ranks, ranks), np.int64)
    pieces_PP[np.arange(ranks), (np.arange(ranks) + 1) % ranks] = -(-training.num_weights(*graph.widths) // ranks)
    step = model.seconds(pieces_PP, WIRE_BYTES[training.weights_wire][0]).max()
    return float(2 * (ranks - 1) * step)
