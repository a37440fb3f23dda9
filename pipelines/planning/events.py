"""Predict the training of an event cache: of TGN on its stream, or the load of the ranks by its snapshots."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from graphprep.errors import UsageError
from graphprep.plan.event_training import TRAINED, bytes_by_type, expected_training
from graphprep.system import progress
from graphprep.temporal.cache import EventCache
from graphprep.temporal.format import INDEX_EVENT, INDEX_OFFSETS, SNAPSHOT_GROUP, SNAPSHOT_OFFSETS
from graphprep.temporal.snapshot_costs import active_nodes
from graphprep.topology import Topology, resolve
from graphprep.traffic import LinkModel

UNEVEN = 1.05
"""largest group over the mean, above which another window is advised"""
WORTH_COPIES = 0.1
"""share of rows of memory in an epoch's seconds, from which copies are advised"""
DEFAULT_HIDDEN = 64
HIDDEN_VALUES = {"tgcn": 1, "gclstm": 2, "evolvegcn": 0}
"""states of a node that cross a border, each as wide as --hidden; EvolveGCN's states are weights"""
VALUE_BYTES = 4


def purpose_of(cache: EventCache) -> str:
    """What a cache was made for: events or snapshots."""
    chosen = cache.attributes["options"].get("for")
    return str(chosen) if chosen is not None else "snapshots" if cache.has(SNAPSHOT_GROUP) else "events"


def plan_events(
    location: Path | str,
    options: Mapping[str, Any],
    *,
    parts: int | None = None,
    topology: str | Topology | None = None,
) -> dict[str, Any]:
    """Predict what an epoch on an event cache takes, as plain JSON values.

    Args:
        location: the cache's folder.
        options: of the trainer, by name; None is left out.
        parts: ranks that train; None for those of the cache or the topology.
        topology: of the ranks; None for equal ranks on one switch.

    Raises:
        UsageError: the ranks do not fit, or the trainer refuses an option.
        CacheError, TrainingError: the trainer refuses the cache, or cannot be started.
    """
    cache = EventCache(location)
    chosen = None if topology is None else resolve(topology)
    if parts is not None and chosen is not None:
        raise UsageError("give either --parts or --topology")
    ranks = chosen.num_ranks if chosen is not None else cache.num_parts if parts is None else parts
    if ranks < 1:
        raise UsageError(f"--parts {ranks} is not a number of ranks; give a number from 1")
    chosen = chosen or Topology.flat(ranks)
    common = {"dataset": cache.name, "topology": chosen.name, "num_parts": ranks, "events": cache.num_events}
    if purpose_of(cache) == "snapshots":
        return {"kind": "snapshots", **common, **_of_snapshots(cache, chosen, options)}
    return {"kind": "events", **common, **_of_stream(cache, chosen, options)}


def _of_stream(cache: EventCache, topology: Topology, options: Mapping[str, Any]) -> dict[str, Any]:
    """TGN on all events."""
    memory_gb = [rank.memory_gb for rank in topology.ranks]
    available = None if None in memory_gb else int(1e9 * sum(filter(None, memory_gb)))
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value is not None]
    with progress.task("measuring batches with the trainer"):
        found = expected_training(cache.folder, words, ranks=topology.num_ranks, available=available)
    answer, model = found.answer, LinkModel.of(topology)
    i, j, k = answer["parallel"]
    # Validations after a round, which trains j k epochs: one, or fewer where --eval-every is larger.
    validations = min(1.0, j * k / answer["eval_every"])
    rows_seconds = found.training.seconds(model) + validations * found.validation.seconds(model)
    weights_seconds = found.weight_seconds(model)
    computing = found.training_seconds + validations * found.validation_seconds
    stages = {name: answer["batches"] * found.stages[name] for name in TRAINED}
    stages |= {"validation": validations * found.validation_seconds}
    stages |= {"memory rows on links": rows_seconds, "gradients on links": weights_seconds}
    round_seconds, link_types = (
        computing + rows_seconds + weights_seconds,
        bytes_by_type(model, (found.training, 1.0), (found.validation, validations)),
    )
    by_division = i * j == cache.num_parts
    plan = {
        "rates": {
            "source": "measured",
            "names": [answer["device"]],
            "text": f"rates: measured on this machine ({answer['device']}, {answer['threads']} thread(s) a rank) on "
            "batches of this stream, by the trainer",
        },
        "training": {name: value for name, value in options.items() if value is not None},
        "parallel": answer["parallel"],
        "reason": answer["reason"],
        "batch_size": answer["batch_size"],
        "batches": answer["batches"],
        "iterations": math.ceil(answer["epochs"] / (j * k)) * answer["batches"] + j - 1,
        "epochs_a_round": j * k,
        "lost_mail": answer["lost_mail"],
        "parameters": answer["parameters"],
        "memory_available": answer["available"],
        "stages": stages,
        "compute_seconds": computing / (j * k),
        "communication_seconds": (rows_seconds + weights_seconds) / (j * k),
        "round_seconds": round_seconds,
        "epoch_seconds": round_seconds / (j * k),
        "row_bytes": round(sum(row["bytes"] for row in _sums(found.training, found.validation, validations))),
        "messages": _sums(found.training, found.validation, validations),
        "weight_bytes": found.weight_bytes,
        "link_types": link_types,
        "crossing_events": cache.quality["ranks"]["crossing_events"] if by_division else None,
        "crossing_share": cache.quality["ranks"]["crossing_share"] if by_division else None,
        "ranks": [
            {
                "rank": number,
                "name": rank.name,
                "copy": number // (i * j),
                "memory_bytes": sum(size for name, size in of_rank.items() if name != "events, mapped"),
                "memory_by_purpose": of_rank,
            }
            for number, (rank, of_rank) in enumerate(zip(topology.ranks, answer["memory"], strict=True))
        ],
    }
    return plan | {"advice": _advice(plan), "unknown": _unknown(plan, answer)}


def _sums(training: Any, validation: Any, validations: float) -> list[dict[str, Any]]:
    """Bytes of a round, by message."""
    return [
        {
            "message": name,
            "bytes": float(training.bytes_PP[name].sum() + validations * validation.bytes_PP[name].sum()),
            "exchanges": training.exchanges[name] + validations * validation.exchanges[name],
        }
        for name in training.bytes_PP
    ]


def _advice(plan: Mapping[str, Any]) -> list[str]:
    advice = []
    needed = sum(row["memory_bytes"] for row in plan["ranks"])
    if needed > plan["memory_available"]:
        advice.append(
            f"all ranks need {needed / 1e9:.2f} GB and {plan['memory_available'] / 1e9:.2f} GB are available: use a "
            "smaller --hidden, fewer copies in --parallel, or more machines"
        )
    share = plan["stages"]["memory rows on links"] / plan["round_seconds"]
    if share > WORTH_COPIES:
        advice.append(
            f"{100 * share:.0f} % of an epoch are messages of the node memory: copies send none, so try --parallel "
            f"1,1,{plan['num_parts']}"
        )
    return advice


def _unknown(plan: Mapping[str, Any], answer: Mapping[str, Any]) -> list[str]:
    unknown = [
        "batches in the middle of the training were measured while other work ran or not; batches of other times may "
        "have more or fewer nodes",
        "no start of messages beyond the topology's latency is counted, nor waiting for a slower rank",
        "memory is the trainer's estimate for fp32, without that of torch itself; the ranks of a machine share the "
        "mapped events, which are pages of files",
    ]
    if answer["counted"] < answer["batches"]:
        unknown.append(f"bytes are those of {answer['counted']:,} of {answer['batches']:,} batches, scaled")
    if plan["crossing_share"] is None:
        unknown.append(
            "the nodes are not divided by the ranks of the cache, since as many ranks do not share a memory; they are "
            "divided by number"
        )
    return unknown


def _of_snapshots(cache: EventCache, topology: Topology, options: Mapping[str, Any]) -> dict[str, Any]:
    """The groups of consecutive snapshots, and what crosses their borders."""
    if topology.num_ranks != cache.num_parts:
        raise UsageError(
            f"{topology.name} has {topology.num_ranks} ranks and the cache {cache.num_parts} groups of snapshots"
        )
    offsets_T, group_T = cache.arrays[SNAPSHOT_OFFSETS], cache.arrays[SNAPSHOT_GROUP]
    figures, width = cache.quality["snapshots"], options.get("hidden") or DEFAULT_HIDDEN
    events_T, nodes_T = np.diff(offsets_T), active_nodes(cache, offsets_T)
    starts_P = np.searchsorted(group_T, np.arange(cache.num_parts))
    # A node has a state from its first event on, which is the first entry of its list.
    index_offsets_N, index_event = cache.arrays[INDEX_OFFSETS], cache.arrays[INDEX_EVENT]
    first_n = np.sort(index_event[index_offsets_N[:-1][np.diff(index_offsets_N) > 0]])
    rows_P = np.searchsorted(first_n, offsets_T[starts_P])
    mean = float(np.mean(figures["cost"]))
    ranks = [
        {
            "rank": number,
            "name": rank.name,
            "snapshots": figures["count"][number],
            "events": int(events_T[group_T == number].sum()),
            "nodes": int(nodes_T[group_T == number].sum()),
            "cost": figures["cost"][number],
            "load": figures["cost"][number] / max(mean, 1e-30),
            "border_rows": int(rows_P[number]) if number else 0,
        }
        for number, rank in enumerate(topology.ranks)
    ]
    rows_PP = np.zeros((cache.num_parts, cache.num_parts), np.int64)
    later = np.arange(1, cache.num_parts)
    rows_PP[later - 1, later] = rows_PP[later, later - 1] = rows_P[1:]  # states, and their gradients back
    model = LinkModel.of(topology)
    crossings = model.crossings_of_types(rows_PP)
    borders = []
    for name, number in HIDDEN_VALUES.items():
        row_bytes = number * width * VALUE_BYTES
        borders.append(
            {
                "model": name,
                "row_bytes": row_bytes,
                "bytes": int(rows_PP.sum()) * row_bytes,
                "seconds": float(model.seconds(rows_PP, row_bytes).max(initial=0.0)) if row_bytes else 0.0,
                "bytes_by_link_type": {
                    kind: int(rows) * row_bytes for kind, rows in zip(model.types, crossings, strict=True)
                },
            }
        )
    heaviest, share = figures["heaviest"], figures["heaviest_share"]
    advice = []
    if share > 1:
        advice.append(
            f"snapshot {heaviest} alone costs {share:.2f} of the mean of a rank: partition with a shorter --window or "
            "fewer --parts"
        )
    elif figures["imbalance"] > UNEVEN:
        advice.append(
            f"the largest group costs {figures['imbalance']:.2f} of the mean: a shorter --window makes groups more even"
        )
    return {
        "window_seconds": cache.attributes["window_seconds"],
        "num_snapshots": len(events_T),
        "hidden": width,
        "coefficients": figures["coefficients"],
        "imbalance": figures["imbalance"],
        "ranks": ranks,
        "borders": borders,
        "advice": advice,
        "unknown": [
            "costs are a + b events + c active nodes with the coefficients of --snapshot-cost; the trainer measures "
            "the seconds of snapshots from its second epoch on, and changes the groups where that is faster",
            "a border is crossed where a sequence does; with --history, sequences that end at a border send nothing",
            "EvolveGCN sends its weights from rank to rank, which no stream decides; memory and seconds of computing "
            "are not in the plan of snapshots",
        ],
    }
