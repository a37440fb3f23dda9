"""A store that extends another is given parts by a cache of that one: old nodes keep theirs, nothing is partitioned."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graphprep.cache.features import FeatureOptions
from graphprep.cache.read import PartitionCache, open_cache
from graphprep.errors import PartitionError, UsageError
from graphprep.partition.extension import parts_of_all
from graphprep.partition.external_assignment import ExternalAssignment
from graphprep.partition.request import PartitionRequest
from graphprep.plan.model_widths import ModelWidths, take_widths
from graphprep.plan.rates_file import read_with_digest
from graphprep.report.summary.cache_summary import quality_of
from graphprep.store.extension import EXTENDS
from graphprep.store.store import GraphStore, open_store
from graphprep.system import memory, progress
from graphprep.system.options import options_in, take_options
from graphprep.topology import Topology
from graphprep.traffic import speed_shares
from pipelines.partition import PartitionPlan, check_source, target_of

MOST_STEP_GROWTH = 1.1
"""Partitioning anew is advised where the predicted step grew by this much more than the graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsGrowth:
    """What became of a partition as its graph was extended."""

    new_nodes: int
    edges: int
    """now, as are the next ones"""
    halo_rows: int
    bottleneck_seconds: float
    step_seconds: float
    edges_before: int
    """of the cache that was extended, as are the next ones"""
    halo_rows_before: int
    bottleneck_seconds_before: float
    step_seconds_before: float
    broken_limits: tuple[str, ...]
    """those that the parts do not keep now"""
    advice: str | None
    """a sentence where partitioning anew is advisable"""

    @classmethod
    def of(cls, cache: PartitionCache, before: PartitionCache) -> PartsGrowth:
        """Compare a cache with the one that it extends."""
        now, then = quality_of(cache), quality_of(before)
        edges, edges_before = (sum(one.attributes["edge_types"].values()) for one in (cache, before))
        growth = edges / max(1, edges_before)
        limits = tuple(limit["what"] for limit in now["limits"] if not limit["met"])
        broken_before = {limit["what"] for limit in then["limits"] if not limit["met"]}
        reasons = []
        if now["step_seconds"] > MOST_STEP_GROWTH * growth * then["step_seconds"] > 0:
            reasons.append(
                f"the predicted step takes {now['step_seconds'] / then['step_seconds']:.2f} times as long, for "
                f"{growth:.2f} times the edges"
            )
        if newly := [what for what in limits if what not in broken_before]:
            reasons.append(f"the parts do not keep the limits on {', '.join(newly)} any more")
        advice = f"{' and '.join(reasons)}: partitioning anew is advisable" if reasons else None
        return cls(
            new_nodes=sum(cache.node_types.values()) - sum(before.node_types.values()),
            edges=edges,
            edges_before=edges_before,
            **{name: now[name] for name in ("halo_rows", "bottleneck_seconds", "step_seconds")},
            **{f"{name}_before": then[name] for name in ("halo_rows", "bottleneck_seconds", "step_seconds")},
            broken_limits=limits,
            advice=advice,
        )

    def say(self) -> None:
        """Say it, and the advice as a warning."""
        progress.say(
            f"{self.new_nodes:,} new nodes: halo rows {self.halo_rows_before:,} -> {self.halo_rows:,}, bottleneck "
            f"{self.bottleneck_seconds_before * 1e3:.3f} -> {self.bottleneck_seconds * 1e3:.3f} ms an exchange, step "
            f"{self.step_seconds_before * 1e3:.3f} -> {self.step_seconds * 1e3:.3f} ms"
        )
        if self.advice is not None:
            progress.warn(self.advice)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def plan_extended(
    name_or_store: str | GraphStore,
    extend: str | Path | PartitionCache,
    *,
    options: Mapping[str, Any],
    parts: int | None = None,
    topology: str | Topology | None = None,
    assignment: object = None,
    out: Path | None = None,
    rates: Path | None = None,
    memory_limit: int | None = None,
) -> PartitionPlan:
    """Decide which parts new nodes get; `run_partition` then writes the cache.

    Args:
        name_or_store: a store that extends that of the cache, at once or by way of others between them.
        extend: the cache whose parts stay as they are; of its topology is the new one.
        options: of PartitionRequest, ModelWidths and FeatureOptions those that are given; others are as in the cache.
        parts, topology, assignment: refused, since the cache has them.
        out, rates, memory_limit: as for `plan_partition`.

    Raises:
        UsageError: an option that would move nodes, or is wrong.
        DatasetError, CacheError: there is no such store or cache, or one is damaged.
        PartitionError: the store does not extend that of the cache.
    """
    values = dict(options)
    for name, value in (("parts", parts), ("topology", topology), ("assignment", assignment)):
        if value is not None:
            raise UsageError(f"--extend takes topology and parts from the cache; leave --{name} away")
    for name, alone in (("method", "auto"), ("effort", "none")):
        if values.setdefault(name, alone) != alone:
            raise UsageError(f"--{name} {values[name]} would move nodes, which keep their parts with --extend")
    store, cache = open_store(name_or_store), open_cache(extend)
    require_extension(store, cache)
    cache.check_sizes()
    earlier = dict(cache.attributes["options"])
    widths = earlier.get("model_widths")
    if "row_bytes" in values or any(each.name in values for each in options_in(ModelWidths)):
        model_widths = take_widths(values)
    else:
        model_widths = None if widths is None else ModelWidths(**widths)
    seconds = earlier.get("row_seconds")
    request = take_options(
        PartitionRequest, {**earlier, **values}, row_seconds=None if seconds is None else tuple(seconds)
    )
    features = take_options(FeatureOptions, {**earlier, **values})
    check_source(store, features)
    if features.scale_features == "columns":
        progress.warn(
            "features are scaled by the mean and deviation of all nodes, so new nodes change those of old ones, and "
            "weights that were learnt before fit less well"
        )
    machine = Topology.from_long_form(cache.attributes["topology"])
    if memory_limit is not None:
        memory.budget(memory_limit)
    with progress.task("placing new nodes"):
        store.require_unchanged("edges/")
        known = {name: np.asarray(cache.assignment(name)) for name in cache.node_types}
        part_N = parts_of_all(store, known, speed_shares(machine))
    return PartitionPlan(
        store=store,
        topology=machine,
        request=request,
        target=target_of(out, store.name, machine),
        external=ExternalAssignment(
            path=cache.folder, sha256=hashlib.sha256(part_N.data).hexdigest(), assignment_N=part_N
        ),
        memory_limit=memory_limit,
        features=features,
        widths=model_widths,
        rates=None if rates is None else read_with_digest(rates),
    )


def require_extension(store: GraphStore, cache: PartitionCache) -> None:
    """Refuse a cache of another graph than those that a store extends.

    Raises:
        PartitionError: it is one.
    """
    own = (cache.attributes["dataset"], cache.attributes["source"], cache.node_types)
    names = []
    for origin in _origins(store.attributes["source"]):
        names.append(str(origin["dataset"]))
        if (origin["dataset"], origin["source"], origin["node_types"]) == own:
            return
    known = f"it extends {', '.join(names)}" if names else "it was not made by `graphprep import --extend`"
    raise PartitionError(
        f"{store.name} does not extend the graph {own[0]} of {cache.folder}: {known}; give a cache of a store that it "
        "extends"
    )


def _origins(source: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The store that another extends, then the one that this extends, and so on."""
    while (origin := source.get(EXTENDS)) is not None:
        yield origin
        source = origin["source"]
