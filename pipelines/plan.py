"""Predict the training of a cache, or of a store partitioned for a topology, by rates and the cost model.

A store is partitioned by METIS, in memory and without refinement, for its counts: the plan says so, and a refined
cache usually has a lower bottleneck.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.read import PartitionCache
from graphprep.core.bfloat16 import to_float32
from graphprep.core.csr import index_dtype
from graphprep.core.types import Csr, EdgeType
from graphprep.errors import UsageError
from graphprep.interop.scipy_matrix import to_scipy
from graphprep.partition.engine import whole_graph
from graphprep.partition.request import PartitionRequest
from graphprep.partition.search import partition, require_enough_nodes
from graphprep.plan import rates_file
from graphprep.plan.model_widths import width_mismatch
from graphprep.plan.rank_rates import RankRates, rank_rates, ranks_a_machine
from graphprep.plan.rates import Rates, first_rows, measured_rates
from graphprep.plan.trainer_memory import RankSizes, TrafficRequest, expected_memory
from graphprep.plan.training import WIRE_BYTES, TrainingPlan, epoch_work
from graphprep.report.summary.cache_summary import traffic_of
from graphprep.store.store import GraphStore
from graphprep.system import progress
from graphprep.system.doctor import gpus_here
from graphprep.topology import Topology, resolve
from graphprep.topology.gpu_specs import GATHERED, MULTIPLIED, STREAMED
from graphprep.traffic import LinkModel, Traffic, choose_relays, link_seconds, sent_rows_of, with_relays
from graphprep.traffic.tensor import CrossRows, tensor_bytes, tensor_seconds
from pipelines.look import find
from pipelines.partition import chosen_topology

SKETCH_BYTES_AN_EDGE = 180
"""Memory of METIS and of the undirected graph, approximately."""
SEVERAL_TYPES = (
    "graphs of several node or edge types, which are trained with --model rgcn, rgat or hgt, cannot be planned"
)
WORTH_SENDING_LESS = 0.1
"""Share of communication in an epoch, from which sending less is advised."""
UNEVEN, FULL = 1.1, 0.9
"""Thresholds of advice: slowest over mean computing time, and needed over available memory of a rank."""
SAMPLES, SAMPLED_ROWS = 4, 256
"""Ranges of rows, and rows in each, that are read to estimate how many features are not 0."""
MOST_COUNTED = 0.2
"""Share of a sample that is not 0, up to which a cache's features are counted; the trainer's own limit is lower."""
COUNTED_VALUES = 1 << 22
"""Values that are read in one go to count them."""
EDGE_WEIGHTS = "weights"
"""The trainer's name of the edges' weights among their arrays."""
VALUE_BYTES = 4
"""Of a weight's gradient on its way, in fp32."""
SHORT_EPOCH = 0.01
"""Seconds below which most of an epoch is not in the model."""
STALE_EPOCHS = 4
"""An adaptive policy sends a row once in this many epochs."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartitionedGraph:
    """The counts of a partitioned graph, and some of its rows to measure rates on."""

    dataset: str
    topology: Topology
    traffic: Traffic
    cross: CrossRows
    nodes_P: NDArray[np.int64]
    num_features: int
    entries_P: list[int | None]
    """features that are not 0; None where they are many"""
    num_classes: int
    sample: Csr
    is_sketch: bool
    num_edge_features: int = 0
    """Of those that the model reads."""


def plan_training(
    store_or_cache: str,
    training: TrainingPlan,
    *,
    parts: int | None = None,
    topology: str | Topology | None = None,
    gpu: str | None = None,
    rates_from: Path | None = None,
) -> dict[str, Any]:
    """Predict an epoch, as plain JSON values: seconds by rank and kind, memory, alternatives, advice, what is unknown.

    Args:
        store_or_cache: a cache, or a store with one of `parts` and `topology`.
        training: the trainer's options.
        parts, topology: what a store is partitioned for; for a cache, `topology` is another machine for its parts.
        gpu: the GPU of all ranks, for its published rates.
        rates_from: a file of `graphprep doctor --rates`. Without it and `gpu` see `graphprep.plan.rank_rates`.

    Raises:
        UsageError: the graph has several types, no features or classes, the topology does not fit, or the rates of its
            GPUs are unknown.
        TrainingError: rates cannot be measured here.
    """
    kind, location = find(store_or_cache)
    of_kind, name = _of_cache if kind == "cache" else _of_store, training.edge_features
    graph = of_kind(location, parts, topology, edge_features=name)
    pairs = training.widths(graph.num_features, graph.num_classes)
    in_edges_P, halo_P = graph.traffic.in_edges_P, graph.traffic.halo_rows_P
    counts = [
        {"rows": int(n), "halo": int(halo), "edges": int(edges)}
        for n, halo, edges in zip(graph.nodes_P, halo_P, in_edges_P, strict=True)
    ]
    traffic = None if training.exchange == "boundary" else _traffic_request(graph, gpu, rates_from)
    memory = expected_memory(training, _rank_sizes(graph), Path(location) if kind == "cache" else None, traffic)
    entries = sum(filter(None, graph.entries_P)) / graph.nodes_P.sum() if memory.by_entries else None
    tensor = {layer["layer"]: layer["width"] for layer in memory.layers if layer["exchange"] == "tensor"}
    columns = {layer: -(-width // graph.topology.num_ranks) for layer, width in tensor.items()}
    cross_P = graph.traffic.edges_PP.sum(axis=0).tolist()
    work = [
        epoch_work(
            training,
            pairs,
            **of_rank,
            entries=entries,
            edge_features=graph.num_edge_features,
            columns=columns,
            cross_edges=cross,
            all_cross_edges=sum(cross_P),
        )
        for of_rank, cross in zip(counts, cross_P, strict=True)
    ]

    def measure(processes: int) -> Rates:
        with progress.task("measuring this machine's rates"):
            return measured_rates(graph.sample, work[0], processes=processes)

    chosen = rank_rates(graph.topology, measure=measure, gpus_here=gpus_here, gpu=gpu, file=rates_from)
    ranks: list[dict[str, Any]] = []
    for number, (of_rank, of_work) in enumerate(zip(counts, work, strict=True)):
        rates = chosen.of_ranks[number]
        seconds = rates.seconds(of_work)
        alike = [rank.speed for rank, of in zip(graph.topology.ranks, chosen.of_ranks, strict=True) if of is rates]
        speed = graph.topology.ranks[number].speed / max(alike)
        ranks.append(
            {
                "rank": number,
                "name": graph.topology.ranks[number].name,
                **of_rank,
                "compute_seconds": sum(seconds.values()) / speed,
                "seconds_by_kind": seconds,
                "memory_bytes": sum(memory.bytes_by_purpose[number].values()),
                "memory_by_purpose": memory.bytes_by_purpose[number],
            }
        )
    compute = max(row["compute_seconds"] for row in ranks)
    weights = _weights_seconds(graph, training)
    alternatives = _alternatives(graph, training, compute, weights, tensor)
    direct = None
    if graph.traffic.relayed is not None:
        without = replace(graph, traffic=graph.traffic.without_relays())
        direct = _alternatives(without, training, compute, weights, tensor)[0]["communication_seconds"]
    slowest = link_seconds(graph.traffic, graph.topology, 1024)
    plan = {
        "dataset": graph.dataset,
        "topology": graph.topology.name,
        "num_parts": graph.topology.num_ranks,
        "is_sketch": graph.is_sketch,
        "training": asdict(training),
        "widths": [list(pair) for pair in pairs],
        "entries_a_row": entries,
        "layer_exchanges": memory.layers,
        "rates": chosen.to_json(),
        "device": chosen.of_ranks[0].device,
        "threads_a_rank": chosen.of_ranks[0].threads,
        "compute_seconds": compute,
        "communication_seconds": alternatives[0]["communication_seconds"],
        "communication_seconds_without_relays": direct,
        "weights_seconds": weights,
        "epoch_seconds": alternatives[0]["epoch_seconds"],
        "memory": memory.sentence,
        "row_bytes": alternatives[0]["row_bytes"],
        "weight_bytes": alternatives[0]["weight_bytes"],
        "ranks": ranks,
        "ways": alternatives,
        "bottleneck_type": max(slowest.types, key=lambda row: row.seconds_max).type if slowest.types else None,
    }
    advice = _advice(plan, graph, chosen)
    if kind == "cache" and topology is None:
        advice += _about_row_width(PartitionCache(location), training.row_bytes(graph.num_features, graph.num_classes))
    return plan | {"advice": advice, "unknown": _unknown(plan, chosen, graph)}


def _of_cache(
    location: Path | str, parts: int | None, topology: str | Topology | None, *, edge_features: str | None
) -> PartitionedGraph:
    cache = PartitionCache(location)
    attributes = cache.attributes
    if parts is not None:
        raise UsageError("a cache has its parts already; leave out --parts, or plan the store")
    if len(cache.node_types) > 1 or len(cache.edge_types) > 1:
        raise UsageError(SEVERAL_TYPES)
    chosen = Topology.from_long_form(attributes["topology"]) if topology is None else resolve(topology)
    if chosen.num_ranks != cache.num_parts:
        raise UsageError(f"{chosen.name} has {chosen.num_ranks} ranks and the cache {cache.num_parts} parts")
    (node_type,) = cache.node_types
    (edge_type,) = cache.edge_types
    features, classes = attributes["num_features"].get(node_type), attributes["num_classes"].get(node_type)
    return PartitionedGraph(
        dataset=attributes["dataset"],
        topology=chosen,
        traffic=traffic_of(cache),
        cross=_cross_rows(cache, node_type, edge_type),
        nodes_P=np.array([row["nodes"] for row in attributes["quality"]["ranks"]], np.int64),
        num_features=_required(features, "features"),
        entries_P=[_count_entries(_features_of_part(cache, node_type, part)) for part in range(cache.num_parts)],
        num_classes=_required(classes, "classes"),
        sample=first_rows(cache.block(0, edge_type, 0)),
        is_sketch=False,
        num_edge_features=_num_edge_features(
            edge_features, {name: cache.edge_array(0, edge_type, 0, name) for name in cache.edge_arrays(edge_type)}
        ),
    )


def _of_store(
    location: Path | str, parts: int | None, topology: str | Topology | None, *, edge_features: str | None
) -> PartitionedGraph:
    store = GraphStore(location)
    chosen = chosen_topology(parts, topology)
    if len(store.num_nodes) > 1 or len(store.num_edges) > 1:
        raise UsageError(SEVERAL_TYPES)
    ((node_type, num_nodes),) = store.num_nodes.items()
    (edge_type,) = store.num_edges
    require_enough_nodes(chosen.num_ranks, num_nodes)
    x, y = store.node_array(node_type, "x"), store.node_array(node_type, "y")
    features = None if x is None else int(np.prod(x.shape[1:], dtype=np.int64))
    classes = None if y is None else int(y.shape[1]) if y.ndim == 2 else int(np.max(y[:], initial=-1)) + 1
    needed_features, needed_classes = _required(features, "features"), _required(classes, "classes")
    needs = SKETCH_BYTES_AN_EDGE * sum(store.num_edges.values())
    progress.say(
        f"partitioning {store.name} by METIS, unrefined, for its counts; that takes about "
        f"{progress.format_bytes(needs)} of memory, and a cache that is there would save it"
    )
    graph = whole_graph(store)
    request = PartitionRequest(method="metis", effort="none")
    with tempfile.TemporaryDirectory() as scratch:
        result, _ = partition(graph, chosen, request, scratch=Path(scratch))
    sent = sent_rows_of(graph.matrices, graph.assignments(result.assignment), chosen.num_ranks)
    relays = choose_relays(sent, chosen, request.row_bytes)
    nodes_P = np.bincount(result.assignment, minlength=chosen.num_ranks)
    own = np.flatnonzero(result.assignment == 0)
    return PartitionedGraph(
        dataset=store.name,
        topology=chosen,
        traffic=with_relays(result.traffic, relays),
        cross=CrossRows.of(graph.matrix, result.assignment, chosen.num_ranks),
        nodes_P=nodes_P.astype(np.int64),
        num_features=needed_features,
        entries_P=[None if x is None else round(_entries_a_row(x) * int(nodes)) for nodes in nodes_P],
        num_classes=needed_classes,
        sample=first_rows(_inside(graph.matrix, own)),
        is_sketch=chosen.num_ranks > 1,
        num_edge_features=_num_edge_features(
            edge_features, {name: store.edge_array(edge_type, name) for name in store.edge_arrays(edge_type)}
        ),
    )


def _rank_sizes(graph: PartitionedGraph) -> list[RankSizes]:
    """What the trainer's memory depends on; a block of edges is between a rank's rows and those of one peer."""
    rows_PP, edges_PP, local_edges_P = graph.traffic.rows_PP, graph.traffic.edges_PP, graph.traffic.local_edges_P
    ranks: list[RankSizes] = []
    for rank, rows in enumerate(graph.nodes_P.tolist()):
        largest_halo = int(rows_PP[:, rank].max())
        longest = max(rows, largest_halo, int(edges_PP[:, rank].max()), int(local_edges_P[rank]))
        ranks.append(
            {
                "rows": rows,
                "halo": int(graph.traffic.halo_rows_P[rank]),
                "largest_halo": largest_halo,
                "sent": int(rows_PP[rank].sum()),
                "others": int(graph.nodes_P.sum()) - rows,
                "edges": int(graph.traffic.in_edges_P[rank]),
                "shared_rows": int(graph.cross.shared_P[rank]),
                "halo_sums": int(graph.cross.sums_P[rank]),
                "cross_edges": int(edges_PP[:, rank].sum()),
                "index_bytes": np.dtype(index_dtype(longest)).itemsize,
                "features": graph.num_features,
                "outputs": graph.num_classes,
                "edge_features": graph.num_edge_features,
                "entries": graph.entries_P[rank],
            }
        )
    return ranks


def _traffic_request(graph: PartitionedGraph, gpu: str | None, rates_from: Path | None) -> TrafficRequest:
    """What the trainer chooses the exchange of each layer by; ranks are GPUs where some are named, or are here."""
    topology, relayed = graph.topology, graph.traffic.relayed
    if rates_from is not None:
        is_cpu = rates_file.read(rates_from).device == "cpu"
    else:
        is_cpu = gpu is None and not any(rank.gpu for rank in topology.ranks) and not gpus_here()
    return TrafficRequest(
        rows=[graph.traffic.rows_PP.tolist()] if relayed is None else relayed.rows_SPP.tolist(),
        topology=topology.to_long_form(),
        device="cpu" if is_cpu else "cuda",
        available=[None if rank.memory_gb is None else int(1e9 * rank.memory_gb) for rank in topology.ranks],
    )


def _cross_rows(cache: PartitionCache, node_type: str, edge_type: EdgeType) -> CrossRows:
    """The rows at the ends of edges between parts."""
    shared, sums = [], []
    for part, size in enumerate(row["nodes"] for row in cache.quality["ranks"]):
        is_shared_n, has_edge_n = np.zeros(size, bool), np.zeros(size, bool)
        for peer in range(cache.num_parts):
            if peer != part:
                is_shared_n[cache.node_array(part, node_type, f"send_{peer}")] = True
                has_edge_n |= np.diff(cache.block(part, edge_type, peer).indptr) > 0
        shared.append(int(is_shared_n.sum()))
        sums.append(int(has_edge_n.sum()))
    return CrossRows(shared_P=np.array(shared, np.int64), sums_P=np.array(sums, np.int64))


def _features_of_part(cache: PartitionCache, node_type: str, part: int) -> NDArray[Any] | None:
    """None where the cache has sums of features alone."""
    return cache.node_array(part, node_type, "x") if "x" in cache.node_arrays(part, node_type) else None


def _count_entries(x_nF: NDArray[Any] | None) -> int | None:
    """How many features are not 0; None where they are not there, or are many by a sample."""
    if x_nF is None:
        return None
    if not x_nF.size:
        return 0
    width = x_nF.size // len(x_nF)
    if _entries_a_row(x_nF) > MOST_COUNTED * width:
        return None
    some = max(1, COUNTED_VALUES // width)
    return sum(_nonzero(x_nF[begin : begin + some]) for begin in range(0, len(x_nF), some))


def _entries_a_row(x: Any) -> float:
    """How many features of a node are not 0, by a sample of the rows, of which there is at least one."""
    begins = np.unique(np.linspace(0, max(0, x.shape[0] - SAMPLED_ROWS), SAMPLES).astype(int))
    samples = [np.asarray(x[begin : begin + SAMPLED_ROWS]) for begin in begins]
    return sum(map(_nonzero, samples)) / sum(map(len, samples))


def _nonzero(rows: NDArray[Any]) -> int:
    return int(np.count_nonzero(to_float32(rows)))


def _inside(matrix: Csr, own: NDArray[np.int64]) -> Csr:
    """The edges between some nodes, which are renumbered."""
    inside = to_scipy(matrix)[own][:, own]
    return Csr(indptr=inside.indptr.astype(np.int64), indices=inside.indices, num_sources=len(own))


def _required(count: int | None, what: str) -> int:
    if not count or count < 1:
        raise UsageError(f"the graph has no {what}, and a plan of training needs them")
    return count


def _num_edge_features(name: str | None, arrays: Mapping[str, Any]) -> int:
    """How many numbers an edge has in one of its arrays; its weight is one."""
    if name is None:
        return 0
    if name != EDGE_WEIGHTS and name not in arrays:
        raise UsageError(
            f"the graph's edges have no array {name}; give --edge-features {' or '.join([*arrays, EDGE_WEIGHTS])}"
        )
    return 1 if name == EDGE_WEIGHTS else int(np.prod(arrays[name].shape[1:], dtype=np.int64))


def _alternatives(
    graph: PartitionedGraph, training: TrainingPlan, compute: float, weights: float, tensor: Mapping[int, int]
) -> list[dict[str, Any]]:
    """The requested exchange, then alternatives that send less, each with its epoch time.

    `tensor` has the width of each tensor-parallel layer, by its number from 1; no policy goes with them.
    """
    model = LinkModel.of(graph.topology)

    def boundary_row_bytes(wire: str) -> list[int]:
        of_layers = training.row_bytes(graph.num_features, graph.num_classes, wire=wire)
        return [0 if number in tensor else size for number, size in enumerate(of_layers, 1)]

    def tensor_sums(of_sum: Callable[..., float], wire: str) -> float:
        value_bytes, more_bytes = WIRE_BYTES[wire]
        return sum(of_sum(width, value_bytes=value_bytes, more_bytes=more_bytes) for width in tensor.values())

    def communication(wire: str, backward: Traffic = graph.traffic) -> float:
        """Seconds of an epoch's exchanges with its share of validations; `backward` where gradients go another way."""
        row_bytes, exact, back = boundary_row_bytes(wire), boundary_row_bytes("fp32"), backward.reversed()
        of_sum, of_gradient = (partial(tensor_seconds, model, rows) for rows in (graph.cross, graph.cross.reversed()))
        validations = sum(model.bottleneck(graph.traffic, size) for size in exact if size)
        training_passes = sum(model.bottleneck(graph.traffic, size) for size in row_bytes if size)
        training_passes += sum(model.bottleneck(back, size) for size in row_bytes[1:] if size)
        training_passes += tensor_sums(of_sum, wire) + tensor_sums(of_gradient, wire)
        return training_passes + (validations + tensor_sums(of_sum, "fp32")) / training.eval_every

    def row_bytes(wire: str, *, share: float = 1.0) -> int:
        """Bytes of rows and gradients of a training pass, of which this share is sent, and of a validation in fp32."""

        def of_sum(width: int, **sizes: int) -> float:
            return sum(int(bytes_PP.sum()) for bytes_PP in tensor_bytes(graph.cross, width, **sizes))

        rows = int(graph.traffic.rows_PP.sum())
        sent = 2 * (share * rows * sum(boundary_row_bytes(wire)) + tensor_sums(of_sum, wire))
        exact = rows * sum(boundary_row_bytes("fp32")) + tensor_sums(of_sum, "fp32")
        return round(sent + exact / training.eval_every)

    wires = dict.fromkeys((training.wire, "bf16", "int8"))
    alternatives = [(wire, "none", communication(wire) + weights, row_bytes(wire)) for wire in wires]
    if not tensor:
        # Kept gradients go straight to their owners.
        stale = communication("int8", backward=graph.traffic.without_relays()) / STALE_EPOCHS + weights
        alternatives.append(("int8", "adaptive", stale, row_bytes("int8", share=1 / STALE_EPOCHS)))
    of_weights = training.weight_bytes(*_counts(graph), ranks=graph.topology.num_ranks)
    return [
        {
            "wire": wire,
            "staleness": staleness,
            "communication_seconds": seconds,
            "epoch_seconds": compute + seconds,
            "row_bytes": of_rows,
            "weight_bytes": of_weights,
        }
        for wire, staleness, seconds, of_rows in alternatives
    ]


def _counts(graph: PartitionedGraph) -> tuple[int, int, int]:
    """What the number of a model's weights depends on."""
    return graph.num_features, graph.num_classes, graph.num_edge_features


def _weights_seconds(graph: PartitionedGraph, training: TrainingPlan) -> float:
    """Seconds of the all-reduce of weight gradients, as a ring in rank order: 2 (k - 1) times a k-th of them to the
    next rank, all ranks at once (Patarasuk and Yuan 2009)."""
    ranks = graph.topology.num_ranks
    if ranks == 1:
        return 0.0
    pieces_PP = np.zeros((ranks, ranks), np.int64)
    pieces_PP[np.arange(ranks), (np.arange(ranks) + 1) % ranks] = -(-training.num_weights(*_counts(graph)) // ranks)
    step = LinkModel.of(graph.topology).seconds(pieces_PP, VALUE_BYTES).max()
    return float(2 * (ranks - 1) * step)


def _advice(plan: dict[str, Any], graph: PartitionedGraph, rates: RankRates) -> list[str]:
    """Advice, a sentence each; if rates are only assumed, none that depends on them."""
    if rates.source == "assumed":
        missing = "give --gpu NAME or --rates FILE: without the rates of its devices there is no advice on this machine"
        return [missing, *_about_memory(plan, graph, None)]
    if plan["epoch_seconds"] < SHORT_EPOCH:
        return ["the graph is so small that one rank will do: starting steps and messages takes longer than they do"]
    advice = [*_about_exchanges(plan), *_about_parts(plan), *_about_memory(plan, graph, rates)]
    if plan["weights_seconds"] > max(plan["communication_seconds"], WORTH_SENDING_LESS * plan["epoch_seconds"]) / 2:
        share = 100 * plan["weights_seconds"] / plan["epoch_seconds"]
        advice.append(
            f"{share:.0f} % of an epoch is the all-reduce of weight gradients: --weights-wire bf16 would halve that"
        )
    if plan["training"]["input_dropout"] and plan["entries_a_row"] is None:
        advice.append("--input-dropout 0 computes the first layer's sums once; compare accuracies with it")
    return advice


def _about_memory(plan: dict[str, Any], graph: PartitionedGraph, rates: RankRates | None) -> list[str]:
    """Ranks that need more memory than the topology states, or their device has."""
    advice = []
    known = (None,) * graph.topology.num_ranks if rates is None else rates.memory_gb
    for row, rank, of_device in zip(plan["ranks"], graph.topology.ranks, known, strict=True):
        needed, has = row["memory_bytes"] / 1e9, of_device if rank.memory_gb is None else rank.memory_gb
        if has is not None and needed > FULL * has:
            advice.append(f"{rank.name} would need {needed:.1f} of its {has:g} GB: make more parts")
    return advice


def _about_exchanges(plan: dict[str, Any]) -> list[str]:
    if plan["num_parts"] == 1 or any(layer["exchange"] == "tensor" for layer in plan["layer_exchanges"]):
        return []
    share = 100 * plan["communication_seconds"] / plan["epoch_seconds"]
    if share < 100 * WORTH_SENDING_LESS:
        return [f"{share:.0f} % of an epoch is communication: --exchange boundary, exact in fp32, costs little"]
    faster = plan["epoch_seconds"] / plan["ways"][-1]["epoch_seconds"]
    return [
        f"{share:.0f} % of an epoch is communication: --exchange boundary --staleness adaptive "
        f"--staleness-grad adaptive --wire int8 --eval-every 10 would make epochs up to "
        f"{faster:.1f} times as fast, at accuracies that docs/training-measurements.md lists"
    ]


def _about_row_width(cache: PartitionCache, row_bytes: list[int]) -> list[str]:
    """Whether other parts would suit the rows of the model better. Layers without an exchange have 0 bytes."""
    sent = [size for size in row_bytes if size]
    made_for, links = int(cache.attributes["options"]["row_bytes"]), cache.attributes["quality"]["links"]
    mismatch = width_mismatch(links, made_for, sum(sent) / len(sent)) if sent else None
    return [] if mismatch is None else [mismatch]


def _about_parts(plan: dict[str, Any]) -> list[str]:
    advice, parts = [], plan["num_parts"]
    if parts > 1 and plan["communication_seconds"] > plan["compute_seconds"]:
        advice.append(f"links take longer than computing: try --parts {max(1, parts // 2)}, or faster links")
    elif plan["communication_seconds"] < WORTH_SENDING_LESS * plan["epoch_seconds"]:
        advice.append(f"computing takes most of an epoch: --parts {2 * parts} on as many devices would be faster")
    computing = [row["compute_seconds"] for row in plan["ranks"]]
    mean = sum(computing) / len(computing)
    if max(computing) > UNEVEN * mean:
        advice.append(f"the slowest rank computes {max(computing) / mean:.2f} times the mean: partition anew")
    return advice


OF_RATES = {
    "measured": "rates were measured while other work ran or not; a rank elsewhere is assumed to be as fast, by its "
    "`speed` in the topology",
    "file": "rates are those of a random graph on another machine, while other work ran or not, interpolated between a "
    "few widths; all ranks are assumed to be as fast, by their `speed` in the topology",
    "published": f"of the published peaks {100 * STREAMED:.0f} % of the bandwidth are counted for rows in order, "
    f"{100 * GATHERED:.0f} % for rows of edges' ends, and {100 * MULTIPLIED:.0f} % of the fp32 operations; "
    "`graphprep doctor --rates FILE` there measures them",
    "assumed": "the devices are unknown: all seconds of computing are those of another device",
}
"""What a plan does not know about rates, by their source."""


def _unknown(plan: dict[str, Any], rates: RankRates, graph: PartitionedGraph) -> list[str]:
    unknown = [
        OF_RATES[rates.source],
        "no overlap of communication and computing is counted, nor the start of messages beyond the topology's "
        "latency; epochs of a few milliseconds take longer than planned",
        "memory is the trainer's own estimate for fp32, without that of torch itself",
    ]
    of_file, wanted = rates.of_ranks[0], ranks_a_machine(graph.topology)
    if rates.source == "file" and of_file.processes != wanted:
        unknown.append(
            f"the file's rates are those of {of_file.processes} rank(s) side by side and a machine has {wanted}; "
            f"`graphprep doctor --rates FILE --ranks {wanted}` measures as many"
        )
    if graph.is_sketch:
        unknown.append("the parts are METIS's, unrefined; `graphprep partition` usually has a lower bottleneck")
    if plan["num_parts"] > 1:
        unknown.append(
            "links have the bandwidths of the topology; `graphprep topology probe` measures what a backend reaches"
        )
    return unknown
