"""Open a cache: metadata at once, arrays as read-only memory maps when they are asked for."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.format import (
    CACHE_FORMAT,
    CACHE_KIND,
    DATA_TYPES,
    MANIFEST,
    MANIFEST_SUM,
    ZARR_JSON,
    part_path,
    payload_path,
)
from graphprep.cache.manifest import other_format
from graphprep.errors import CacheError
from graphprep.graph import Csr, EdgeType


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
    def quality(self) -> dict[str, Any]:
        """The figures of the cost model, by the names of the format's page."""
        return dict(self.attributes["quality"])

    def assignment(self, node_type: str) -> NDArray[np.int32]:
        """int32 [N], the part of each node of a type, in the store's node order."""
        start = int(self.attributes["node_offsets"][node_type])
        return self.array("assignment")[start : start + self.node_types[node_type]]

    def array(self, path: str) -> NDArray[Any]:
        """Map one array, read-only.

        Raises:
            CacheError: the array or its payload is missing or has another size than its metadata says.
        """
        metadata = _metadata(self.folder, path)
        if metadata.get("node_type") != "array" or metadata.get("data_type") not in DATA_TYPES:
            raise CacheError(f"{self.folder}: {path} is no array of a known type; run `graphprep verify`")
        shape = tuple(metadata["shape"])
        dtype = np.dtype(metadata["data_type"]).newbyteorder("<")
        if 0 in shape:
            return np.empty(shape, dtype)
        payload = self.folder / payload_path(path, len(shape))
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

    def has_array(self, path: str) -> bool:
        """Whether the cache has this array."""
        return (self.folder / path / ZARR_JSON).is_file()

    def part_sizes(self, part: int) -> dict[str, int]:
        """Nodes of each type in one part."""
        return dict(_attributes(self.folder, part_path(part))["nodes"])

    def node_array(self, part: int, node_type: str, name: str) -> NDArray[Any]:
        """One array of a part's nodes: global_ids, x, send_<q>, ..."""
        return self.array(f"{part_path(part)}/nodes/{node_type}/{name}")

    def block(self, part: int, edge_type: EdgeType, owner: int) -> Csr:
        """The in-edges of a part whose sources part `owner` owns; columns as the format's page says."""
        name = "local" if owner == part else f"from_{owner}"
        path = f"{part_path(part)}/edges/{edge_type.key}/{name}"
        attributes = _attributes(self.folder, path)
        return Csr(
            indptr=self.array(f"{path}/indptr"),
            indices=self.array(f"{path}/indices"),
            data=self.array(f"{path}/data") if attributes["weighted"] else None,
            num_sources=int(attributes["shape"][1]),
        )


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
