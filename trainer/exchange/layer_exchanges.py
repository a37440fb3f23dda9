"""Which exchange each layer has, and what that takes by the cost model. No torch here.

A layer's sum of rows [., w] moves, forward, and the other way round backward:

    boundary    V[p,q] rows of w values from rank p to q, in stages where rows are relayed; each rank sums over its own
                E in-edges
    tensor      from rank p to q the columns of q of p's rows that some peer needs, and then the columns of p of q's
                sums over rows of peers; each rank sums over the edges inside its part, and over all edges between
                parts, of its share of the columns

The seconds of an epoch are those of the slowest link direction and those of the slowest rank, one after the other,
forward and backward, and a forward pass more for each validation. A rank reads and writes 4 w + 8 bytes for an edge
and twice the bytes that it sends and receives, at `BYTES_PER_S` of its device. That is no measurement: `auto` has to
choose alike in every run, and mostly the links decide.

Letters: P ranks, E in-edges of a rank, V[p,q] rows of p that q needs, w a width.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, NamedTuple

from trainer.config.options import Options, is_own_model
from trainer.dist.link_model import LinkModel

EVERY_LAYER = range(1, sys.maxsize)
"""Also of a model of the user's, whose layers are known when it has run."""
BYTES_PER_S = {"cpu": 8e9, "cuda": 1e12}
_EDGE_BYTES, _VALUE_BYTES = 8, 4
_WIRE_BYTES = {"fp32": (4, 0), "bf16": (2, 0), "fp16": (2, 0), "int8": (1, 2)}
"""Bytes a value, and bytes a row more."""
_STORED_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerExchange:
    """The exchange of one layer, with the seconds an epoch of both."""

    layer: int
    width: int
    exchange: Literal["boundary", "tensor"]
    boundary_seconds: float
    tensor_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCounts:
    """The counts of a partitioned graph, by rank."""

    shared_rows: Sequence[int]
    """Own rows that some peer needs, each once"""
    halo_sums: Sequence[int]
    """Own neighbour sums with an in-edge from a peer"""
    edges: Sequence[int]
    cross_edges: Sequence[int]
    """In-edges from peers"""
    rows_SPP: Sequence[Sequence[Sequence[int]]]
    """V, or what goes from rank to rank in each stage where rows are relayed"""


def tensor_layers(options: Options, layers: Sequence[LayerExchange]) -> Container[int]:
    """The layers that are tensor-parallel."""
    if options.exchange == "tensor":
        return EVERY_LAYER
    return [one.layer for one in layers if one.exchange == "tensor"]


def column_counts(width: int, world: int) -> list[int]:
    """How many of a layer's columns each rank sums where the layer is tensor-parallel."""
    return [width // world + (rank < width % world) for rank in range(world)]


def column_slices(width: int, world: int) -> list[slice]:
    """Which columns these are."""
    counts = column_counts(width, world)
    return [slice(end - count, end) for count, end in zip(counts, accumulate(counts), strict=True)]


def exchanged_widths(options: Options, *, outputs: int, is_typed: bool, learns_rows: bool = False) -> dict[int, int]:
    """The width of the rows that each layer exchanges in every epoch, by layer; none for a model of the user's.

    Args:
        options: of a run without attention.
        outputs: scores a node.
        is_typed: whether node types and relations are distinguished, so that layer 1 exchanges too.
        learns_rows: whether layer 1 reads learnt rows in place of features, and so exchanges too.
    """
    if is_own_model(options.model):
        return {}
    first = 1 if is_typed or learns_rows else 2
    widths = dict.fromkeys(range(first, options.layers + 1), options.hidden)
    if options.layers in widths and options.jumping == "none" and not is_typed and options.model != "gin":
        widths[options.layers] = min(options.hidden, outputs)
    return widths


def layer_exchanges(
    options: Options, widths: dict[int, int], counts: GraphCounts, links: LinkModel, *, device: str
) -> list[LayerExchange]:
    """What the model says of each layer under `--exchange tensor`, and under `auto` which exchange is faster.

    Args:
        options: of the run.
        widths: from `exchanged_widths`.
        counts: of the graph.
        links: between the ranks.
        device: of the ranks, `cpu` or `cuda`.
    """
    found = []
    for layer, width in widths.items():
        boundary, tensor = (
            sum(
                times * _pass_seconds(*kind(counts, width, wire, forward=forward), links, BYTES_PER_S[device])
                for times, wire, forward in _passes(options)
            )
            for kind in (_boundary, _tensor)
        )
        is_tensor = options.exchange == "tensor" or tensor < boundary
        found.append(
            LayerExchange(
                layer=layer,
                width=width,
                exchange="tensor" if is_tensor else "boundary",
                boundary_seconds=boundary,
                tensor_seconds=tensor,
            )
        )
    return found


def in_words(layers: Sequence[LayerExchange]) -> str:
    """The choice of every layer with both predictions, as a sentence."""
    parts = [
        f"layer {one.layer} {one.exchange} (boundary {one.boundary_seconds:.3g} s, tensor {one.tensor_seconds:.3g} s)"
        for one in layers
    ]
    return f"exchange by layer, with the model's seconds an epoch: {', '.join(parts)}"


def _passes(options: Options) -> Iterator[tuple[float, _RowBytes, bool]]:
    """How many passes an epoch has, in which wire, and whether they are forward."""
    stored = _STORED_BYTES[options.precision]
    wire = min(_RowBytes(stored, 0), _RowBytes(*_WIRE_BYTES[options.wire]))
    yield 1.0, wire, True
    yield 1.0, wire, False
    if options.validate_from == "exact":
        yield 1 / options.eval_every, _RowBytes(stored, 0), True


class _RowBytes(NamedTuple):
    """The bytes of a row on the wire."""

    a_value: int
    a_row: int

    def of(self, width: int) -> int:
        return width * self.a_value + self.a_row if width else 0


_Matrix = list[list[int]]


def _boundary(counts: GraphCounts, width: int, wire: _RowBytes, *, forward: bool) -> tuple[list[_Matrix], list[int]]:
    """The bytes of each exchange, and those that each rank reads for its edges, in one pass."""
    stages = [rows_PP if forward else list(zip(*rows_PP, strict=True)) for rows_PP in counts.rows_SPP]
    exchanges = [[[rows * wire.of(width) for rows in of_rank] for of_rank in rows_PP] for rows_PP in stages]
    return exchanges, [edges * _edge_bytes(width) for edges in counts.edges]


def _tensor(counts: GraphCounts, width: int, wire: _RowBytes, *, forward: bool) -> tuple[list[_Matrix], list[int]]:
    """The same of a tensor-parallel sum."""
    columns = column_counts(width, len(counts.edges))
    ends = counts.shared_rows, counts.halo_sums
    before, after = ends if forward else ends[::-1]
    out = [[rows * wire.of(theirs) for theirs in columns] for rows in before]
    back = [[rows * wire.of(own) for rows in after] for own in columns]
    work = [
        (edges - cross) * _edge_bytes(width) + sum(counts.cross_edges) * _edge_bytes(own)
        for edges, cross, own in zip(counts.edges, counts.cross_edges, columns, strict=True)
    ]
    return [out, back], work


def _edge_bytes(width: int) -> int:
    """Bytes that are read for one edge in a sum of rows of `width`."""
    return _EDGE_BYTES + _VALUE_BYTES * width


def _pass_seconds(exchanges: Sequence[_Matrix], read: Sequence[int], links: LinkModel, bytes_per_s: float) -> float:
    work = list(read)
    for bytes_PP in exchanges:
        for p, of_rank in enumerate(bytes_PP):
            for q, number in enumerate(of_rank):
                if p != q:
                    work[p] += 2 * number
                    work[q] += 2 * number
    return sum(map(links.seconds, exchanges)) + max(work) / bytes_per_s
