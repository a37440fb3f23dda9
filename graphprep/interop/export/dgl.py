"""DGL's partition folder, for dgl.distributed.load_partition and DistGraph; written without DGL.

    part_config.json                    which part has which nodes and edges, and the files of each part
    part<p>/graph.dgl                   the part's in-edges over its own nodes and then the halo
    part<p>/node_feat.dgl  edge_feat.dgl
    part<p>/orig_nids.dgl  orig_eids.dgl    the store's numbers of the part's nodes and edges, by type

DGL renumbers nodes and edges so that a part has a range of each type: part after part, type after type in name order,
and within those the part's own order. `_ID` in graph.dgl holds the new numbers. All edges of a part are its own
(`inner_edge` is 1), as in DGL's distributed partitioning; the halo has no in-edges here. A graph of one node type and
one edge type gets DGL's names for them, `_N` and `_E`.

Letters: n own nodes, H halo rows, E edges of the part, all types after another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.part_graph import PartEdges, PartNodes, first_edges, part_edges, part_nodes
from graphprep.cache.read import PartitionCache
from graphprep.core.bfloat16 import to_float32
from graphprep.core.types import EdgeType
from graphprep.interop.export.dgl_files import write_graph, write_tensors
from graphprep.interop.export.format import ExportSizes
from graphprep.interop.pyg import flat_mask

CONFIG = "part_config.json"
GRAPH_HEADER_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class DglFormat:
    """See the module."""

    name: str = "dgl"
    bfloat16_bytes: int = 4

    def expected_bytes(self, sizes: ExportSizes) -> int:
        """See `ExportFormat`."""
        per_node, per_halo, per_edge = 8 + 8 + 1 + 8, 8 + 8 + 1, 8 + 8 + 8 + 1 + 8
        return (
            sizes.node_bytes
            + sizes.weight_bytes
            + sizes.nodes * per_node
            + sizes.halo * per_halo
            + sizes.edges * per_edge
            + sizes.parts * GRAPH_HEADER_BYTES
        )

    def write(self, cache: PartitionCache, folder: Path, advance: Callable[[], None]) -> None:
        """See `ExportFormat`."""
        ranges = Ranges.of(cache)
        first = {kind.key: first_edges(cache, kind) for kind in cache.edge_types}
        for part in range(cache.num_parts):
            (folder / f"part{part}").mkdir()
            _write_part(cache, part, ranges, first, folder / f"part{part}")
            advance()
        (folder / CONFIG).write_text(json.dumps(_config(cache, ranges), indent=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """DGL's numbers: where each part's nodes and edges of each type begin and end."""

    nodes: Mapping[str, list[list[int]]]
    """by node type: [first, last + 1] of each part"""
    edges: Mapping[EdgeType, list[list[int]]]

    @classmethod
    def of(cls, cache: PartitionCache) -> Ranges:
        nodes: dict[str, list[list[int]]] = {node_type: [] for node_type in cache.node_types}
        edges: dict[EdgeType, list[list[int]]] = {kind: [] for kind in cache.edge_types}
        node = edge = 0
        for part in range(cache.num_parts):
            sizes = cache.part_sizes(part)
            for node_type, ranges in nodes.items():
                ranges.append([node, node + sizes[node_type]])
                node += sizes[node_type]
            for kind, ranges in edges.items():
                count = sum(cache.block(part, kind, owner).num_edges for owner in range(cache.num_parts))
                ranges.append([edge, edge + count])
                edge += count
        return cls(nodes=nodes, edges=edges)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartNumbers:
    """The nodes of a part's graph: own nodes of all types, then the halo of all types."""

    num_own: int
    nodes: Mapping[str, PartNodes]
    place: Mapping[str, NDArray[np.int64]]
    """by node type: where its own nodes and its halo lie in the part's graph"""

    @classmethod
    def of(cls, cache: PartitionCache, part: int) -> PartNumbers:
        nodes = {node_type: part_nodes(cache, part, node_type) for node_type in cache.node_types}
        num_own = sum(len(found.own_n) for found in nodes.values())
        place, own_at, halo_at = {}, 0, num_own
        for node_type, found in nodes.items():
            own, halo = len(found.own_n), len(found.halo_H)
            place[node_type] = np.concatenate([own_at + np.arange(own), halo_at + np.arange(halo)])
            own_at, halo_at = own_at + own, halo_at + halo
        return cls(num_own=num_own, nodes=nodes, place=place)

    @property
    def num_nodes(self) -> int:
        return sum(len(places) for places in self.place.values())


def _write_part(
    cache: PartitionCache, part: int, ranges: Ranges, first: Mapping[str, NDArray[np.int64]], folder: Path
) -> None:
    numbers = PartNumbers.of(cache, part)
    edges = {
        kind: part_edges(cache, part, kind, numbers.nodes[kind.source], first[kind.key]) for kind in cache.edge_types
    }
    sources, destinations = _ends(numbers, edges)
    node_data, edge_data = _node_data(numbers, part, ranges), _edge_data(edges, part, ranges)
    if cache.is_homogeneous:
        del node_data["_TYPE"], edge_data["_TYPE"]
    write_graph(
        folder / "graph.dgl",
        num_nodes=numbers.num_nodes,
        sources=sources,
        destinations=destinations,
        node_data=node_data,
        edge_data=edge_data,
    )
    names = {kind: edge_name(cache, kind) for kind in edges}
    weights = {f"{names[kind]}/weight": e.csr.data for kind, e in edges.items() if e.csr.data is not None}
    write_tensors(folder / "node_feat.dgl", _node_feats(cache, part))
    write_tensors(folder / "edge_feat.dgl", weights)
    write_tensors(folder / "orig_nids.dgl", {node_name(cache, kind): n.own_n for kind, n in numbers.nodes.items()})
    write_tensors(folder / "orig_eids.dgl", {names[kind]: found.number_E for kind, found in edges.items()})


def _ends(numbers: PartNumbers, edges: Mapping[EdgeType, PartEdges]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """int64 [E] each: sources and destinations in the part's graph."""
    sources, destinations = [], []
    for kind, found in edges.items():
        rows = np.repeat(np.arange(found.csr.num_rows), np.diff(found.csr.indptr))
        sources.append(numbers.place[kind.source][found.csr.indices])
        destinations.append(numbers.place[kind.destination][rows])
    return np.concatenate(sources), np.concatenate(destinations)


def _node_data(numbers: PartNumbers, part: int, ranges: Ranges) -> dict[str, NDArray[Any]]:
    ids, part_id = np.empty(numbers.num_nodes, np.int64), np.empty(numbers.num_nodes, np.int64)
    kinds = np.empty(numbers.num_nodes, np.int32)
    for number, (node_type, found) in enumerate(numbers.nodes.items()):
        place = numbers.place[node_type]
        start_P = np.array([start for start, _ in ranges.nodes[node_type]], np.int64)
        own_ids = np.arange(*ranges.nodes[node_type][part])
        ids[place] = np.concatenate([own_ids, start_P[found.halo_part_H] + found.halo_row_H])
        part_id[place] = np.concatenate([np.full(len(own_ids), part), found.halo_part_H])
        kinds[place] = number
    inner_node = np.arange(numbers.num_nodes) < numbers.num_own
    return {"_ID": ids, "inner_node": inner_node, "part_id": part_id, "_TYPE": kinds}


def _edge_data(edges: Mapping[EdgeType, PartEdges], part: int, ranges: Ranges) -> dict[str, NDArray[Any]]:
    ids = np.concatenate([np.arange(*ranges.edges[kind][part], dtype=np.int64) for kind in edges])
    counts = [found.csr.num_edges for found in edges.values()]
    kinds = np.repeat(np.arange(len(edges), dtype=np.int32), counts)
    return {"_ID": ids, "inner_edge": np.ones(len(ids), np.bool_), "_TYPE": kinds}


def _node_feats(cache: PartitionCache, part: int) -> dict[str, NDArray[Any]]:
    return {
        f"{node_name(cache, node_type)}/{name}": flat_mask(name, to_float32(cache.node_array(part, node_type, name)))
        for node_type in cache.node_types
        for name in cache.node_arrays(part, node_type)
    }


def _config(cache: PartitionCache, ranges: Ranges) -> dict[str, Any]:
    return {
        "graph_name": cache.attributes["dataset"],
        "num_nodes": sum(cache.node_types.values()),
        "num_edges": sum(cache.attributes["edge_types"].values()),
        "part_method": cache.attributes["options"].get("method_chosen", "graphprep"),
        "num_parts": cache.num_parts,
        "halo_hops": 1,
        "node_map": {node_name(cache, node_type): found for node_type, found in ranges.nodes.items()},
        "edge_map": {edge_name(cache, kind): found for kind, found in ranges.edges.items()},
        "ntypes": {node_name(cache, node_type): number for number, node_type in enumerate(cache.node_types)},
        "etypes": {edge_name(cache, kind): number for number, kind in enumerate(cache.edge_types)},
        **{
            f"part-{part}": {
                "node_feats": f"part{part}/node_feat.dgl",
                "edge_feats": f"part{part}/edge_feat.dgl",
                "part_graph": f"part{part}/graph.dgl",
            }
            for part in range(cache.num_parts)
        },
    }


def node_name(cache: PartitionCache, node_type: str) -> str:
    """What DGL calls a node type."""
    return "_N" if cache.is_homogeneous else node_type


def edge_name(cache: PartitionCache, edge_type: EdgeType) -> str:
    """What DGL's files call an edge type."""
    return "_N:_E:_N" if cache.is_homogeneous else ":".join(edge_type)
