"""Open a cache: metadata at once, arrays as read-only memory maps when they are asked for."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.figures import Figures
from graphprep.cache.format import (
    CACHE_FORMAT,
    CACHE_KIND,
    MANIFEST,
    MANIFEST_SUM,
    X_AGGREGATED,
    ZARR_JSON,
    dtype_of,
    part_path,
    payload_path,
)
from graphprep.cache.manifest import Manifest, other_format
from graphprep.errors import CacheError
from graphprep.graph import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, Csr, EdgeType, LoadedGraph, chosen_edge_type
from graphprep.original_ids import OriginalIds

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.axes import Axes
    from scipy.sparse import csr_array
    from torch_geometric.data import Data, HeteroData


OF_THE_CACHE = re.compile(rf"global_ids|degree|{X_AGGREGATED}|(send|recv|halo_degree)_[0-9]+")
"""Arrays of a part's nodes that are not the store's own."""


class PartitionCache:
    """A finished cache, opened for reading."""

    def __init__(self, folder: Path | str) -> None:
        """Open the cache in `folder`.

        Raises:
            CacheError: it is no cache, is unfinished, or has a format that this release does not know.
        """
        self.folder = Path(folder)
        self.attributes: dict[str, Any] = _attributes(self.folder, "")
        kind, version = self.attributes.get("graphprep_kind"), self.attributes.get("graphprep_format")
        if kind != CACHE_KIND:
            found = "a graph store" if kind == "store" else "not a partition cache"
            raise CacheError(f"{self.folder} is {found}; give the folder that `graphprep partition` wrote")
        if version != CACHE_FORMAT:
            raise CacheError(other_format(self.folder, version))
        for name in (MANIFEST, MANIFEST_SUM):
            if not (self.folder / name).is_file():
                raise CacheError(
                    f"{self.folder} is not a finished partition cache: {name} is missing; "
                    "run `graphprep partition` again"
                )

    @property
    def key(self) -> str:
        """64 hex digits over all that determined the content."""
        return str(self.attributes["key"])

    @property
    def num_parts(self) -> int:
        return int(self.attributes["num_parts"])

    @property
    def node_types(self) -> dict[str, int]:
        """Nodes by type, in name order."""
        return dict(self.attributes["node_types"])

    @property
    def edge_types(self) -> list[EdgeType]:
        """Edge types in key order."""
        return [EdgeType.from_key(key) for key in self.attributes["edge_types"]]

    @property
    def is_homogeneous(self) -> bool:
        """Whether it has one node type and one edge type, by the names of those."""
        return list(self.node_types) == [HOMOGENEOUS_NODE] and self.edge_types == [HOMOGENEOUS_EDGE]

    @property
    def quality(self) -> Figures:
        """The figures of the cost model, by the names of the format's page; some of them as tables too."""
        return Figures(self.attributes["quality"], lambda: (self.array("traffic_rows"), self.array("cross_edges")))

    def check_sizes(self) -> Manifest:
        """Compare every file's size with the manifest, which is returned; quick, since nothing else is read.

        Raises:
            CacheError: the manifest is damaged, or a file is missing or of another size.
        """
        manifest = Manifest.read(self.folder)
        manifest.check_sizes(self.folder)
        return manifest

    def aggregated(self, node_type: str) -> str:
        """How the neighbours' features of a node type are summed in `x_aggregated`: gcn, mean, or none."""
        return str(self.attributes["aggregated"].get(node_type, "none"))

    def assignment(self, node_type: str) -> NDArray[np.int32]:
        """int32 [N], the part of each node of a type, in the store's node order."""
        start = int(self.attributes["node_offsets"][node_type])
        return self.array("assignment")[start : start + self.node_types[node_type]]

    def array(self, path: str) -> NDArray[Any]:
        """Map one array, read-only. bfloat16 has the dtype of `graphprep.bfloat16`, whose `to_float32` widens it.

        Raises:
            CacheError: the array or its payload is missing or has another size than its metadata says.
        """
        return map_array(self.folder, path)

    def has_array(self, path: str) -> bool:
        """Whether the cache has this array."""
        return (self.folder / path / ZARR_JSON).is_file()

    def part_sizes(self, part: int) -> dict[str, int]:
        """Nodes of each type in one part."""
        return dict(_attributes(self.folder, part_path(part))["nodes"])

    def node_array(self, part: int, node_type: str, name: str) -> NDArray[Any]:
        """One array of a part's nodes: global_ids, x, send_<q>, ..."""
        return self.array(f"{part_path(part)}/nodes/{node_type}/{name}")

    def node_arrays(self, part: int, node_type: str) -> tuple[str, ...]:
        """The names of the arrays that nodes of this type have in the store, and so in every part."""
        folder = self.folder / part_path(part) / "nodes" / node_type
        found = (path.parent.name for path in folder.glob(f"*/{ZARR_JSON}"))
        return tuple(sorted(name for name in found if not OF_THE_CACHE.fullmatch(name)))

    def original_ids(self, node_type: str) -> OriginalIds | None:
        """The ids that the nodes of a type had in the source, in the store's node order; None for row numbers.

        `.array()` is all of them (int64 [N], or N strings), `[row]` that of one row, `.row_of(id)` the way back.
        """
        if "original_id" in self.node_arrays(0, node_type):
            from graphprep.cache.rebuild import rebuild_rows

            return OriginalIds(numbers=rebuild_rows(self, node_type, "original_id"))
        if not self.has_array(f"words/{node_type}/offsets"):
            return None
        offsets, text = (self.array(f"words/{node_type}/{name}") for name in ("offsets", "bytes"))
        return OriginalIds.of_words(offsets, text, str(self.folder), CacheError)

    def edge_arrays(self, edge_type: EdgeType) -> tuple[str, ...]:
        """The names of what edges of a type have beside indices and weights."""
        return tuple(self.attributes.get("edge_arrays", {}).get(edge_type.key, ()))

    def edge_array(self, part: int, edge_type: EdgeType, owner: int, name: str) -> NDArray[Any]:
        """One of these arrays, of the edges in `block`, in its order."""
        return self.array(f"{block_path(part, edge_type, owner)}/{name}")

    def block(self, part: int, edge_type: EdgeType, owner: int) -> Csr:
        """The in-edges of a part whose sources part `owner` owns; columns as the format's page says."""
        path = block_path(part, edge_type, owner)
        attributes = _attributes(self.folder, path)
        return Csr(
            indptr=self.array(f"{path}/indptr"),
            indices=self.array(f"{path}/indices"),
            data=self.array(f"{path}/data") if attributes["weighted"] else None,
            num_sources=int(attributes["shape"][1]),
        )

    def loaded(self, part: int | None = None) -> LoadedGraph:
        """The whole graph in the store's order, or one part with its halo, in memory."""
        from graphprep.cache import part_graph, rebuild

        return rebuild.load_whole(self) if part is None else part_graph.load_part(self, part)

    def plot_links(self, ax: Axes | None = None) -> Axes:
        """Draw the topology, each direction of each link coloured and as wide as it is slow (matplotlib axes)."""
        from graphprep.inspect import plots
        from graphprep.topology import Topology

        return plots.plot_links(self.quality, Topology.from_long_form(self.attributes["topology"]), ax)

    def plot_traffic(self, ax: Axes | None = None) -> Axes:
        """Draw the rows that go from rank to rank in one exchange as a heat map (matplotlib axes)."""
        from graphprep.inspect import plots

        return plots.plot_traffic(self.array("traffic_rows").tolist(), ax)

    def plot_parts(self, ax: Axes | None = None) -> Axes:
        """Draw the work of each rank over its share as bars (matplotlib axes)."""
        from graphprep.inspect import plots

        return plots.plot_parts(self.quality["ranks"], ax)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from graphprep.inspect.notebook import cache_html

        return cache_html(self)

    def to_scipy(self, edge_type: Sequence[str] | str | None = None, *, part: int | None = None) -> csr_array:
        """The in-edges of one type as a SciPy array, rows are destinations.

        Args:
            edge_type: its key or (source, relation, destination); may be left out if there is one.
            part: the rows of one part alone; columns are its own nodes, then its halo.
        """
        from graphprep.cache import part_graph, rebuild
        from graphprep.convert.scipy_matrix import to_scipy

        kind = chosen_edge_type(self.edge_types, edge_type)
        if part is None:
            return to_scipy(rebuild.rebuild_csr(self, kind))
        part_graph.require_part(self, part)
        sources = part_graph.part_nodes(self, part, kind.source)
        first_edge_N = part_graph.first_edges(self, kind)
        return to_scipy(part_graph.part_edges(self, part, kind, sources, first_edge_N).csr)

    def to_pyg(self, part: int | None = None) -> Data | HeteroData:
        """The whole graph, or one part with its halo, as PyTorch Geometric has it."""
        from graphprep.convert.pyg import to_pyg

        return to_pyg(self.loaded(part))

    def to_networkx(self, part: int | None = None, *, limit: int | None = None) -> nx.DiGraph | nx.MultiDiGraph:
        """The whole graph, or one part with its halo, for NetworkX.

        Raises:
            UsageError: the graph has more nodes and edges than `limit` (100,000 unless given).
        """
        from graphprep.convert import networkx_graph

        most = networkx_graph.LIMIT if limit is None else limit
        if part is None:
            edges = sum(self.attributes["edge_types"].values())
            networkx_graph.require_small(sum(self.node_types.values()), edges, most)
        graph = self.loaded(part)
        edges = sum(matrix.num_edges for matrix in graph.edges.values())
        networkx_graph.require_small(sum(graph.num_nodes.values()), edges, most)
        return networkx_graph.to_networkx(graph)


def map_array(folder: Path, path: str) -> NDArray[Any]:
    """Map one array of a cache that may be unfinished, read-only.

    Raises:
        CacheError: the array or its payload is missing or has another size than its metadata says.
    """
    metadata = _metadata(folder, path)
    dtype = dtype_of(metadata)
    if metadata.get("node_type") != "array" or dtype is None:
        raise CacheError(f"{folder}: {path} is no array of a known type; run `graphprep verify`")
    shape = tuple(metadata["shape"])
    if 0 in shape:
        return np.empty(shape, dtype)
    payload = folder / payload_path(path, len(shape))
    if not payload.exists():
        if metadata["fill_value"] == 1:
            return np.broadcast_to(np.ones((), dtype), shape)
        raise CacheError(f"{payload} is missing; partition again with --replace")
    expected = math.prod(shape) * dtype.itemsize
    if payload.stat().st_size != expected:
        raise CacheError(
            f"{payload} has {payload.stat().st_size} bytes, its metadata says {expected}; "
            "partition again with --replace"
        )
    return np.memmap(payload, dtype=dtype, mode="r", shape=shape)


def block_path(part: int, edge_type: EdgeType, owner: int) -> str:
    """The group of the in-edges of a part whose sources part `owner` owns."""
    name = "local" if owner == part else f"from_{owner}"
    return f"{part_path(part)}/edges/{edge_type.key}/{name}"


def _metadata(folder: Path, path: str) -> dict[str, Any]:
    file = folder / path / ZARR_JSON
    try:
        document = json.loads(file.read_bytes())
    except OSError as error:
        if not path:
            raise CacheError(f"{folder} is not a partition cache: {ZARR_JSON} is missing") from error
        raise CacheError(f"{file} is missing; partition again with --replace") from error
    except ValueError as error:
        raise CacheError(f"{file} is damaged: {error}; partition again with --replace") from error
    if not isinstance(document, dict):
        raise CacheError(f"{file} is damaged: it holds no JSON object; partition again with --replace")
    return document


def _attributes(folder: Path, path: str) -> dict[str, Any]:
    found = _metadata(folder, path).get("attributes")
    return found if isinstance(found, dict) else {}
