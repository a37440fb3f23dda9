"""PyTorch Geometric's partition folder, and one Data object for each part.

    META.json  node_map.pt  edge_map.pt                 what torch_geometric.distributed reads of the whole graph
    part_<p>/graph.pt  node_feats.pt  edge_feats.pt     LocalGraphStore.from_partition, LocalFeatureStore.from_partition
    part_<p>/data.pt                                    Data (or HeteroData): own nodes, then the halo with its features

PyG numbers nodes and edges as the dataset does. Edges here are numbered as in the store's CSR, by destination and then
by source; a part's edges come in that order, which is what `is_sorted` promises. With several types, maps and files are
dictionaries by type, and ids are those within the type, by which PyG's stores look them up. Weights are the `edge_attr`
of edge_feats.pt, [E, 1], and the `edge_weight` of data.pt.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.part_graph import PartEdges, first_edges, load_part, part_edges, part_nodes
from graphprep.cache.read import PartitionCache
from graphprep.cache.rebuild import rebuild_rows
from graphprep.interop.export.format import ExportSizes
from graphprep.interop.pyg import flat_mask, tensor, to_pyg

First = dict[str, NDArray[np.int64]]
"""first edges by edge type's key, as `first_edges` gives them"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PygFormat:
    """See the module."""

    name: str = "pyg"
    bfloat16_bytes: int = 2

    def expected_bytes(self, sizes: ExportSizes) -> int:
        """See `ExportFormat`."""
        per_node, per_halo, per_edge = 8 + 8 + 9, 9, 8 + 3 * 8 + 3 * 8
        return (
            2 * sizes.node_bytes
            + sizes.halo_bytes
            + 4 * sizes.weight_bytes  # twice, and once the edges' ids again
            + sizes.nodes * per_node
            + sizes.halo * per_halo
            + sizes.edges * per_edge
        )

    def write(self, cache: PartitionCache, folder: Path, advance: Callable[[], None]) -> None:
        """See `ExportFormat`."""
        first = {kind.key: first_edges(cache, kind) for kind in cache.edge_types}
        times = {
            node_type: rebuild_rows(cache, node_type, "time")
            for node_type in cache.node_types
            if "time" in cache.node_arrays(0, node_type)
        }
        for part in range(cache.num_parts):
            target = folder / f"part_{part}"
            target.mkdir()
            graph, edge_feats = _edges(cache, part, first)
            save(graph, target / "graph.pt")
            save(edge_feats, target / "edge_feats.pt")
            del graph, edge_feats
            save(_node_feats(cache, part, times), target / "node_feats.pt")
            save(to_pyg(load_part(cache, part, first)), target / "data.pt")
            advance()
        _write_maps(cache, folder, first)


def save(value: Any, path: Path) -> None:
    """torch.save, but a full disk is the OSError that it is: torch says only that the file came out short.

    Raises:
        OSError: the disk is full.
    """
    import torch

    with path.open("wb") as file:
        try:
            torch.save(value, file)
        except RuntimeError as error:
            if isinstance(error.__context__, OSError):
                raise error.__context__ from error
            raise


def _write_maps(cache: PartitionCache, folder: Path, first: First) -> None:
    """The part of every node and edge, and META.json."""
    homogeneous = cache.is_homogeneous
    node_types, edge_types = list(cache.node_types), cache.edge_types
    for name in () if homogeneous else ("node_map", "edge_map"):
        (folder / name).mkdir()
    for node_type in node_types:
        assignment = tensor(cache.assignment(node_type).astype(np.int64))
        save(assignment, folder / ("node_map.pt" if homogeneous else f"node_map/{node_type}.pt"))
    for kind in edge_types:
        part_E = np.repeat(cache.assignment(kind.destination), np.diff(first[kind.key])).astype(np.int64)
        save(tensor(part_E), folder / ("edge_map.pt" if homogeneous else f"edge_map/{kind.key}.pt"))
    offsets = np.cumsum([0, *cache.node_types.values(), *cache.attributes["edge_types"].values()]).tolist()
    meta = {
        "num_parts": cache.num_parts,
        "node_types": None if homogeneous else node_types,
        "edge_types": None if homogeneous else [list(kind) for kind in edge_types],
        "node_offset": None if homogeneous else offsets[: len(node_types)],
        "is_hetero": not homogeneous,
        "is_sorted": True,
    }
    (folder / "META.json").write_text(json.dumps(meta))


def _edges(cache: PartitionCache, part: int, first: First) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """What graph.pt and edge_feats.pt hold."""
    graphs: dict[Any, Any] = {}
    feats: dict[Any, Any] = {}
    for kind in cache.edge_types:
        sources = part_nodes(cache, part, kind.source)
        destinations = cache.node_array(part, kind.destination, "global_ids")
        edges = part_edges(cache, part, kind, sources, first[kind.key])
        order_E = np.argsort(edges.number_E)
        row_E = np.repeat(destinations, np.diff(edges.csr.indptr))[order_E]
        number = tensor(edges.number_E[order_E])
        graphs[tuple(kind)] = {
            "edge_id": number,
            "row": tensor(sources.ids[edges.csr.indices[order_E]]),
            "col": tensor(row_E),
            "size": (cache.node_types[kind.source], cache.node_types[kind.destination]),
        }
        feats[tuple(kind)] = _edge_feats(edges, number, order_E)
    if cache.is_homogeneous:
        (kind,) = cache.edge_types
        return graphs[tuple(kind)], feats[tuple(kind)]
    return graphs, feats


def _edge_feats(edges: PartEdges, number: Any, order_E: NDArray[np.int64]) -> dict[str, Any]:
    # PyG's store takes the largest id of what it is given, so it must not be given none.
    if edges.csr.data is None or not len(order_E):
        return {}
    return {"global_id": number, "feats": {"edge_attr": tensor(edges.csr.data[order_E][:, None])}}


def _node_feats(cache: PartitionCache, part: int, times: dict[str, NDArray[Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for node_type in cache.node_types:
        ids = cache.node_array(part, node_type, "global_ids")
        if not len(ids):
            continue
        arrays = {name: cache.node_array(part, node_type, name) for name in cache.node_arrays(part, node_type)}
        arrays.pop("time", None)
        feats = {name: tensor(flat_mask(name, array)) for name, array in arrays.items()}
        found[node_type] = {"global_id": tensor(ids), "feats": feats}
        if node_type in times:  # PyG's samplers look times up by global id, remote nodes' too
            found[node_type]["time"] = tensor(times[node_type])
    if cache.is_homogeneous:
        (only,) = found.values()
        return dict(only)
    return found
