"""Seconds of an epoch's exchanges, by the trainer's own account and by the cost model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.network.cases import GRAPHS, Links
from graphprep.cache.read import PartitionCache
from graphprep.plan.training import TrainingPlan
from graphprep.report.summary.cache_summary import traffic_of
from graphprep.traffic import epoch_seconds

LAYERS = 3
EXCHANGES = 2 * (LAYERS - 1)
"""Of an epoch: layers 2 and 3, forward and backward."""
EPOCHS = 2


def run_of(graph: str, cache: Path) -> dict[str, Any]:
    """The trainer's options."""
    return {
        "cache": str(cache),
        "layers": LAYERS,
        "hidden": GRAPHS[graph][0],
        "dropout": 0.0,
        "epochs": EPOCHS,
        "eval_every": EPOCHS,
        "patience": 0,
        "device": "cpu",
    }


def measured_seconds(result: dict[str, Any]) -> float:
    """Of the exchanges of one training epoch, on the rank that they take longest on."""
    rows = [row for row in result["exchanges"] if row["layer"] > 1]
    of_ranks = zip(*([spent / row["exchanges"] for spent in row["seconds_by_rank"]] for row in rows), strict=True)
    return max(map(sum, of_ranks))


def row_bytes(cache: Path, hidden: int) -> list[int]:
    """Of each layer's exchange; the first makes none."""
    attributes = PartitionCache(cache).attributes
    features, classes = attributes["num_features"]["node"], attributes["num_classes"]["node"]
    return TrainingPlan(layers=LAYERS, hidden=hidden).row_bytes(features, classes)


def bottleneck_seconds(cache: Path, links: Links, hidden: int) -> float:
    """What the cost model says of an epoch's exchanges at the rates of the links."""
    return predicted_seconds(cache, links, hidden, share=1.0, start_seconds=0.0)


def predicted_seconds(
    cache: Path, links: Links, hidden: int, *, share: float, start_seconds: float, relay: bool = True
) -> float:
    """What it says of them where messages get a share of the links, and starting an exchange takes a time.

    Without `relay` it is that of direct sends, whatever the cache has.
    """
    carried = Links(name=links.name, ranks_each=links.ranks_each, mbits=tuple(share * rate for rate in links.mbits))
    traffic = traffic_of(PartitionCache(cache))
    if not relay:
        traffic = traffic.without_relays()
    return epoch_seconds(traffic, carried.topology, row_bytes(cache, hidden), start_seconds=start_seconds)
