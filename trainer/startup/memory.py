"""The memory that a rank will need, by purpose, before it takes any: the estimate of docs/training-reference.md.

Letters: n own rows, H halo rows (under a sequential exchange those of one peer), R rows sent (a row that two peers need
counts twice), E in-edges, w_0 .. w_L the widths of features, layers and scores, b bytes of a stored value
(`--precision`), i bytes of an index.

The interpreter, torch and what the driver holds are not in the estimate, since it is compared with the memory that is
still available. Nor are pages of the cache's files, which the system frees when it needs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from trainer.base import cgroup
from trainer.base.errors import TrainingError
from trainer.config.options import Options
from trainer.config.row_cache import kept_share
from trainer.exchange.layer_exchanges import column_counts
from trainer.sparse.sparsity import are_sparse

_STORED = {"fp32": 4, "bf16": 2, "fp16": 2}
_FP32 = 4
"""Bytes of an fp32 value: sums, scores, weights."""
_COPIES_OF_WEIGHTS = 9
"""Weights, their decay, two vectors of the optimiser, gradients by parameter, as one vector, and summed, and the best
weights with a temporary copy."""
_BYTES_OF_AN_ENTRY = 48
"""Bytes of a feature that is not 0: value, row and column, the same in the transpose with its permutation, the entries
after dropout, and scratch memory to sort."""
_INPUTS = {"gcn": 1, "sage": 2, "gat": 1, "gatv2": 2, "gin": 2, "rgcn": 2}
"""Copies of a layer's input that its backward pass needs: after dropout, for each product with a weight."""
_SLOTS = 8
"""Batches that are sampled and not trained on yet, at most."""
_BYTES_OF_A_DRAWN_EDGE, _BYTES_OF_A_BATCH_NODE = 8, 32
_BYTES_OF_A_READ_EDGE, _BYTES_OF_A_NODE = 24, 40
"""In the sampler, while it puts the edges of a part in order for the file that all samplers map, or those of all parts:
with links, whose later edges are taken out, and with features of edges, whose places it finds. Then these are 4 to 8 an
edge."""
_SMALL_BATCH = 4096
"""Pairs of a batch that is advised."""
_BLOCK = 1 << 20
"""Scores in a block of edges, at least, and of those some five at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedSizes:
    """The further sizes of graphs of several node types and relations."""

    sums: int
    """M: neighbour sums of all relations, one a node and relation with in-edges"""
    relations: int
    feature_weights: int
    """Features of all types together"""
    features: int
    """Values of the features of this rank's rows, of the types that have them as matrices"""
    entries: int
    """Those that are not 0, of the other types"""
    learnt: int
    """Rows that are learnt"""
    gathered: int
    """Learnt rows of all ranks, on the rank that writes checkpoints; elsewhere 0"""
    sources: int = 0
    """C: rows, own and of the halo, that edges begin at, once for each relation"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossSizes:
    """The sizes of the edges between all parts, where some layer is tensor-parallel."""

    ranks: int
    """P"""
    rows: int
    """Rows that some other rank needs"""
    sums: int
    """Neighbour sums over rows of other ranks"""
    edges: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What the estimate of one rank is computed from."""

    rows: int
    """n"""
    halo: int
    """H"""
    largest_halo: int
    """The most rows that one peer sends"""
    sent: int
    """R"""
    others: int
    """N - n: rows that a broadcast brings"""
    edges: int
    """E"""
    index_bytes: int
    """i"""
    features: int
    """w_0"""
    outputs: int
    """w_L"""
    shared_rows: int = 0
    """Own rows that some peer needs, each once"""
    halo_sums: int = 0
    """Own neighbour sums with an in-edge from a peer"""
    cross_edges: int = 0
    """In-edges from peers"""
    entries: int | None = None
    """Features of own rows that are not 0, where the features are held by them"""
    edge_features: int = 0
    """D, of those that the model reads"""
    learnt: int = 0
    """Own rows that are learnt in place of features, where types are not distinguished"""
    gathered: int = 0
    """Those of all ranks, on the rank that writes checkpoints; elsewhere 0"""
    typed: TypedSizes | None = None
    cross: CrossSizes | None = None

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Sizes:
        """From the values that dataclasses.asdict gave, for a rank by itself."""
        typed = plain.get("typed")
        return cls(**{**plain, "typed": None if typed is None else TypedSizes(**typed), "cross": None})


def in_one_form(sizes: Sequence[Sizes]) -> tuple[bool, list[Sizes]]:
    """Whether all ranks hold their features by the entries that are not 0; if not, `entries` of every rank is None."""
    by_entries = are_sparse([(one.entries, one.rows * one.features) for one in sizes])
    return by_entries, [one if by_entries else replace(one, entries=None) for one in sizes]


def with_cross_edges(sizes: Sequence[Sizes]) -> list[Sizes]:
    """The sizes of all ranks, where some layer is tensor-parallel."""
    cross = CrossSizes(
        ranks=len(sizes),
        rows=sum(one.shared_rows for one in sizes),
        sums=sum(one.halo_sums for one in sizes),
        edges=sum(one.cross_edges for one in sizes),
    )
    return [replace(one, cross=cross) for one in sizes]


def estimate_bytes(options: Options, sizes: Sizes) -> dict[str, int]:
    """The peak bytes of training, by purpose."""
    total = _of_encoder(options, sizes)
    if options.learns_pairs:
        width = options.embedding_width
        batch = min(options.pair_batch, sizes.edges * max(options.negatives, 1))
        # Edges in order with what sorts them, and pairs with their hash, once more by group.
        # A batch's rows of both nodes and of each first node once, their products, and the gradients of all.
        hidden = options.hidden if options.decoder == "mlp" or options.learns_edge_labels else 0
        owners = 4 * (sizes.rows + sizes.others)
        total["pairs"] = (
            owners + 48 * sizes.edges + batch * (32 * (width + 2) + 16 * hidden) + sizes.rows * width * _FP32
        )
    return _with_batches(options, sizes, total) if options.batch_size else total


def _with_batches(options: Options, sizes: Sizes, total: dict[str, int]) -> dict[str, int]:
    """The same where only evaluations are on the whole graph, and steps on batches.

    As if one rank had all the seeds of a batch, and other ranks as many edges a node as this one.
    """
    num_nodes = sizes.rows + sizes.others
    num_edges = sizes.edges * num_nodes // max(sizes.rows, 1)
    computed = nodes = min(options.batch_size or num_nodes, num_nodes)
    drawn = 0
    for fanout in options.fanout_list:
        of_hop = num_edges if fanout < 0 else min(nodes * fanout, num_edges)
        computed, nodes, drawn = nodes, min(nodes + of_hop, num_nodes), drawn + of_hop
    width = max(options.hidden * (options.heads if options.attends else 1), sizes.outputs)
    # Features as they came, in the rows' type and after dropout; of what is computed some six copies with gradients.
    rows = 3 * nodes * sizes.features * _FP32 + 6 * computed * width * options.layers * _FP32
    if options.control_variates:  # two passes over the batch, with what their nodes had; and own rows with their sums
        rows *= 2
        total["histories"] = 3 * sizes.rows * (sizes.features + 2 * options.hidden * (options.layers - 1)) * _FP32
    all_bytes = num_nodes * sizes.features * _FP32
    if sizes.others and (share := kept_share(options.remote_row_cache, all_bytes)):
        total["kept rows"] = int(share * all_bytes)
    if sizes.others and options.features_by == "columns":  # N x F / P of them are as many as own rows have, on average
        total["columns"] = sizes.rows * sizes.features * _FP32
    reads_all = (options.learns_links and options.sample_from != "owners") or options.reads_edge_features
    read_edges = num_edges if reads_all else sizes.edges
    of_edge = _BYTES_OF_A_DRAWN_EDGE + (_FP32 * sizes.edge_features if options.reads_edge_features else 0)
    slots = _SLOTS * (of_edge * drawn + _BYTES_OF_A_BATCH_NODE * nodes)
    return total | {
        "adjacency": total["adjacency"] // 2,
        "activations": 3 * sizes.rows * width * _FP32,
        "sorting": 0,
        "batches": rows + slots,
        "sampler": _BYTES_OF_A_READ_EDGE * read_edges + _BYTES_OF_A_NODE * num_nodes,
    }


def _of_encoder(options: Options, sizes: Sizes) -> dict[str, int]:
    """The same without what pairs take."""
    total, cross, width = _of_own_part(options, sizes), sizes.cross, options.hidden
    if cross is None or cross.ranks == 1 or options.exchange not in ("tensor", "auto"):
        return total
    share, ends = max(column_counts(width, cross.ranks)), cross.rows + cross.sums
    index_bytes = 4 if max(cross.edges, ends) < 2**31 else 8
    # Matrix and transpose, of the training graph too.
    graphs = 2 if options.inductive else 1
    total["cross adjacency"] = graphs * 2 * (cross.edges * (index_bytes + _FP32) + ends * index_bytes)
    # Rows of all columns, and of all ranks of some: as they are, sent and received. No other layer exchanges meanwhile.
    by_columns = 3 * ((sizes.shared_rows + sizes.halo_sums) * width + ends * share) * _FP32
    total["exchange"] = max(total["exchange"], by_columns)
    # While they are made: the edges as the cache has them, selected and weighed, and what sorts them.
    making = cross.edges * (2 * (8 + index_bytes) + 2 * (index_bytes + _FP32))
    total["sorting"] = max(
        total["sorting"], making - total["activations"] - total["exchange"] - total["features"] - total["adjacency"]
    )
    return total


def _budget_rows(received: int, sent: int) -> int:
    """Rows in fp32 that --error-budget and --byte-budget keep of a layer: forward and backward the copies of both ends
    and the rows of the cycle's first epoch, of gradients what is owed, and of rows those without dropout."""
    return 2 * (received + 2 * sent) + received + sent


def _of_own_part(options: Options, sizes: Sizes) -> dict[str, int]:
    """The same without the edges of other parts."""
    if sizes.typed is not None:
        return _of_types(options, sizes, sizes.typed)
    n, sent, b = sizes.rows, sizes.sent, _STORED[options.precision]
    is_sequential = options.exchange == "sequential"
    halo = sizes.largest_halo if is_sequential else sizes.halo
    between = options.hidden * (options.heads if options.attends else 1)
    # Jumping connections come to one more layer, whose input is as wide as all outputs together.
    first = [0, options.input_width] if sizes.learnt else [sizes.features]
    widths = [*first, *[between] * (options.layers - (options.jumping == "none")), sizes.outputs]
    pairs = list(pairwise(widths))
    inputs = _INPUTS.get(options.model, max(_INPUTS.values())) + options.residual
    weights = inputs * sum(one * other for one, other in pairs) + sum(widths[1:])
    weights += sizes.edge_features * sum(widths[:-1] if options.sums_messages else widths[1:])

    edges = sizes.edges + (n if options.model == "gcn" or options.attends else 0)
    # A sum has a weight an edge; attention and messages the row of each edge, and where rows begin within their blocks.
    has_blocks = options.attends or options.sums_messages
    of_edge = sizes.index_bytes + (sizes.index_bytes + sizes.edge_features * _FP32 if has_blocks else _FP32)
    of_row = sizes.index_bytes * (2 if has_blocks else 1)
    matrices = 2 * (edges * of_edge + (n + sizes.halo) * of_row)
    if not has_blocks:
        matrices += n * sizes.edge_features * _FP32  # their sums, or the greatest of them
    features = (n + (0 if is_sequential else halo)) * widths[0] * b
    if sizes.entries is not None:
        # By their entries: those of the halo are as many a row. And its products, with their gradients.
        features = sizes.entries * (n + halo) // max(n, 1) * _BYTES_OF_AN_ENTRY + 2 * halo * widths[1] * _FP32
    elif options.first_dropout:
        # Dropped anew in each epoch; where the layer narrows, the halo's too.
        features += n * widths[0] * b * inputs + (halo * widths[0] * b if widths[1] < widths[0] else n * widths[0] * b)
    else:
        features += n * widths[0] * b

    outputs = sum(n * width * (_FP32 + (b if b != _FP32 else 0)) for width in widths[1:])
    hidden = n * sum(widths[1:-1])
    norms = {"none": 0, "layer": hidden * _FP32, "batch": 3 * hidden * _FP32}[options.norm]
    # A sequential exchange makes one layer of attention at a time again, of which only the input is kept till then.
    is_made_again = is_sequential and options.attends
    saved = inputs * n * sum(widths[1:-1]) * b
    if options.sums_messages:
        # The halo's rows, where they need not be fetched again; and the gradients of a layer's and of the halo's.
        saved += (0 if is_sequential else halo * sum(widths[1:-1]) * b) + (n + halo) * max(widths[:-1]) * _FP32
    if is_made_again:
        saved = (inputs - 1) * n * max(widths[:-1]) * b
    widest = max(min(pair) for pair in pairs[1:]) if len(pairs) > 1 else widths[1]
    # Gradient in and out of a layer, and the products between them; and what batch norm makes of them.
    in_motion = n * (max(widths[1:]) + (0 if is_made_again else 2 * inputs * widest)) * _FP32
    if options.norm == "batch":
        in_motion += 4 * n * max(widths[1:-1], default=0) * _FP32

    received = sizes.others if options.exchange == "broadcast" else halo
    sent_widths = [one if options.sums_messages else min(one, other) for one, other in pairs[1:]]
    projected = [between] * (options.layers - 1) + [
        between if options.jumping != "none" else options.last_heads * sizes.outputs
    ]
    if options.attends:
        sent_widths = projected if is_sequential or sizes.learnt else projected[1:]
    buffers = (2 * received + halo + 2 * sent) * max(sent_widths, default=0) * _FP32
    kept = (
        sum(sent_widths)
        * b
        * ((received if options.staleness != "none" else 0) + (sent if options.staleness_grad != "none" else 0))
    )
    if options.chooses_bits:
        kept = sum(sent_widths) * _FP32 * _budget_rows(received, sent)
    total = {
        "weights": weights * _FP32 * _COPIES_OF_WEIGHTS,
        "adjacency": matrices,
        "features": features,
        "activations": outputs + norms + saved + in_motion,
        "exchange": buffers + kept,
    }
    if sizes.learnt:
        total["embeddings"] = _of_learnt_rows(options, sizes.learnt, sizes.gathered)
    if options.attends:
        # A layer's rows after their product and those of the halo are kept for the backward pass, which has their
        # gradients in fp32 beside them; a sequential exchange makes one layer at a time again.
        kept_rows = (n + halo) * (max(projected) if is_sequential else sum(projected)) * b
        scores = 5 * max(_BLOCK, options.heads * max(n, halo)) * _FP32
        widened = max(n, halo) * max(projected) * _FP32 if b != _FP32 else 0
        total["attention"] = kept_rows + (3 * n + 2 * halo) * max(projected) * _FP32 + widened + scores
    # While the matrices are made, their edges are sorted: order, keys and both again as scratch. Nothing else is there.
    sorting = edges * 2 * (8 + sizes.index_bytes) - total["activations"] - total["exchange"] - total["features"]
    total["sorting"] = max(0, sorting)
    if options.inductive:
        return {name: value * (2 if name in ("adjacency", "features") else 1) for name, value in total.items()}
    return total


def _of_types(options: Options, sizes: Sizes, typed: TypedSizes) -> dict[str, int]:
    """The same for graphs of several node types and relations.

    Every layer reads rows that are `hidden` wide, and beside what GraphSAGE keeps, its M sums and their gradients.
    """
    if options.attends:
        return _of_relation_attention(options, sizes, typed)
    n, b, width = sizes.rows, _STORED[options.precision], options.hidden
    as_sage = replace(options, model="sage", layers=options.layers + 1)
    # One layer more, which makes layer 1's input and exchanges and sums nothing.
    # Rows travel before their products, so the last layer's are no narrower.
    outputs = max(sizes.outputs, width)
    total = _of_own_part(as_sage, replace(sizes, features=0, edges=0, outputs=outputs, typed=None))
    more_weights = typed.feature_weights * width + (options.bases or typed.relations) * width * width * options.layers
    total["weights"] += more_weights * _FP32 * _COPIES_OF_WEIGHTS
    halo = sizes.largest_halo if options.exchange == "sequential" else sizes.halo
    total["adjacency"] = (
        2 * sizes.edges * (sizes.index_bytes + _FP32) + (2 * typed.sums + n + sizes.halo) * sizes.index_bytes
    )
    total |= _of_typed_input(options, typed)
    # Sums are kept for their weights' gradients, and are in fp32 beside their own gradients while they are made.
    total["activations"] += typed.sums * width * (options.layers * b + 2 * _FP32) + halo * width * _FP32
    total["sorting"] = _sorting_typed(sizes, total)
    return total


def _of_typed_input(options: Options, typed: TypedSizes) -> dict[str, int]:
    """Features of all types, and learnt rows."""
    return {
        "features": typed.features * _STORED[options.precision] + typed.entries * _BYTES_OF_AN_ENTRY,
        "embeddings": _of_learnt_rows(options, typed.learnt, typed.gathered),
    }


def _of_learnt_rows(options: Options, learnt: int, gathered: int) -> int:
    copies = learnt * _COPIES_OF_WEIGHTS + (gathered * 8 if options.checkpoint is not None else 0)
    return copies * options.input_width * _FP32


def _sorting_typed(sizes: Sizes, total: Mapping[str, int]) -> int:
    sorting = sizes.edges * 2 * (8 + sizes.index_bytes) - total["activations"] - total["exchange"] - total["features"]
    return max(0, sorting)


def _of_relation_attention(options: Options, sizes: Sizes, typed: TypedSizes) -> dict[str, int]:
    """The same for R-GAT and HGT.

    A layer keeps its own rows with the halo's, the rows of the sources of each relation and what their product with the
    relation's weight gives (HGT's is a key and a value); a sequential exchange makes one layer at a time again.
    """
    n, halo, b, is_hgt = sizes.rows, sizes.halo, _STORED[options.precision], options.model == "hgt"
    width, is_sequential = options.hidden * options.heads, options.exchange == "sequential"
    made = 2 if is_hgt else 1
    a_layer = (n + halo) * 2 * width * b + typed.sources * (1 + made) * width * b
    a_layer += n * (3 if is_hgt else 2) * width * _FP32
    layers = 1 if is_sequential else options.layers
    outputs = options.layers * n * width * (_FP32 + (b if b != _FP32 else 0))
    norms = {"none": 0, "layer": 1, "batch": 3}[options.norm] * options.layers * n * width * _FP32
    # Gradients of values (and keys) in fp32, of the rows that they are made of, and of rows with the halo's.
    in_motion = typed.sources * (made + 1) * width * _FP32 + (4 * n + 2 * halo) * width * _FP32
    received = sizes.others if options.exchange == "broadcast" else sizes.largest_halo if is_sequential else halo
    kept = (received if options.staleness != "none" else 0) + (sizes.sent if options.staleness_grad != "none" else 0)
    if options.chooses_bits:
        kept = _budget_rows(received, sizes.sent) * _FP32 // b
    matrices = typed.relations * made * width + 4 * width
    weights = options.layers * matrices * width + typed.feature_weights * options.input_width
    rows = typed.sources + (n if is_hgt else typed.sums)
    total = {
        "weights": weights * _FP32 * _COPIES_OF_WEIGHTS,
        "adjacency": 2 * (2 * sizes.edges + 2 * rows) * sizes.index_bytes + 8 * (typed.sources + typed.sums),
        **_of_typed_input(options, typed),
        "activations": layers * a_layer + outputs + norms + in_motion,
        "exchange": (2 * received + halo + 2 * sizes.sent) * width * _FP32 + kept * width * options.layers * b,
        "attention": 5 * max(_BLOCK, options.heads * max(n, halo)) * _FP32,
    }
    total["sorting"] = _sorting_typed(sizes, total)
    return total


def available_bytes() -> int:
    """Bytes available without swapping, by the kernel's estimate and this process's control groups."""
    limits = [int(line.split()[1]) * 1024 for line in _lines("/proc/meminfo") if line.startswith("MemAvailable:")]
    of_control_groups = cgroup.left()
    if of_control_groups is not None:
        limits.append(of_control_groups)
    return min(limits, default=1 << 62)


def fits_on_machines(facts: Sequence[Mapping[str, Any]], needed: int) -> bool:
    """Whether `needed` bytes of each rank take at most half of the memory that is free on every machine.

    Args:
        facts: of each rank: `host`, and the bytes `available` to it.
        needed: of each rank.
    """
    hosts: dict[str, list[int]] = {}
    for fact in facts:
        hosts.setdefault(fact["host"], []).append(fact["available"])
    return all(len(available) * needed <= min(available) / 2 for available in hosts.values())


def check_memory(facts: Sequence[Mapping[str, Any]], options: Options, sizes: Sequence[Sizes]) -> None:
    """Refuse a run whose ranks will not fit.

    Args:
        facts: of each rank: `host`, `device`, and the bytes `available` to it.
        options: of the run.
        sizes: of each rank.

    Raises:
        TrainingError: some ranks of a host, or of a GPU, need more than there is.
    """
    places: dict[tuple[str, str], list[int]] = {}
    for rank, fact in enumerate(facts):
        places.setdefault((fact["host"], fact["device"]), []).append(rank)
    for (host, device), ranks in places.items():
        available = min(facts[rank]["available"] for rank in ranks)
        by_purpose = [estimate_bytes(options, sizes[rank]) for rank in ranks]
        needed = sum(sum(one.values()) for one in by_purpose)
        if needed <= available or options.anyway:
            continue
        most = {name: sum(one[name] for one in by_purpose) for name in by_purpose[0]}
        largest = sorted(most, key=lambda name: -most[name])[:2]
        parts = len(facts) * -(-needed // available)
        advice = _options_that_fit(options, [sizes[rank] for rank in ranks], available)
        raise TrainingError(
            f"{_ranks(ranks)} on {host} ({device}) will need about {_gb(needed)} and there is {_gb(available)} "
            f"({largest[0]} {_gb(most[largest[0]])}, {largest[1]} {_gb(most[largest[1]])}); "
            f"{advice}partition into {parts} parts on more machines or GPUs, or give --anyway"
        )


def estimate_summary(options: Options, sizes: Sequence[Sizes]) -> str:
    """The estimate of the fullest rank, as a sentence."""
    estimates = [estimate_bytes(options, size) for size in sizes]
    rank, estimate = max(enumerate(estimates), key=lambda item: sum(item[1].values()))
    purposes = ", ".join(f"{name} {_gb(number)}" for name, number in estimate.items() if number)
    return f"rank {rank} will need the most memory, about {_gb(sum(estimate.values()))}: {purposes}"


def _options_that_fit(options: Options, sizes: Sequence[Sizes], available: int) -> str:
    """Options with which the same ranks fit, as the beginning of the advice."""
    tries: list[tuple[str, Options]] = []
    if options.exchange == "tensor":
        tries.append(("--exchange boundary", replace(options, exchange="boundary")))
    elif options.exchange != "sequential":
        tries.append(("--exchange sequential", replace(options, exchange="sequential")))
    if options.learns_pairs and options.pair_batch > _SMALL_BATCH:
        tries.append((f"--pair-batch {_SMALL_BATCH}", replace(options, pair_batch=_SMALL_BATCH)))
    if options.precision == "fp32":
        tries.append(("--precision bf16", replace(options, precision="bf16")))
    if options.first_dropout and all(one.entries is None for one in sizes):
        tries.append(("--input-dropout 0", replace(options, input_dropout=0.0)))
    tries += [
        (f"--hidden {options.hidden >> shift}", replace(options, hidden=options.hidden >> shift))
        for shift in range(1, 6)
        if options.hidden >> shift >= 8
    ]
    fits = [words for words, other in tries if sum(sum(estimate_bytes(other, s).values()) for s in sizes) <= available]
    return f"use {' or '.join(fits[:3])}, " if fits else ""


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"the {len(ranks)} ranks"


def _gb(number: int) -> str:
    return f"{number / 1e9:.3g} GB"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
