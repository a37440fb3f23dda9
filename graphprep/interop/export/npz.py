"""Plain NumPy: one uncompressed .npz a part and one for all of them, so that a loader needs NumPy alone.

    graph.npz          assignment, traffic_rows, cross_edges
    part_<p>.npz       nodes/<type>/global_ids, degree, x, y, ...; halo_ids, halo_part, halo_row
                       edges/<src>__<relation>__<dst>/indptr, indices, number, data

The arrays of a part are those of the cache, but for the edges, which are one CSR an edge type with columns over the
part's own nodes and then its halo. The halo's features are not repeated: `halo_part` and `halo_row` say where they lie.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.part_graph import first_edges, part_edges, part_nodes
from graphprep.cache.read import PartitionCache
from graphprep.core.bfloat16 import to_float32
from graphprep.core.csr import index_dtype
from graphprep.interop.export.format import ExportSizes

WHOLE = ("assignment", "traffic_rows", "cross_edges")
Named = tuple[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NpzFormat:
    """See the module."""

    name: str = "npz"
    bfloat16_bytes: int = 4

    def expected_bytes(self, sizes: ExportSizes) -> int:
        """See `ExportFormat`."""
        per_node, per_halo, per_edge = 4 + 8 + 4 + 8, 8 + 4 + 8, 4 + 8
        return (
            sizes.node_bytes
            + sizes.nodes * per_node
            + sizes.halo * per_halo
            + sizes.edges * per_edge
            + sizes.weight_bytes
        )

    def write(self, cache: PartitionCache, folder: Path, advance: Callable[[], None]) -> None:
        """See `ExportFormat`."""
        write_npz(folder / "graph.npz", ((name, cache.array(name)) for name in WHOLE))
        first = {kind.key: first_edges(cache, kind) for kind in cache.edge_types}
        for part in range(cache.num_parts):
            write_npz(folder / f"part_{part}.npz", _arrays(cache, part, first))
            advance()


def _arrays(cache: PartitionCache, part: int, first: dict[str, NDArray[np.int64]]) -> Iterator[Named]:
    nodes = {node_type: part_nodes(cache, part, node_type) for node_type in cache.node_types}
    for node_type, found in nodes.items():
        root = f"nodes/{node_type}"
        for name in ("global_ids", "degree", *cache.node_arrays(part, node_type)):
            yield f"{root}/{name}", cache.node_array(part, node_type, name)
        yield f"{root}/halo_ids", found.halo_H
        yield f"{root}/halo_part", found.halo_part_H
        yield f"{root}/halo_row", found.halo_row_H
    for kind in cache.edge_types:
        edges = part_edges(cache, part, kind, nodes[kind.source], first[kind.key])
        root = f"edges/{kind.key}"
        yield f"{root}/indptr", edges.csr.indptr
        yield f"{root}/indices", edges.csr.indices.astype(index_dtype(edges.csr.num_sources))
        yield f"{root}/number", edges.number_E
        if edges.csr.data is not None:
            yield f"{root}/data", edges.csr.data


def write_npz(path: Path, arrays: Iterator[Named]) -> None:
    """Write arrays one after another, without compression, bfloat16 as float32; the same arrays give the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays:
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, to_float32(np.asarray(array)), allow_pickle=False)
