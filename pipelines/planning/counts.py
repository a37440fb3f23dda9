"""The counts that a plan needs: of a cache, or of a store that is partitioned for them.

A store is partitioned by METIS, in memory and without refinement: the plan says so, and a refined cache usually has a
lower bottleneck.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.read import PartitionCache
from graphprep.core.bfloat16 import to_float32
from graphprep.core.types import Csr, EdgeType
from graphprep.errors import UsageError
from graphprep.interop.scipy_matrix import to_scipy
from graphprep.partition.engine import whole_graph
from graphprep.partition.request import PartitionRequest
from graphprep.partition.search import partition, require_enough_nodes
from graphprep.plan.partitioned_graph import PartitionedGraph
from graphprep.plan.rates import first_rows
from graphprep.report.summary.cache_summary import traffic_of
from graphprep.store.store import GraphStore
from graphprep.system import progress
from graphprep.topology import Topology, resolve
from graphprep.traffic import choose_relays, sent_rows_of, with_relays
from graphprep.traffic.tensor import CrossRows
from pipelines.partition import chosen_topology

SKETCH_BYTES_AN_EDGE = 180
"""Memory of METIS and of the undirected graph, approximately."""
SEVERAL_TYPES = (
    "graphs of several node or edge types, which are trained with --model rgcn, rgat or hgt, cannot be planned"
)
SAMPLES, SAMPLED_ROWS = 4, 256
"""Ranges of rows, and rows in each, that are read to estimate how many features are not 0."""
MOST_COUNTED = 0.2
"""Share of a sample that is not 0, up to which a cache's features are counted; the trainer's own limit is lower."""
COUNTED_VALUES = 1 << 22
"""Values that are read in one go to count them."""
EDGE_WEIGHTS = "weights"
"""The trainer's name of the edges' weights among their arrays."""


def counts_of_cache(
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


def counts_of_store(
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
