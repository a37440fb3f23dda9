"""Reads the arrays of one part of a cache: maps their files as tensors, and checks them once.

`torch.from_file(shared=False)` maps a file copy-on-write: nothing is read before it is used, and several processes on
one machine share the page cache. Only what training uses is mapped. What indexes something else is checked here, once,
since the sparse kernels read wherever an index points: E + N comparisons at start, in place of a crash later. So are
labels, which index classes, and the bytes of truth values, which torch takes for 0 or 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from trainer.data.cache import EDGE_WEIGHTS, ITEM_SIZES, Cache, NodeType, StoredArray
from trainer.data.csr import Csr
from trainer.data.manifest import Manifest

_TYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in ITEM_SIZES}
_BARELY_KNOWN = {torch.uint16, torch.uint32, torch.uint64}
"""Types of which torch can do little more than convert to another."""
_INDEX_TYPES = ("int32", "int64")
_LABEL_TYPES = ("bool", "float16", "float32", "float64")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeArrays:
    """The nodes of one type: k rows of this part, and those that it shares with its peers."""

    ids_k: Tensor
    """int64: the number of each row's node within its type, as are the numbers of `halo_ids`"""
    halo_ids: dict[int, Tensor]
    """Of the rows that each peer sends."""
    send_rows: dict[int, Tensor]
    """The rows that each peer needs."""


class PartArrays:
    """The arrays of one part, by what they are for. Every method raises a CacheError for a file that does not fit."""

    def __init__(self, cache: Cache, number: int) -> None:
        self.cache, self.number, self.folder = cache, number, f"parts/{number}"
        self.peers = [peer for peer in range(cache.num_parts) if peer != number]
        index_type = cache.attributes(self.folder).get("index_dtype")
        if index_type not in _INDEX_TYPES:
            raise cache.manifest.damaged(f"{self.folder}/zarr.json", f"gives the index_dtype {index_type!r}")
        self._index_type = str(index_type)

    def nodes(self, kind: NodeType) -> NodeArrays:
        """What the part has of one node type, but for features, labels and masks."""
        folder, ids_k = f"{self.folder}/nodes/{kind.name}", self._ids(kind, "global_ids")
        return NodeArrays(
            ids_k=ids_k,
            halo_ids={peer: self._ids(kind, f"recv_{peer}") for peer in self.peers},
            send_rows={
                peer: self.vector(f"{folder}/send_{peer}", (self._index_type,), len(ids_k)) for peer in self.peers
            },
        )

    def features(self, kind: NodeType, num_rows: int, name: str = "x") -> Tensor:
        """[n, F] in the cache's own type; unsigned integers of two bytes and more as float32."""
        shape = num_rows, kind.num_features
        x_nF = self.mapped(f"{self.folder}/nodes/{kind.name}/{name}", tuple(_TYPES), shape)
        return x_nF.float() if x_nF.dtype in _BARELY_KNOWN else x_nF

    def labels(self, num_rows: int) -> Tensor:
        """The labels of the `num_rows` nodes of the type that is learnt: int64 [n], or [n, C]; without any -1."""
        if not self.cache.num_classes:
            return torch.full((num_rows,), -1)
        cache, name = self.cache, f"{self.folder}/nodes/{self.cache.node_type}/y"
        if cache.task != "classes":
            y_nC = self.mapped(name, _LABEL_TYPES, (num_rows, cache.num_classes))
            return self._checked(name, y_nC) if y_nC.dtype is torch.bool else y_nC
        y_n = self.mapped(name, ("int64",), (num_rows,))
        for label in (int(y_n.min()), int(y_n.max())) if num_rows else ():
            if not -1 <= label < cache.num_classes:
                raise cache.manifest.damaged(name, f"names class {label} of {cache.num_classes}")
        return y_n

    def masks(self, num_rows: int, split: int) -> list[Tensor]:
        """Which nodes of that type are in column `split` of the masks to train, to validate and to test: bool [n]."""
        if not self.cache.num_splits:
            return [torch.zeros(num_rows, dtype=torch.bool) for _ in range(3)]
        masks = []
        for mask in ("train", "val", "test"):
            name = f"{self.folder}/nodes/{self.cache.node_type}/{mask}_mask"
            masks.append(self.truth_values(name, (num_rows, self.cache.num_splits))[:, split])
        return masks

    def degrees(self, num_rows: int) -> Tensor:
        """The weighted in-degree of each node of the type that is learnt, in the whole graph: float32 [n]."""
        return self.mapped(f"{self.folder}/nodes/{self.cache.node_type}/degree", ("float32",), (num_rows,))

    def blocks(
        self, relation: str, num_rows: int, num_columns: Mapping[int, int], edge_features: str | None = None
    ) -> dict[int, Csr]:
        """The in-edges of one relation from each rank's rows, this one's among them.

        Args:
            relation: its key.
            num_rows: destinations of this part.
            num_columns: by rank, the rows that this part has or gets of it.
            edge_features: the array that becomes the features of the edges; `EDGE_WEIGHTS` for their weights.
        """
        return {
            source: self._block(
                f"{self.folder}/edges/{relation}/{'local' if source == self.number else f'from_{source}'}",
                num_rows,
                width,
                edge_features,
            )
            for source, width in num_columns.items()
        }

    def _block(self, name: str, num_rows: int, num_columns: int, edge_features: str | None) -> Csr:
        cache, attributes = self.cache, self.cache.attributes(name)
        if (shape := attributes.get("shape")) != [num_rows, num_columns]:
            raise cache.manifest.damaged(
                f"{name}/zarr.json", f"gives the shape {shape} to a block of {num_rows} rows and {num_columns} columns"
            )
        indices = self.vector(f"{name}/indices", (self._index_type,), num_columns)
        num_edges, weights = len(indices), None
        if attributes.get("weighted", True):
            weights = self.mapped(f"{name}/data", ("float32",), (num_edges,))
        indptr = self.mapped(f"{name}/indptr", (self._index_type,), (num_rows + 1,))
        if (int(indptr[0]), int(indptr[-1])) != (0, num_edges) or bool((indptr[1:] < indptr[:-1]).any()):
            raise cache.manifest.damaged(f"{name}/indptr", f"does not run from 0 to {num_edges}")
        features = None
        if edge_features == EDGE_WEIGHTS:
            features = (torch.ones(num_edges) if weights is None else weights).unsqueeze(1)
        elif edge_features is not None:
            shape = self.cache.edge_array_shape(self.cache.relations[0].key, edge_features)
            features = self.mapped(f"{name}/{edge_features}", tuple(_TYPES), (num_edges, *shape)).float()
            features = features if features.dim() == 2 else features.unsqueeze(1)
        return Csr(indptr=indptr, indices=indices, weights=weights, num_columns=num_columns, features=features)

    def _ids(self, kind: NodeType, name: str) -> Tensor:
        """Numbers of nodes within their type: int64."""
        return self.vector(f"{self.folder}/nodes/{kind.name}/{name}", ("int64",), kind.num_nodes)

    def vector(self, name: str, data_types: tuple[str, ...], end: int) -> Tensor:
        """An array of one dimension and any length, of numbers from 0 up to below `end`."""
        values = mapped_tensor(self.cache.manifest, self.cache.array(name, data_types=data_types, dimensions=1))
        if len(values) and not (int(values.min()) >= 0 and int(values.max()) < end):
            raise self.cache.manifest.damaged(name, f"points outside 0 .. {end - 1}")
        return values

    def truth_values(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Array `name` of bools of this shape."""
        return self._checked(name, self.mapped(name, ("bool",), shape))

    def _checked(self, name: str, values: Tensor) -> Tensor:
        if values.numel() and int(values.view(torch.uint8).max()) > 1:
            raise self.cache.manifest.damaged(name, "has bytes other than 0 and 1 where truth values belong")
        return values

    def mapped(self, name: str, data_types: tuple[str, ...], shape: tuple[int, ...]) -> Tensor:
        """Array `name`, which has one of these types and this shape."""
        stored = self.cache.array(name, data_types=data_types, dimensions=len(shape))
        if stored.shape != shape:
            raise self.cache.manifest.damaged(
                f"{name}/zarr.json", f"gives the shape {list(stored.shape)}, not {list(shape)}"
            )
        return mapped_tensor(self.cache.manifest, stored)


def mapped_tensor(manifest: Manifest, stored: StoredArray) -> Tensor:
    """The file of an array as a tensor, mapped copy-on-write."""
    data_type = _TYPES[stored.data_type]
    if stored.path is None:
        return torch.empty(stored.shape, dtype=data_type)
    try:
        flat = torch.from_file(str(stored.path), shared=False, size=prod(stored.shape), dtype=data_type)
    except RuntimeError as error:
        raise manifest.damaged(stored.name, f"cannot be mapped ({error})") from error
    return flat.view(stored.shape)
