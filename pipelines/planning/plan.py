"""Predict the training of a cache, or of a store partitioned for a topology, by rates and the cost model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from graphprep.cache.read import PartitionCache
from graphprep.errors import UsageError
from graphprep.plan import rates_file
from graphprep.plan.batch_options import BatchPlan
from graphprep.plan.communication import Communication, communication
from graphprep.plan.model_widths import width_mismatch
from graphprep.plan.partitioned_graph import PartitionedGraph, rank_sizes
from graphprep.plan.rank_rates import FULL, RankRates, rank_rates, ranks_a_machine
from graphprep.plan.rates import Rates, measured_rates
from graphprep.plan.time_to_accuracy import to_accuracy
from graphprep.plan.trainer_memory import ExpectedMemory, Refusal, TrafficRequest, expected_memory
from graphprep.plan.training import TrainingPlan, Work, epoch_work
from graphprep.system import progress
from graphprep.system.doctor import gpus_here
from graphprep.topology import Topology
from graphprep.topology.gpu_specs import GATHERED, MULTIPLIED, STREAMED
from graphprep.traffic import LinkModel, link_seconds
from pipelines.look import find
from pipelines.planning.batches import DrawnBatches
from pipelines.planning.counts import counts_of_cache, counts_of_store
from pipelines.planning.pilot import run_batch_pilots

WORTH_SENDING_LESS = 0.1
"""Share of communication in an epoch, from which sending less is advised."""
UNEVEN = 1.1
"""Threshold of advice: slowest over mean computing time."""
SHORT_EPOCH = 0.01
"""Seconds below which most of an epoch is not in the model."""
ADVISED_STALENESS = "adaptive"
NEVER = 10**9
"""Epochs between validations of which an epoch has no share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What training with some options takes."""

    training: TrainingPlan
    memory: ExpectedMemory
    ranks: list[dict[str, Any]]
    """Counts, seconds and bytes of each rank, as in the JSON of a plan."""
    tensor: dict[int, int]
    """The width of each tensor-parallel layer, by its number from 1."""
    communication: Communication

    @property
    def compute_seconds(self) -> float:
        """Of the slowest rank."""
        return float(max(row["compute_seconds"] for row in self.ranks))

    @property
    def epoch_seconds(self) -> float:
        return self.compute_seconds + self.communication.seconds


def plan_training(
    store_or_cache: str,
    training: TrainingPlan,
    *,
    parts: int | None = None,
    topology: str | Topology | None = None,
    gpu: str | None = None,
    rates_from: Path | None = None,
    batches: BatchPlan | None = None,
    pilot_epochs: int = 0,
) -> dict[str, Any]:
    """Predict an epoch, as plain JSON values: seconds by rank and kind, memory, alternatives, advice, what is unknown.

    Args:
        store_or_cache: a cache, or a store with one of `parts` and `topology`.
        training: the trainer's options.
        parts, topology: what a store is partitioned for; for a cache, `topology` is another machine for its parts.
        gpu: the GPU of all ranks, for its published rates.
        rates_from: a file of `graphprep doctor --rates`. Without it and `gpu` see `graphprep.plan.rank_rates`.
        batches: mini-batches, which are planned beside the whole graph; None for none.
        pilot_epochs: with batches, of each pilot run, which count the epochs that each way needs; 0 makes none.

    Raises:
        UsageError: the graph has several types, no features or classes, the topology does not fit, or the rates of its
            GPUs are unknown; or the trainer refuses an option.
        TrainingError: rates cannot be measured here.
    """
    kind, location = find(store_or_cache)
    counts_of, name = counts_of_cache if kind == "cache" else counts_of_store, training.edge_features
    wants_batches = batches is not None and bool(batches.batch_size)
    if wants_batches and kind != "cache":
        raise UsageError("--batch-size is planned for the parts of a cache; partition the store, and plan that")
    if pilot_epochs and not wants_batches:
        raise UsageError("--pilot is for --best or --batch-size; add one of them, or leave it out")
    graph = counts_of(location, parts, topology, edge_features=name)
    pairs = training.widths(graph.num_features, graph.num_classes)
    drawn = None
    if batches is not None and wants_batches:
        drawn = DrawnBatches.draw(Path(location), batches, training, pairs)
    chosen, [found, *rest] = predict(
        graph,
        [training, *([] if drawn is None else [training.with_options(eval_every=NEVER)])],
        cache=Path(location) if kind == "cache" else None,
        gpu=gpu,
        rates_from=rates_from,
        more_work=() if drawn is None else drawn.work,
    )
    if isinstance(found, Refusal):
        raise found.error
    model, compute = LinkModel.of(graph.topology), found.compute_seconds
    direct = None
    if graph.traffic.relayed is not None:
        direct = communication(graph, model, training.with_options(relay="off"), found.tensor).seconds
    slowest = link_seconds(graph.traffic, graph.topology, 1024)
    plan = {
        "dataset": graph.dataset,
        "topology": graph.topology.name,
        "num_parts": graph.topology.num_ranks,
        "is_sketch": graph.is_sketch,
        "training": asdict(training) | {"input_dropout": training.first_dropout},
        "widths": [list(pair) for pair in pairs],
        "entries_a_row": _entries(graph, found.memory),
        "layer_exchanges": found.memory.layers,
        "rates": chosen.to_json(),
        "device": chosen.of_ranks[0].device,
        "threads_a_rank": chosen.of_ranks[0].threads,
        "compute_seconds": compute,
        "communication_seconds": found.communication.seconds,
        "communication_seconds_without_relays": direct,
        "weights_seconds": found.communication.weights_seconds,
        "epoch_seconds": found.epoch_seconds,
        "memory": found.memory.sentence,
        "row_bytes": found.communication.row_bytes,
        "weight_bytes": found.communication.weight_bytes,
        "ranks": found.ranks,
        "ways": _alternatives(graph, model, found),
        "bottleneck_type": max(slowest.types, key=lambda row: row.seconds_max).type if slowest.types else None,
    }
    of_batches = accuracy = None
    if drawn is not None:
        planned = drawn.planned(chosen, model, weights_seconds=found.communication.weights_seconds)
        [never] = rest
        assert isinstance(never, Prediction)
        ways = drawn.ways(
            planned, whole_seconds=found.epoch_seconds, validating=found.epoch_seconds - never.epoch_seconds
        )
        pilots = run_batch_pilots(Path(location), ways, epochs=pilot_epochs) if pilot_epochs else None
        accuracy = to_accuracy(ways, store_or_cache, pilots, pilot_epochs=pilot_epochs)
        of_batches = planned.sampled
    plan |= {"batches": of_batches, "time_to_accuracy": accuracy}
    advice = _advice(plan, graph, chosen)
    if of_batches is not None and chosen.source != "assumed":
        advice.append(_about_batches(of_batches, plan))
    if kind == "cache" and topology is None:
        advice += _about_row_width(PartitionCache(location), training.row_bytes(graph.num_features, graph.num_classes))
    return plan | {"advice": advice, "unknown": _unknown(plan, chosen, graph)}


def predict(
    graph: PartitionedGraph,
    trainings: Sequence[TrainingPlan],
    *,
    cache: Path | None = None,
    gpu: str | None = None,
    rates_from: Path | None = None,
    words: Sequence[str] = (),
    more_work: Sequence[Work] = (),
) -> tuple[RankRates, list[Prediction | Refusal]]:
    """What training takes with each of some options, by rates that are measured once for all of them.

    Args:
        graph: its counts.
        trainings: the options.
        cache: its folder, where it is one.
        gpu, rates_from: as for `plan_training`.
        words: further options of the trainer, with which it may refuse some.
        more_work: that rates are needed for too.

    Returns:
        the rates, and for each of `trainings` the prediction, or why the trainer refuses it.

    Raises:
        UsageError, TrainingError: as for `plan_training`.
    """
    is_cpu = _is_cpu(graph.topology, gpu, rates_from)
    memories = expected_memory(
        [(each, _traffic_request(graph, each, is_cpu=is_cpu)) for each in trainings],
        rank_sizes(graph),
        cache,
        words=words,
    )
    works = [
        None if isinstance(memory, Refusal) else _work(graph, each, memory)
        for each, memory in zip(trainings, memories, strict=True)
    ]

    def measure(processes: int) -> Rates:
        with progress.task("measuring this machine's rates"):
            wanted = Work.of_all([*(of_ranks[0] for of_ranks in works if of_ranks is not None), *more_work])
            return measured_rates(graph.sample, wanted, processes=processes)

    chosen = rank_rates(graph.topology, measure=measure, gpus_here=gpus_here, gpu=gpu, file=rates_from)
    model = LinkModel.of(graph.topology)
    found: list[Prediction | Refusal] = []
    for training, memory, work in zip(trainings, memories, works, strict=True):
        if isinstance(memory, Refusal) or work is None:
            assert isinstance(memory, Refusal)
            found.append(memory)
            continue
        tensor = _tensor_widths(memory)
        found.append(
            Prediction(
                training=training,
                memory=memory,
                ranks=_ranks(graph, chosen, work, memory),
                tensor=tensor,
                communication=communication(graph, model, training, tensor),
            )
        )
    return chosen, found


def _tensor_widths(memory: ExpectedMemory) -> dict[int, int]:
    return {layer["layer"]: layer["width"] for layer in memory.layers if layer["exchange"] == "tensor"}


def _counts(graph: PartitionedGraph) -> list[dict[str, int]]:
    in_edges_P, halo_P = graph.traffic.in_edges_P, graph.traffic.halo_rows_P
    return [
        {"rows": int(n), "halo": int(halo), "edges": int(edges)}
        for n, halo, edges in zip(graph.nodes_P, halo_P, in_edges_P, strict=True)
    ]


def _entries(graph: PartitionedGraph, memory: ExpectedMemory) -> float | None:
    """Features of a row that are not 0, where the trainer holds them by these."""
    return float(sum(filter(None, graph.entries_P)) / graph.nodes_P.sum()) if memory.by_entries else None


def _work(graph: PartitionedGraph, training: TrainingPlan, memory: ExpectedMemory) -> list[Work]:
    """What each rank does in an epoch."""
    pairs = training.widths(graph.num_features, graph.num_classes)
    columns = {layer: -(-width // graph.topology.num_ranks) for layer, width in _tensor_widths(memory).items()}
    cross_P = graph.traffic.edges_PP.sum(axis=0).tolist()
    return [
        epoch_work(
            training,
            pairs,
            **of_rank,
            entries=_entries(graph, memory),
            edge_features=graph.num_edge_features,
            columns=columns,
            cross_edges=cross,
            all_cross_edges=sum(cross_P),
        )
        for of_rank, cross in zip(_counts(graph), cross_P, strict=True)
    ]


def _ranks(
    graph: PartitionedGraph, chosen: RankRates, work: Sequence[Work], memory: ExpectedMemory
) -> list[dict[str, Any]]:
    """Counts, seconds and bytes of each rank."""
    ranks: list[dict[str, Any]] = []
    for number, (of_rank, of_work) in enumerate(zip(_counts(graph), work, strict=True)):
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
    return ranks


def _is_cpu(topology: Topology, gpu: str | None, rates_from: Path | None) -> bool:
    """Whether ranks are CPUs; they are GPUs where some are named, or are here."""
    if rates_from is not None:
        return rates_file.read(rates_from).device == "cpu"
    return gpu is None and not any(rank.gpu for rank in topology.ranks) and not gpus_here()


def _traffic_request(graph: PartitionedGraph, training: TrainingPlan, *, is_cpu: bool) -> TrafficRequest | None:
    """What the trainer chooses the exchange of each layer by; None where all exchange halo rows."""
    if training.exchange == "boundary":
        return None
    topology, relayed = graph.topology, None if training.relay == "off" else graph.traffic.relayed
    return TrafficRequest(
        rows=[graph.traffic.rows_PP.tolist()] if relayed is None else relayed.rows_SPP.tolist(),
        topology=topology.to_long_form(),
        device="cpu" if is_cpu else "cuda",
        available=[None if rank.memory_gb is None else int(1e9 * rank.memory_gb) for rank in topology.ranks],
    )


def _alternatives(graph: PartitionedGraph, model: LinkModel, found: Prediction) -> list[dict[str, Any]]:
    """The requested exchange, then others that send less, each with its epoch time; no policy goes with tensors."""
    training = found.training
    trainings = [training.with_options(wire=wire) for wire in dict.fromkeys((training.wire, "bf16", "int8"))]
    if not found.tensor:
        stale = {"staleness": ADVISED_STALENESS, "staleness_grad": ADVISED_STALENESS}
        trainings.append(training.with_options(wire="int8", **stale))
    alternatives = []
    for each in trainings:
        of_epoch = communication(graph, model, each, found.tensor)
        alternatives.append(
            {
                "wire": each.wire,
                "staleness": each.staleness,
                "communication_seconds": of_epoch.seconds,
                "epoch_seconds": found.compute_seconds + of_epoch.seconds,
                "row_bytes": of_epoch.row_bytes,
                "weight_bytes": of_epoch.weight_bytes,
            }
        )
    return alternatives


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
    ranks = graph.topology.ranks
    has_P = [rank.memory_gb for rank in ranks] if rates is None else rates.memory_has(graph.topology)
    for row, rank, has in zip(plan["ranks"], ranks, has_P, strict=True):
        needed = row["memory_bytes"] / 1e9
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


ADVICE_BY_STAGE = {
    "sample": "--sampler-processes 2 would sample more batches at a time",
    "fetch": "--remote-row-cache keeps rows for later batches, and parts made with --for sampling need fewer of them",
    "train": "the trainer is what takes longest, as it should",
}
"""What helps where a stage is the bottleneck of mini-batches."""


def _about_batches(batches: Mapping[str, Any], plan: dict[str, Any]) -> str:
    ratio = batches["epoch_seconds"] / plan["epoch_seconds"] if plan["epoch_seconds"] else 1.0
    return (
        f"an epoch of mini-batches takes {ratio:.2f} times as long as one on the whole graph, and changes the weights "
        f"{batches['steps']:,} times; {ADVICE_BY_STAGE[batches['bottleneck']]}"
    )


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
    if plan["batches"] is not None:
        unknown.append(
            "of mini-batches sampling is measured here, by one process of each rank; rows that are kept are not in the "
            "plan, and the exact pass of control variates is counted as a validation"
        )
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
