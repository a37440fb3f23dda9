"""One part of a cache, as tensors that map its files.

`torch.from_file(shared=False)` maps a file copy-on-write: nothing is read before it is used, and several processes on
one machine share the page cache. Only what training uses is mapped. What indexes something else is checked here, once,
since the sparse kernels read wherever an index points: E + N comparisons at start, in place of a crash later. So are
labels, which index classes, and the bytes of truth values, which torch takes for 0 or 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from trainer.data.cache import Cache, StoredArray
from trainer.data.typed import Typed

_TYPES = {
    "bool": torch.bool,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint8": torch.uint8,
    "uint16": torch.uint16,
    "uint32": torch.uint32,
    "uint64": torch.uint64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}
_BARELY_KNOWN = {torch.uint16, torch.uint32, torch.uint64}
"""Types of which torch can do little more than make another."""
_INDEX_TYPES = ("int32", "int64")
_LABEL_TYPES = ("bool", "float16", "float32", "float64")


@dataclass(frozen=True, slots=True, kw_only=True)
class Csr:
    """A sparse matrix by rows; in the cache, rows are destinations and columns are sources of in-edges."""

    indptr: Tensor
    """int32 or int64 [rows + 1]"""
    indices: Tensor
    """[E], the type of `indptr`"""
    weights: Tensor | None
    """float32 [E]; None where every edge weighs 1"""
    num_columns: int

    @property
    def num_rows(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        return len(self.indices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one rank owns: n rows of the graph, their in-edges, and which rows it shares with whom."""

    number: int
    ids_n: Tensor
    """int64 [n]: the number of each row's node in the whole graph"""
    halo_ids: dict[int, Tensor]
    """int64 [V[q,p]] for each peer q: the same of the rows that q sends"""
    x_nF: Tensor | None
    """[n, F] in the cache's own type; None where the cache has sums of features alone"""
    aggregated_nF: Tensor | None
    """[n, F]: sums over neighbours, by the rule that the cache names; None where it has none"""
    y: Tensor
    """int64 [n], -1 where unlabelled; or of several labels a node bool or float [n, C], NaN where unknown"""
    train_n: Tensor
    """bool [n], as are the two below: the rows of this split"""
    val_n: Tensor
    test_n: Tensor
    degree_n: Tensor
    """float32 [n], or as many as `local` has rows: weighted in-degree in the whole graph, of the dataset's own edges"""
    local: Csr
    """Edges between rows of this part; a row a node, or where relations are told apart a row a sum."""
    remote: dict[int, Csr]
    """Edges from each peer's rows; columns count the rows that the peer sends."""
    send_rows: dict[int, Tensor]
    """[V[p,q]] for each peer q: the local rows that q needs, ascending"""
    typed: Typed | None = None
    """Node types and relations, where they are told apart."""

    @property
    def target(self) -> slice:
        """The rows of the type that is learnt."""
        return slice(0, self.num_rows) if self.typed is None else self.typed.target.rows

    @property
    def target_ids(self) -> Tensor:
        """The number of each of their nodes among those of its type: int64."""
        ids_k = self.ids_n[self.target]
        return ids_k if self.typed is None else ids_k - self.typed.target.first_id

    @property
    def num_rows(self) -> int:
        return len(self.ids_n)

    def halo_rows(self, peer: int) -> int:
        """How many rows `peer` sends to this part."""
        return self.remote[peer].num_columns


def halo_ids(part: Part) -> Tensor:
    """The number of each halo row's node in the whole graph, peer after peer: int64 [H]."""
    return torch.cat([torch.empty(0, dtype=torch.int64), *part.halo_ids.values()])


def load_part(cache: Cache, number: int, *, split: int) -> Part:
    """Map part `number` of `cache`, with column `split` of its masks.

    Raises:
        CacheError: a file is missing, too short, of another type, or points outside what it indexes.
    """
    folder = f"parts/{number}"
    index_type = index_type_of(cache, folder)
    nodes = f"{folder}/nodes/{cache.node_type}"
    [relation] = cache.relations
    edges = f"{folder}/edges/{relation.key}"

    def mask(name: str) -> Tensor:
        return read_mask(cache, f"{nodes}/{name}", num_rows, split)

    def features(name: str) -> Tensor:
        return read_features(cache, f"{nodes}/{name}", num_rows, cache.num_features)

    def halo(name: str, count: int) -> Tensor:
        return _in_range(cache, name, mapped(cache, name, ("int64",), (count,)), cache.target.num_nodes)

    ids = cache.array(f"{nodes}/global_ids", data_types=("int64",), dimensions=1)
    [num_rows] = ids.shape
    peers = [peer for peer in range(cache.num_parts) if peer != number]
    remote = {peer: read_csr(cache, f"{edges}/from_{peer}", index_type, num_rows, None) for peer in peers}
    return Part(
        number=number,
        ids_n=_in_range(cache, ids.name, map_array(cache, ids), cache.target.num_nodes),
        halo_ids={peer: halo(f"{nodes}/recv_{peer}", block.num_columns) for peer, block in remote.items()},
        x_nF=features("x") if cache.has_features else None,
        aggregated_nF=features("x_aggregated") if cache.aggregated != "none" else None,
        y=read_labels(cache, f"{nodes}/y", num_rows),
        train_n=mask("train_mask"),
        val_n=mask("val_mask"),
        test_n=mask("test_mask"),
        degree_n=mapped(cache, f"{nodes}/degree", ("float32",), (num_rows,)),
        local=read_csr(cache, f"{edges}/local", index_type, num_rows, num_rows),
        remote=remote,
        send_rows={peer: read_send_rows(cache, f"{nodes}/send_{peer}", index_type, num_rows) for peer in peers},
    )


def index_type_of(cache: Cache, folder: str) -> str:
    """The type of all indices of the part in `folder`: `int32` or `int64`."""
    index_type = cache.attributes(folder).get("index_dtype")
    if index_type not in _INDEX_TYPES:
        raise cache.manifest.damaged(f"{folder}/zarr.json", f"gives the index_dtype {index_type!r}")
    return str(index_type)


def read_features(cache: Cache, name: str, num_rows: int, num_features: int) -> Tensor:
    """The features of `num_rows` nodes, in the cache's own type; unsigned integers of two bytes and more as float32."""
    x_nF = mapped(cache, name, tuple(_TYPES), (num_rows, num_features))
    return x_nF.float() if x_nF.dtype in _BARELY_KNOWN else x_nF


def read_labels(cache: Cache, name: str, num_rows: int) -> Tensor:
    """The labels of `num_rows` nodes of the type that is learnt."""
    if cache.task != "classes":
        y_nC = mapped(cache, name, _LABEL_TYPES, (num_rows, cache.num_classes))
        return _truth_values(cache, name, y_nC) if y_nC.dtype is torch.bool else y_nC
    y_n = mapped(cache, name, ("int64",), (num_rows,))
    for label in (int(y_n.min()), int(y_n.max())) if num_rows else ():
        if not -1 <= label < cache.num_classes:
            raise cache.manifest.damaged(name, f"names class {label} of {cache.num_classes}")
    return y_n


def read_mask(cache: Cache, name: str, num_rows: int, split: int) -> Tensor:
    """Which of `num_rows` nodes are in column `split` of a mask: bool."""
    return _truth_values(cache, name, mapped(cache, name, ("bool",), (num_rows, cache.num_splits)))[:, split]


def read_ids(cache: Cache, name: str, num_nodes: int) -> Tensor:
    """Numbers of nodes, of `num_nodes` in the whole graph: int64."""
    return _in_range(cache, name, map_array(cache, cache.array(name, data_types=("int64",), dimensions=1)), num_nodes)


def read_csr(cache: Cache, name: str, index_type: str, num_rows: int, num_columns: int | None) -> Csr:
    """A block of edges; any number of columns suits None."""
    attributes = cache.attributes(name)
    shape = attributes.get("shape")
    if not isinstance(shape, list) or len(shape) != 2 or shape[0] != num_rows or num_columns not in (None, shape[1]):
        raise cache.manifest.damaged(f"{name}/zarr.json", f"gives the shape {shape} to a block of {num_rows} rows")
    indices = cache.array(f"{name}/indices", data_types=(index_type,), dimensions=1)
    [num_edges] = indices.shape
    weights = None
    if attributes.get("weighted", True):
        weights = mapped(cache, f"{name}/data", ("float32",), (num_edges,))
    block = Csr(
        indptr=mapped(cache, f"{name}/indptr", (index_type,), (num_rows + 1,)),
        indices=map_array(cache, indices),
        weights=weights,
        num_columns=int(shape[1]),
    )
    ends = int(block.indptr[0]), int(block.indptr[-1])
    if ends != (0, num_edges) or bool((block.indptr[1:] < block.indptr[:-1]).any()):
        raise cache.manifest.damaged(f"{name}/indptr", f"does not run from 0 to {num_edges}")
    _check_range(cache, f"{name}/indices", block.indices, block.num_columns)
    return block


def read_send_rows(cache: Cache, name: str, index_type: str, num_rows: int) -> Tensor:
    """Which of `num_rows` rows a peer needs."""
    rows = map_array(cache, cache.array(name, data_types=(index_type,), dimensions=1))
    _check_range(cache, name, rows, num_rows)
    return rows


def _in_range(cache: Cache, name: str, indices: Tensor, end: int) -> Tensor:
    _check_range(cache, name, indices, end)
    return indices


def _truth_values(cache: Cache, name: str, values: Tensor) -> Tensor:
    if values.numel() and int(values.view(torch.uint8).max()) > 1:
        raise cache.manifest.damaged(name, "holds bytes other than 0 and 1 where truth values belong")
    return values


def _check_range(cache: Cache, name: str, indices: Tensor, end: int) -> None:
    if len(indices) and not (int(indices.min()) >= 0 and int(indices.max()) < end):
        raise cache.manifest.damaged(name, f"points outside 0 .. {end - 1}")


def mapped(cache: Cache, name: str, data_types: tuple[str, ...], shape: tuple[int, ...]) -> Tensor:
    """Array `name`, which has one of these types and this shape."""
    stored = cache.array(name, data_types=data_types, dimensions=len(shape))
    if stored.shape != shape:
        raise cache.manifest.damaged(f"{name}/zarr.json", f"gives the shape {list(stored.shape)}, not {list(shape)}")
    return map_array(cache, stored)


def map_array(cache: Cache, stored: StoredArray) -> Tensor:
    """The content of an array that was located."""
    data_type = _TYPES[stored.data_type]
    if stored.path is None:
        return torch.empty(stored.shape, dtype=data_type)
    try:
        flat = torch.from_file(str(stored.path), shared=False, size=prod(stored.shape), dtype=data_type)
    except RuntimeError as error:
        raise cache.manifest.damaged(stored.name, f"cannot be mapped ({error})") from error
    return flat.view(stored.shape)
