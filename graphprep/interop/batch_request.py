"""Loaders of mini-batches from what a person says: which nodes or pairs, times, arrays.

Letters: N nodes of a type, B seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.read import PartitionCache
from graphprep.core.types import EdgeType, chosen_edge_type
from graphprep.errors import UsageError
from graphprep.interop.batch_loader import BatchLoader
from graphprep.interop.in_memory import as_array
from graphprep.sampling.graph import TIME, SamplingGraph, TimesOf, node_arrays, node_rows, sampling_graph
from graphprep.sampling.samplers.ladies import LayerSampler
from graphprep.sampling.samplers.neighbour import NeighbourSampler, SamplingOptions
from graphprep.sampling.samplers.vertices import VertexSampler, VertexSchedule
from graphprep.sampling.schedule import Schedule
from graphprep.sampling.seeds import NodeSeeds, PairSeeds, Seeds
from graphprep.store.store import GraphStore
from graphprep.system.nearest import nearest

SAMPLERS = ("neighbour", "ladies", "vertices")
MASKS = {"train": "train_mask", "val": "val_mask", "test": "test_mask"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """What loaders of nodes and of pairs have in common."""

    sampling: SamplingOptions
    sampler: str = "neighbour"
    """one of SAMPLERS"""
    times_of: TimesOf | None = None
    arrays: Sequence[str] | None = None
    """of nodes and edges; None for all but the original ids"""
    batch_size: int
    shuffle: bool = True
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False
    workers: int = 0


def node_batches(
    source: GraphStore | PartitionCache, options: BatchOptions, *, input_nodes: Any, input_time: Any, split: int
) -> BatchLoader:
    """A loader for nodes; `graphprep.loader` says what the arguments mean.

    Raises:
        UsageError: options do not go together, or there are no such nodes, times or arrays.
    """
    graph = sampling_graph(source, times_of=options.times_of)
    seeds = _node_seeds(source, graph, input_nodes, input_time, split)
    loader = _loader(source, graph, options, seeds)
    if not loader.sampler.has_trees and len(np.unique(seeds.ids_B)) < len(seeds.ids_B):
        raise UsageError("input_nodes has a node twice; give each once, or disjoint=True")
    return loader


def pair_batches(
    source: GraphStore | PartitionCache,
    options: BatchOptions,
    *,
    pairs: Any,
    labels: Any,
    times: Any,
    edge_type: Any,
    reverse_edge_type: Any,
    ratio: float | None,
    exclude: bool,
) -> BatchLoader:
    """A loader for pairs of nodes; `graphprep.link_loader` says what the arguments mean.

    Raises:
        UsageError: options do not go together, or there are no such nodes, edge types, times or arrays.
    """
    graph = sampling_graph(source, times_of=options.times_of)
    kind = chosen_edge_type(graph.edges, edge_type)
    excluded = {kind: False} if exclude else {}
    if reverse_edge_type is not None:
        reverse = chosen_edge_type(graph.edges, reverse_edge_type)
        if (reverse.source, reverse.destination) != (kind.destination, kind.source):
            raise UsageError(f"reverse_edge_type {reverse.key} does not lead from {kind.destination} to {kind.source}")
        excluded |= {reverse: True} if exclude else {}
    seeds = _pair_seeds(graph, kind, pairs, labels, times, ratio, options.sampling.seed)
    return _loader(source, graph, options, seeds, excluded)


def check_whole(name: str, number: object, least: int | None = None) -> None:
    """Check an argument that is a whole number.

    Raises:
        UsageError: it is none, or below `least`.
    """
    if not isinstance(number, int | np.integer) or isinstance(number, bool):
        raise UsageError(f"{name} is {number!r}; give a whole number")
    if least is not None and number < least:
        raise UsageError(f"{name} is {number}; give {least} or more")


def _loader(
    source: GraphStore | PartitionCache,
    graph: SamplingGraph,
    options: BatchOptions,
    seeds: Seeds,
    excluded: Mapping[EdgeType, bool] | None = None,
) -> BatchLoader:
    arrays = {name: list(node_arrays(source, name)) for name in graph.num_nodes}
    of_edges = {kind: list(source.edge_arrays(kind)) for kind in graph.edges}
    if options.arrays is None:
        arrays = {name: [each for each in names if each != "original_id"] for name, names in arrays.items()}
    else:
        known = {each for names in (*arrays.values(), *of_edges.values()) for each in names}
        if absent := [name for name in options.arrays if name not in known]:
            listed = ", ".join(sorted(known))
            raise UsageError(f"there is no array {absent[0]!r}{nearest(absent[0], known)}; arrays: {listed}")
        arrays = {name: [each for each in names if each in options.arrays] for name, names in arrays.items()}
        of_edges = {kind: [each for each in names if each in options.arrays] for kind, names in of_edges.items()}
    if options.sampler == "vertices":
        assert isinstance(seeds, NodeSeeds)
        total = sum(graph.num_nodes.values())
        vertices = VertexSampler(graph, share=min(1.0, options.batch_size / total), seed=options.sampling.seed)
        schedule: Schedule | VertexSchedule = VertexSchedule(
            sampler=vertices,
            node_type=seeds.node_type,
            ids_B=seeds.ids_B,
            num_steps=-(-total // options.batch_size),
            rank=options.rank,
            world_size=options.world_size,
        )
        return BatchLoader(
            source,
            seeds=seeds,
            sampler=vertices,
            schedule=schedule,
            arrays=arrays,
            edge_arrays=of_edges,
            workers=options.workers,
        )
    schedule = Schedule(
        num_seeds=len(seeds),
        seed=options.sampling.seed,
        batch_size=options.batch_size,
        shuffle=options.shuffle,
        rank=options.rank,
        world_size=options.world_size,
        drop_last=options.drop_last,
    )
    if schedule.num_batches == 0:
        raise UsageError(
            f"drop_last=True leaves no batch of {len(seeds):,} seeds for each of {options.world_size:,} ranks with "
            f"batch_size {options.batch_size:,}; make batch_size smaller or leave drop_last out"
        )
    return BatchLoader(
        source,
        seeds=seeds,
        sampler=(LayerSampler if options.sampler == "ladies" else NeighbourSampler)(graph, options.sampling),
        schedule=schedule,
        arrays=arrays,
        edge_arrays=of_edges,
        workers=options.workers,
        excluded=excluded,
    )


def _pair_seeds(
    graph: SamplingGraph, kind: EdgeType, pairs: Any, labels: Any, times: Any, ratio: float | None, seed: int
) -> PairSeeds:
    """The pairs that a person means.

    Raises:
        UsageError: as for `pair_batches`.
    """
    counts = graph.num_nodes[kind.source], graph.num_nodes[kind.destination]
    if pairs is None:
        matrix = graph.edges[kind]
        ends = [matrix.indices.astype(np.int64), np.repeat(np.arange(matrix.num_rows), np.diff(matrix.indptr))]
    else:
        found = as_array(pairs, "edge_label_index")
        if found.ndim != 2 or found.shape[0] != 2:
            raise UsageError(f"edge_label_index has shape {found.shape}; give [2, B]: sources above destinations")
        if found.dtype == bool:
            raise UsageError("edge_label_index is bool; give numbers of nodes, [2, B]: sources above destinations")
        ends = [_numbers(found[end], counts[end], f"edge_label_index[{end}]") for end in range(2)]
    if len(ends[0]) == 0:
        raise UsageError("edge_label_index has no pairs; give at least one")
    label_B = None if labels is None else as_array(labels, "edge_label")
    if label_B is not None and label_B.shape[:1] != ends[0].shape:
        rows = len(label_B) if label_B.ndim else "no"
        raise UsageError(f"edge_label has {rows} rows for {len(ends[0]):,} pairs; give one a pair")
    if label_B is not None and label_B.dtype.kind not in "biuf":
        raise UsageError(f"edge_label is {label_B.dtype}; give numbers, one a pair")
    if ratio is None:
        ratio = 1.0 if label_B is None else 0.0
    if not isinstance(ratio, int | float | np.number) or not math.isfinite(ratio):
        raise UsageError(f"neg_sampling_ratio is {ratio!r}; give a number from 0 on")
    if ratio < 0 or (ratio > 0 and label_B is not None):
        wrong = "below 0" if ratio < 0 else "given beside edge_label, and random pairs have no label"
        raise UsageError(f"neg_sampling_ratio is {wrong}; leave one of them out")
    until = None
    if graph.edge_times or graph.node_times:
        if times is None and pairs is None and kind in graph.edge_times:
            times = graph.edge_times[kind]
        if times is None:
            raise UsageError("times need edge_label_time, a number for each pair; give it")
        until = _as_times(times, "edge_label_time", len(ends[0]))
    elif times is not None:
        raise UsageError("edge_label_time needs the times of neighbours; give time='edges' or 'nodes'")
    return PairSeeds(
        edge_type=kind,
        source_B=ends[0],
        destination_B=ends[1],
        label_B=label_B,
        until_B=until,
        num_nodes=counts,
        ratio=ratio,
        seed=seed,
    )


def _node_seeds(
    source: GraphStore | PartitionCache, graph: SamplingGraph, input_nodes: Any, input_time: Any, split: int
) -> NodeSeeds:
    """The seeds that a person means.

    Raises:
        UsageError: as for `node_batches`.
    """
    check_whole("split", split)
    node_type, chosen = _type_and_nodes(source, graph, input_nodes)
    count = graph.num_nodes[node_type]
    if isinstance(chosen, str):
        if chosen not in MASKS:
            raise UsageError(f"input_nodes is {chosen!r}{nearest(chosen, MASKS)}; give train, val, test, or nodes")
        if MASKS[chosen] not in node_arrays(source, node_type):
            raise UsageError(f"{node_type} has no {MASKS[chosen]}; give input_nodes, an array of nodes")
        masks = node_rows(source, node_type, MASKS[chosen])
        if not 0 <= split < masks.shape[1]:
            raise UsageError(f"there is no split {split}; {node_type} has {masks.shape[1]}, from 0")
        ids = np.flatnonzero(masks[:, split])
    else:
        ids = np.arange(count) if chosen is None else _numbers(chosen, count)
    if len(ids) == 0:
        raise UsageError("input_nodes has no nodes; give at least one")
    return NodeSeeds(node_type=node_type, ids_B=ids, until_B=_times(source, graph, node_type, ids, input_time))


def _type_and_nodes(source: GraphStore | PartitionCache, graph: SamplingGraph, input_nodes: Any) -> tuple[str, Any]:
    names = list(graph.num_nodes)
    if isinstance(input_nodes, tuple) and len(input_nodes) == 2 and isinstance(input_nodes[0], str):
        if input_nodes[0] not in names:
            raise UsageError(f"there is no node type {input_nodes[0]!r}; types: {', '.join(names)}")
        return input_nodes
    labelled = [name for name in names if "y" in node_arrays(source, name)]
    candidates = names if len(names) == 1 else labelled
    if len(candidates) != 1:
        raise UsageError(f"there are several node types; give input_nodes as (TYPE, nodes), of {', '.join(names)}")
    return candidates[0], input_nodes


def _numbers(nodes: Any, count: int, name: str = "input_nodes") -> NDArray[np.int64]:
    """Nodes as int64, of numbers or a mask."""
    found = as_array(nodes, name)
    if found.dtype == bool and found.shape == (count,):
        return np.flatnonzero(found)
    if found.shape == (0,):
        return np.empty(0, np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise UsageError(f"{name} are {found.dtype} of shape {found.shape}; give numbers or a mask [{count}]")
    wrong = np.flatnonzero((found < 0) | (found >= count))
    if len(wrong):
        raise UsageError(f"{name}[{wrong[0]}] is {found[wrong[0]]}; nodes are 0 .. {count - 1}")
    return found.astype(np.int64)


def _times(
    source: GraphStore | PartitionCache, graph: SamplingGraph, node_type: str, ids: NDArray[np.int64], input_time: Any
) -> NDArray[Any] | None:
    """The time of each seed: as requested, or the node's own."""
    if not (graph.edge_times or graph.node_times):
        if input_time is not None:
            raise UsageError("input_time needs the times of neighbours; give time='edges' or 'nodes'")
        return None
    if input_time is not None:
        return _as_times(input_time, "input_time", len(ids))
    if TIME not in node_arrays(source, node_type):
        raise UsageError(f"{node_type} has no times of its own; give input_time, a number for each of input_nodes")
    return _as_times(node_rows(source, node_type, TIME)[ids], f"the times of {node_type}", len(ids))


def _as_times(times: Any, name: str, count: int) -> NDArray[Any]:
    """The time of each seed as the kernels take it.

    Raises:
        UsageError: they are not one number each.
    """
    found = as_array(times, name)
    if found.shape != (count,) or found.dtype.kind not in "iuf":
        raise UsageError(f"{name} are {found.dtype} of shape {found.shape}; give {count:,} numbers, one a seed")
    if found.dtype.kind == "f" and np.isnan(found).any():
        raise UsageError(f"{name}[{np.flatnonzero(np.isnan(found))[0]}] is NaN; give a number for each seed")
    return found.astype(np.float64 if found.dtype.kind == "f" else np.int64)
