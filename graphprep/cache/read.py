"""Open a cache: metadata at once, arrays as read-only memory maps at first access.

What is small is compared with its checksum in the manifest whenever it is read: all JSON, and the arrays that all parts
share. Of what is large and maps, whatever points into something else (columns, row offsets, lists of nodes) is looked
through once before it is given away, so that no kernel follows it out of bounds; all of it is compared with the
checksums where a copy is made of it (`require_unchanged`).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.format import (
    CACHE_KIND,
    KNOWN_FORMATS,
    MANIFEST,
    MANIFEST_SUM,
    RELAY_ROWS,
    X_AGGREGATED,
    ZARR_JSON,
    dtype_of,
    part_path,
    payload_path,
)
from graphprep.cache.manifest import Manifest, other_format
from graphprep.cache.quality_tables import QualityTables
from graphprep.core import csr
from graphprep.core.original_ids import OriginalIds
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, Csr, EdgeType, LoadedGraph, chosen_edge_type
from graphprep.errors import CacheError
from graphprep.system import home, progress
from graphprep.system.files.regular_file import regular_file
from graphprep.system.threads import cores, side_by_side

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.axes import Axes
    from scipy.sparse import csr_array
    from torch_geometric.data import Data, HeteroData

    from graphprep.core.fallback import Fallback


OF_THE_CACHE = re.compile(rf"global_ids|degree|{X_AGGREGATED}|(send|recv|halo_degree)_[0-9]+")
"""Arrays of a part's nodes that are not the store's own."""
GLOBAL = re.compile(r"global_ids|recv_[0-9]+")
LOCAL = re.compile(r"send_[0-9]+")
"""Arrays of numbers of nodes: in the whole graph, and in the part."""
MOST_ROWS = 2**62
"""no side of an array is longer"""
AGAIN = "partition again with --replace"


class PartitionCache:
    """A finished cache, opened for reading."""

    def __init__(self, folder: Path | str) -> None:
        """Open the cache in `folder`.

        Raises:
            CacheError: it is no cache, is unfinished or damaged, or has a format that this release does not know.
        """
        self.folder = Path(folder)
        self._checked: set[str] = set()
        self.attributes: dict[str, Any] = _attributes(_parsed(self.folder, "", _payload(self.folder, "")))
        kind, version = self.attributes.get("graphprep_kind"), self.attributes.get("graphprep_format")
        if kind == "events":
            raise CacheError(
                f"{self.folder} is an event cache, for temporal models; give a partition cache, or use `graphprep "
                "inspect`, `verify` or `train --model tgn`"
            )
        if kind != CACHE_KIND:
            found = "a graph store" if kind == "store" else "not a partition cache"
            raise CacheError(f"{self.folder} is {found}; give the folder that `graphprep partition` wrote")
        if version not in KNOWN_FORMATS:
            raise CacheError(other_format(self.folder, version))
        for name in (MANIFEST, MANIFEST_SUM):
            if not (self.folder / name).is_file():
                raise CacheError(
                    f"{self.folder} is not a finished partition cache: {name} is missing; "
                    "run `graphprep partition` again"
                )
        self.attributes = _attributes(self._metadata(""))

    def __reduce__(self) -> tuple[type[PartitionCache], tuple[Path]]:
        """Another process opens the cache by itself."""
        return PartitionCache, (self.folder.absolute(),)

    @cached_property
    def manifest(self) -> Manifest:
        """Every file with its size and checksum, as they were when the cache was opened."""
        return Manifest.read(self.folder)

    @property
    def content_sha256(self) -> str:
        """64 hex digits over all arrays and the parts' metadata, which another run need not give for the same key."""
        files = ((path, entry.sha256) for path, entry in sorted(self.manifest.files.items()) if path != ZARR_JSON)
        return hashlib.sha256("".join(f"{path}\0{sha256}\0" for path, sha256 in files).encode()).hexdigest()

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
    def quality(self) -> QualityTables:
        """The figures of the cost model, by the names of the format's page; some of them as tables too."""
        return QualityTables(
            self.attributes["quality"], lambda: (self.array("traffic_rows"), self.array("cross_edges"))
        )

    @property
    def fallback(self) -> Fallback | None:
        """The fallback of the requested methods, None where one of these made the parts."""
        from graphprep.core.fallback import Fallback

        return Fallback.from_json(self.attributes.get("fallback"))

    def check_sizes(self) -> Manifest:
        """Compare every file's size with the manifest, which is returned; quick, since nothing else is read.

        Raises:
            CacheError: a file is missing or of another size.
        """
        self.manifest.check_sizes(self.folder)
        return self.manifest

    def require_unchanged(self, prefix: str = "") -> None:
        """Read the files below `prefix` and compare them with their checksums, each once, before they are copied.

        Raises:
            CacheError: a file is missing or has changed.
        """
        paths = [path for path in self.manifest.files if path.startswith(prefix) and path not in self._checked]
        total = sum(self.manifest.files[path].size for path in paths)
        with progress.task("comparing the cache with its checksums", total=total, unit="B") as task:

            def check(path: str) -> None:
                self._require_unchanged_file(path)
                task.advance(self.manifest.files[path].size)

            side_by_side([partial(check, path) for path in paths], workers=cores())

    def _require_unchanged_file(self, path: str) -> None:
        if path not in self._checked:
            self.manifest.check_file(self.folder, path)
            self._checked.add(path)

    def aggregated(self, node_type: str) -> str:
        """How the neighbours' features of a node type are summed in `x_aggregated`: gcn, mean, or none."""
        return str(self.attributes["aggregated"].get(node_type, "none"))

    def assignment(self, node_type: str) -> NDArray[np.int32]:
        """int32 [N], the part of each node of a type, in the store's node order."""
        start = int(self.attributes["node_offsets"][node_type])
        return self.unchanged_array("assignment")[start : start + self.node_types[node_type]]

    def array(self, path: str) -> NDArray[Any]:
        """Map one array, read-only. bfloat16 has the dtype of `graphprep.core.bfloat16`, whose `to_float32` widens it.

        Raises:
            CacheError: the array or its payload is missing, or has another size than its metadata says; its metadata
                have changed; or it is one that all parts share, and has changed.
        """
        return self._mapped(path) if "/" in path else self.unchanged_array(path)

    def unchanged_array(self, path: str) -> NDArray[Any]:
        """Map one array whose content is compared with its checksum first, once.

        Raises:
            CacheError: as for `array`, or the content has changed.
        """
        found = self._mapped(path)
        if (payload := payload_path(path, found.ndim)) in self.manifest.files:
            self._require_unchanged_file(payload)
        return found

    def _mapped(self, path: str) -> NDArray[Any]:
        return _map(self.folder, path, self._metadata(path))

    def _metadata(self, path: str) -> dict[str, Any]:
        """The JSON of a group or array, as it was written."""
        name = f"{path}/{ZARR_JSON}" if path else ZARR_JSON
        content = _payload(self.folder, path)
        listed = self.manifest.files.get(name)
        if listed is None:
            raise CacheError(f"{self.folder}: {name} is not in the manifest; remove it or {AGAIN}")
        if hashlib.sha256(content).hexdigest() != listed.sha256:
            raise CacheError(f"{self.folder}: {name} has changed since it was written; {AGAIN}")
        return _parsed(self.folder, path, content)

    def has_array(self, path: str) -> bool:
        """Whether the cache has this array."""
        return f"{path}/{ZARR_JSON}" in self.manifest.files

    @property
    def has_relays(self) -> bool:
        """Whether some rows are passed on by other ranks than their owners."""
        return self.has_array(RELAY_ROWS)

    def part_sizes(self, part: int) -> dict[str, int]:
        """Nodes of each type in one part."""
        return dict(_attributes(self._metadata(part_path(part)))["nodes"])

    def node_array(self, part: int, node_type: str, name: str) -> NDArray[Any]:
        """One array of a part's nodes: global_ids, x, send_<q>, ...

        Raises:
            CacheError: as for `array`, or it names nodes that are not there.
        """
        path = f"{part_path(part)}/nodes/{node_type}/{name}"
        found = self.array(path)
        if path not in self._checked:
            if GLOBAL.fullmatch(name):
                self._require_range(path, found, self.node_types[node_type])
            elif LOCAL.fullmatch(name):
                self._require_range(path, found, self.part_sizes(part)[node_type])
            self._checked.add(path)
        return found

    def _require_range(self, path: str, numbers: NDArray[Any], end: int) -> None:
        if not csr.are_below(numbers, end):
            raise CacheError(f"{self.folder}: {path} names a node that is out of range 0 .. {end - 1}; {AGAIN}")

    @cached_property
    def _array_names(self) -> dict[str, list[str]]:
        """What lies below each group of nodes, in name order, of the cache's own and the store's."""
        names: dict[str, list[str]] = {}
        for path in sorted(self.manifest.files):
            folder, _, last = path.rpartition("/")
            group, _, name = folder.rpartition("/")
            if last == ZARR_JSON and "/nodes/" in group:
                names.setdefault(group, []).append(name)
        return names

    def node_arrays(self, part: int, node_type: str) -> tuple[str, ...]:
        """The names of the arrays that nodes of this type have in the store, and so in every part."""
        found = self._array_names.get(f"{part_path(part)}/nodes/{node_type}", ())
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
        """The names of the further arrays of edges of a type: features, times."""
        return tuple(self.attributes.get("edge_arrays", {}).get(edge_type.key, ()))

    def edge_array(self, part: int, edge_type: EdgeType, owner: int, name: str) -> NDArray[Any]:
        """One of these arrays, of the edges in `block`, in its order."""
        return self.array(f"{block_path(part, edge_type, owner)}/{name}")

    def block(self, part: int, edge_type: EdgeType, owner: int) -> Csr:
        """The in-edges of a part whose sources part `owner` owns; columns as the format's page says.

        Raises:
            CacheError: as for `array`, or row offsets or columns are out of range.
        """
        path = block_path(part, edge_type, owner)
        attributes = _attributes(self._metadata(path))
        block = Csr(
            indptr=self.array(f"{path}/indptr"),
            indices=self.array(f"{path}/indices"),
            data=self.array(f"{path}/data") if attributes["weighted"] else None,
            num_sources=int(attributes["shape"][1]),
        )
        if path not in self._checked:
            if problem := csr.range_fault(block):
                raise CacheError(f"{self.folder}: {path} is damaged: {problem}; {AGAIN}")
            self._checked.add(path)
        return block

    def loaded(self, part: int | None = None) -> LoadedGraph:
        """The whole graph in the store's order, or one part with its halo, in memory.

        The whole is compared with all checksums first, a part with those of its own files.

        Raises:
            CacheError: a file is missing or has changed.
        """
        from graphprep.cache import part_graph, rebuild

        if part is None:
            self.require_unchanged()
            return rebuild.load_whole(self)
        part_graph.require_part(self, part)
        self.require_unchanged(f"{part_path(part)}/")
        return part_graph.load_part(self, part)

    def plot_links(self, ax: Axes | None = None) -> Axes:
        """Draw the topology, each direction of each link coloured and as wide as it is slow (matplotlib axes)."""
        from graphprep.report import plots
        from graphprep.topology import Topology

        return plots.plot_links(self.quality, Topology.from_long_form(self.attributes["topology"]), ax)

    def plot_traffic(self, ax: Axes | None = None) -> Axes:
        """Draw the rows that go from rank to rank in one exchange as a heat map (matplotlib axes)."""
        from graphprep.report import plots

        return plots.plot_traffic(self.array("traffic_rows").tolist(), ax)

    def plot_parts(self, ax: Axes | None = None) -> Axes:
        """Draw the work of each rank over its share as bars (matplotlib axes)."""
        from graphprep.report import plots

        return plots.plot_parts(self.quality, ax)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from graphprep.report.notebook import cache_html

        return cache_html(self)

    def to_scipy(self, edge_type: Sequence[str] | str | None = None, *, part: int | None = None) -> csr_array:
        """The in-edges of one type as a SciPy array, rows are destinations.

        Args:
            edge_type: its key or (source, relation, destination); may be left out if there is one.
            part: the rows of one part alone; columns are its own nodes, then its halo.
        """
        from graphprep.cache import part_graph, rebuild
        from graphprep.interop.scipy_matrix import to_scipy

        kind = chosen_edge_type(self.edge_types, edge_type)
        if part is None:
            return to_scipy(rebuild.rebuild_csr(self, kind))
        part_graph.require_part(self, part)
        sources = part_graph.part_nodes(self, part, kind.source)
        first_edge_N = part_graph.first_edges(self, kind)
        return to_scipy(part_graph.part_edges(self, part, kind, sources, first_edge_N).csr)

    def to_pyg(self, part: int | None = None) -> Data | HeteroData:
        """The whole graph, or one part with its halo, as PyTorch Geometric has it."""
        from graphprep.interop.pyg import to_pyg

        return to_pyg(self.loaded(part))

    def to_networkx(self, part: int | None = None, *, limit: int | None = None) -> nx.DiGraph | nx.MultiDiGraph:
        """The whole graph, or one part with its halo, for NetworkX.

        Raises:
            UsageError: the graph has more nodes and edges than `limit` (100,000 unless given).
        """
        from graphprep.interop import networkx_graph

        most = networkx_graph.LIMIT if limit is None else limit
        if part is None:
            edges = sum(self.attributes["edge_types"].values())
            networkx_graph.require_small(sum(self.node_types.values()), edges, most)
        graph = self.loaded(part)
        edges = sum(matrix.num_edges for matrix in graph.edges.values())
        networkx_graph.require_small(sum(graph.num_nodes.values()), edges, most)
        return networkx_graph.to_networkx(graph)


def open_cache(location: str | Path | PartitionCache) -> PartitionCache:
    """A partition cache: NAME/LABEL, or a path. Arrays are mapped when they are asked for.

    Args:
        location: a cache that is open already is given back.

    Raises:
        CacheError: there is none, it is damaged, unfinished or of an unknown format, or lies at a URL.
    """
    if isinstance(location, PartitionCache):
        return location
    if not isinstance(location, str | Path):
        raise CacheError(
            f"a {type(location).__name__} is no partition cache; make one of a graph with `graphprep partition`"
        )
    if home.is_url(str(location)):
        raise CacheError(
            f"{location} is a URL, and a cache is mapped into memory; copy its folder to a local disk and open that"
        )
    return PartitionCache(home.require_cache(str(location)))


def map_array(folder: Path, path: str) -> NDArray[Any]:
    """Map one array of a cache that is being written, read-only; `PartitionCache.array` does it of a finished one.

    Raises:
        CacheError: the array or its payload is missing or has another size than its metadata says.
    """
    return _map(folder, path, _parsed(folder, path, _payload(folder, path)))


def _map(folder: Path, path: str, metadata: dict[str, Any]) -> NDArray[Any]:
    dtype = dtype_of(metadata)
    if metadata.get("node_type") != "array" or dtype is None:
        raise CacheError(f"{folder}: {path} is no array of a known type; run `graphprep verify`")
    sides = metadata.get("shape")
    if not isinstance(sides, list) or not all(type(side) is int and 0 <= side < MOST_ROWS for side in sides):
        raise CacheError(f"{folder / path / ZARR_JSON} is damaged: it claims the shape {sides!s:.100}; {AGAIN}")
    shape = tuple(sides)
    if 0 in shape:
        return np.empty(shape, dtype)
    payload = folder / payload_path(path, len(shape))
    expected = math.prod(shape) * dtype.itemsize
    try:
        size = regular_file(payload).stat().st_size
    except OSError as error:
        if isinstance(error, FileNotFoundError) and metadata.get("fill_value") == 1:
            return np.broadcast_to(np.ones((), dtype), shape)
        raise CacheError(f"{payload} {_fault(error)}; {AGAIN}") from error
    if size != expected:
        raise CacheError(f"{payload} has {size} bytes, its metadata says {expected}; {AGAIN}")
    try:
        return np.memmap(payload, dtype=dtype, mode="r", shape=shape)
    except OSError as error:
        raise CacheError(f"{payload} cannot be mapped ({error.strerror}); {AGAIN}") from error


def _fault(error: OSError) -> str:
    missing = isinstance(error, FileNotFoundError | NotADirectoryError)
    return "is missing" if missing else f"cannot be read ({error.strerror})"


def block_path(part: int, edge_type: EdgeType, owner: int) -> str:
    """The group of the in-edges of a part whose sources part `owner` owns."""
    name = "local" if owner == part else f"from_{owner}"
    return f"{part_path(part)}/edges/{edge_type.key}/{name}"


def _payload(folder: Path, path: str) -> bytes:
    """The bytes of the JSON of a group or array; `path` "" is the root."""
    file = folder / path / ZARR_JSON
    try:
        return regular_file(file).read_bytes()
    except OSError as error:
        if not path:
            raise CacheError(f"{folder} is not a partition cache: {ZARR_JSON} {_fault(error)}") from error
        raise CacheError(f"{file} {_fault(error)}; {AGAIN}") from error


def _parsed(folder: Path, path: str, content: bytes) -> dict[str, Any]:
    file = folder / path / ZARR_JSON
    try:
        document = json.loads(content)
    except ValueError as error:
        raise CacheError(f"{file} is damaged: {error}; {AGAIN}") from error
    except RecursionError as error:
        raise CacheError(f"{file} is damaged: its JSON is nested too deeply; {AGAIN}") from error
    if not isinstance(document, dict):
        raise CacheError(f"{file} is damaged: it holds no JSON object; {AGAIN}")
    return document


def _attributes(metadata: dict[str, Any]) -> dict[str, Any]:
    found = metadata.get("attributes")
    return found if isinstance(found, dict) else {}
