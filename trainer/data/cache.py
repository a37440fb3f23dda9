"""Opens a partition cache: reads its root, and locates and checks its arrays.

The format is that of docs/cache-format.md: every array is one raw little-endian file next to a small `zarr.json`. This
module reads JSON only, so that a wrong path or a wrong number of ranks is refused before torch has been imported.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from trainer.base.errors import CacheError, OptionError
from trainer.config.options import MODELS, TYPED_MODELS
from trainer.data.manifest import Manifest, read_unlisted_json

FORMATS = (2, 3)
"""Format 2 has no relays."""
_MASKS = ("train_mask", "val_mask", "test_mask")

EDGE_WEIGHTS = "weights"
"""The name of the edges' weights among the arrays that edges have."""
ITEM_SIZES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
}
"""Bytes per element of every data type that the trainer knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredArray:
    """The file of an array. Its size has been checked."""

    name: str
    """Path of the array inside the cache."""
    path: Path | None
    """The payload, or None where there is no element."""
    shape: tuple[int, ...]
    data_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """Nodes of one type."""

    name: str
    num_nodes: int
    num_features: int
    """0 where it has none"""
    first_id: int
    """What is added to a node's number to count the nodes of all types, type after type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationType:
    """Directed edges of one type."""

    key: str
    """`<source>__<relation>__<destination>`"""
    source: str
    destination: str
    num_edges: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """A finished cache."""

    folder: Path
    manifest: Manifest
    dataset: str
    num_parts: int
    node_types: Sequence[NodeType]
    """In name order, at least one."""
    relations: Sequence[RelationType]
    is_undirected: bool
    """Whether every edge has its reverse, of equal weight."""
    node_type: str
    """The type that is learnt, to which the three counts below belong."""
    num_features: int
    num_classes: int
    num_splits: int
    task: str
    """`classes`, `multilabel` or `none`."""
    aggregated: str
    """How the neighbours' features are summed in the cache: `gcn`, `mean`, or `none` if they are not."""
    source: Mapping[str, Any]
    """Where the graph came from, with checksums: the same in all caches of one store."""
    feature_options: tuple[Any, ...]
    """What was done to features on their way into the cache."""
    topology: Mapping[str, Any]
    """Long form: `ranks`, `switches`, `links`."""
    slowest_links: Sequence[Sequence[str]]
    """The type of the slowest link from rank p (row) to rank q (column); empty where p is q."""

    @property
    def num_nodes(self) -> int:
        """Of all types."""
        return sum(kind.num_nodes for kind in self.node_types)

    @property
    def num_edges(self) -> int:
        """Directed edges, of all types."""
        return sum(relation.num_edges for relation in self.relations)

    @property
    def target(self) -> NodeType:
        """The type that is learnt."""
        return next(kind for kind in self.node_types if kind.name == self.node_type)

    @property
    def is_plain(self) -> bool:
        """Whether there is one node type and one edge type."""
        return len(self.node_types) == 1 and len(self.relations) == 1

    def is_typed_for(self, model: str) -> bool:
        """Whether `model` distinguishes node types and relations here, and learns rows for nodes without features."""
        return model in TYPED_MODELS and not (model == "rgcn" and self.is_plain and self.num_features)

    def learns_rows_for(self, model: str) -> bool:
        """Whether `model`, which takes all nodes for one type, learns a row a node here in place of features."""
        return self.is_plain and not self.num_features and model in MODELS and not self.is_typed_for(model)

    @property
    def has_features(self) -> bool:
        """Whether parts have the features themselves, with or without sums of them."""
        return f"parts/0/nodes/{self.node_type}/x/zarr.json" in self.manifest

    @property
    def has_relays(self) -> bool:
        """Whether some rows are passed on by other ranks than their owners."""
        return "relay_batches/zarr.json" in self.manifest

    def is_weighted(self, relation: str) -> bool:
        """Whether some edge of a relation has another weight than 1, by the attributes of its blocks."""
        return any(
            self.attributes(block).get("weighted", True)
            for part in range(self.num_parts)
            for block in self._blocks(part, relation)
        )

    def has_labels(self, node_type: str) -> bool:
        """Whether the nodes of a type have classes or other labels."""
        return f"parts/0/nodes/{node_type}/y/zarr.json" in self.manifest

    def edge_arrays(self, relation: str) -> list[str]:
        """The arrays that the edges of a relation have besides weights: features, times."""
        return self._more_arrays(f"parts/0/edges/{relation}/local", {"indptr", "indices", "data"})

    def edge_array_shape(self, relation: str, name: str) -> tuple[int, ...]:
        """The shape of what each edge of a relation has in array `name`: () for a number, (D,) for several."""
        metadata_name = f"parts/0/edges/{relation}/local/{name}/zarr.json"
        shape = self.manifest.json(metadata_name).get("shape")
        if not isinstance(shape, list) or not all(isinstance(length, int) for length in shape) or not shape:
            raise self.manifest.damaged(metadata_name, f"gives the shape {shape!r}")
        return tuple(shape[1:])

    def edge_array_type(self, relation: str, name: str) -> str:
        """The type of the elements of array `name` of the edges."""
        metadata_name = f"parts/0/edges/{relation}/local/{name}/zarr.json"
        try:
            return _data_type(self.manifest.json(metadata_name))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self.manifest.damaged(metadata_name, f"does not describe an array ({error!r})") from error

    def unread_node_arrays(self, node_type: str) -> list[str]:
        """The arrays of nodes that are for other readers, such as times."""
        known = {"global_ids", "original_id", "x", "x_aggregated", "y", *_MASKS, "degree"}
        others = self._more_arrays(f"parts/0/nodes/{node_type}", known)
        return [name for name in others if not name.startswith(("send_", "recv_", "halo_degree_"))]

    def _blocks(self, part: int, relation: str) -> list[str]:
        folder = f"parts/{part}/edges/{relation}"
        peers = [f"{folder}/from_{peer}" for peer in range(self.num_parts) if peer != part]
        return [group for group in (f"{folder}/local", *peers) if f"{group}/zarr.json" in self.manifest]

    def _more_arrays(self, folder: str, known: Collection[str]) -> list[str]:
        prefix = f"{folder}/"
        inside = [name.removeprefix(prefix) for name in self.manifest.entries if name.startswith(prefix)]
        return sorted({name.split("/")[0] for name in inside if "/" in name} - set(known))

    def attributes(self, group: str) -> dict[str, Any]:
        """The attributes of group (or array) `group`."""
        return _attributes(self.manifest, f"{group}/zarr.json")

    def array(self, name: str, *, data_types: tuple[str, ...], dimensions: int) -> StoredArray:
        """Locate array `name` and check that it is what the format says.

        Args:
            name: path inside the cache.
            data_types: the types it may have.
            dimensions: how many dimensions it must have.

        Raises:
            CacheError: it is absent, of another type or layout, or its payload has another size.
        """
        return stored_array(self.manifest, name, data_types=data_types, dimensions=dimensions)


def open_cache(location: str, target: str | None = None) -> Cache:
    """Open the finished cache in the local folder `location`.

    Args:
        location: the folder.
        target: the node type to learn; None for the one that has labels.

    Raises:
        CacheError: there is none, or it is unfinished, damaged, or of another format.
        OptionError: it has no such node type, or that type has no labels; or several have, and none was chosen.
    """
    if "://" in location:
        raise CacheError(f"{location} is not a local folder; copy the cache here first, since its files are mapped")
    folder = Path(location)
    if not folder.is_dir():
        raise CacheError(f"there is no folder {folder}; give the folder of a cache that graphprep partition made")
    if not (folder / "zarr.json").is_file():
        raise CacheError(f"{folder} is not a partition cache: it has no zarr.json; graphprep partition makes caches")
    root = read_unlisted_json(folder, "zarr.json").get("attributes")
    kind = root.get("graphprep_kind") if isinstance(root, dict) else None
    if kind == "events":
        raise CacheError(f"{folder} is an event cache; give --model tgn, tgcn, gclstm or evolvegcn")
    if not isinstance(root, dict) or kind != "cache":
        reason = f"graphprep_kind is {kind!r}" if kind is not None else "no graphprep_kind"
        raise CacheError(f"{folder} is not a partition cache ({reason}); graphprep partition makes caches")
    if root.get("graphprep_format") not in FORMATS:
        raise CacheError(
            f"{folder} has cache format {root.get('graphprep_format')!r} and this trainer reads "
            f"formats {' and '.join(map(str, FORMATS))}; "
            "train with the release that wrote it, or partition again with this one"
        )
    manifest = Manifest.load(folder)
    return _opened(folder, manifest, _attributes(manifest, "zarr.json"), target)


def stored_array(manifest: Manifest, name: str, *, data_types: tuple[str, ...], dimensions: int) -> StoredArray:
    """`Cache.array` for any folder with a manifest."""
    metadata_name = f"{name}/zarr.json"
    metadata = manifest.json(metadata_name)
    try:
        shape = tuple(int(length) for length in metadata["shape"])
        data_type = _data_type(metadata)
        chunk = tuple(metadata["chunk_grid"]["configuration"]["chunk_shape"])
        plain = all(
            codec["name"] == "bytes" and codec.get("configuration", {}).get("endian", "little") == "little"
            for codec in metadata["codecs"]
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise manifest.damaged(metadata_name, f"does not describe an array ({error!r})") from error
    if data_type not in data_types or data_type not in ITEM_SIZES:
        expected = " or ".join(data_types)
        raise manifest.damaged(metadata_name, f"gives the type {data_type} where {expected} belongs")
    if len(shape) != dimensions:
        raise manifest.damaged(metadata_name, f"gives {len(shape)} dimensions where {dimensions} belong")
    if 0 in shape:
        return StoredArray(name=name, path=None, shape=shape, data_type=data_type)
    if chunk != shape or not plain:
        raise manifest.damaged(metadata_name, "describes an array that is not one plain little-endian chunk")
    payload = "/".join([name, "c", *["0"] * dimensions])
    path = manifest.sized(payload)
    size, needed = path.stat().st_size, prod(shape) * ITEM_SIZES[data_type]
    if size != needed:
        raise manifest.damaged(payload, f"has {size} bytes and {list(shape)} {data_type} needs {needed}")
    return StoredArray(name=name, path=path, shape=shape, data_type=data_type)


def _opened(folder: Path, manifest: Manifest, root: dict[str, Any], target: str | None) -> Cache:
    try:
        node_types = _node_types(root)
        classes = {kind.name: int(root["num_classes"][kind.name]) for kind in node_types}
        node_type = _target_type(folder, classes, target)
        return Cache(
            folder=folder,
            manifest=manifest,
            dataset=str(root["dataset"]),
            num_parts=int(root["num_parts"]),
            node_types=node_types,
            relations=_relations(root["edge_types"], classes),
            is_undirected=not root.get("directed", True),
            node_type=node_type,
            num_features=int(root["num_features"][node_type]),
            num_classes=classes[node_type],
            num_splits=int(root["num_splits"][node_type]),
            task=str(root["task"]),
            aggregated=str(root["aggregated"].get(node_type, "none")),
            source=dict(root["source"]),
            feature_options=tuple(root["options"].get(name) for name in ("features", "scale_features")),
            topology=dict(root["topology"]),
            slowest_links=_slowest_links(root["slowest_links"], int(root["num_parts"])),
        )
    except OptionError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise manifest.damaged("zarr.json", f"lacks an attribute or has one of the wrong form ({error!r})") from error


def _node_types(root: Mapping[str, Any]) -> list[NodeType]:
    node_types = [
        NodeType(
            name=name,
            num_nodes=int(number),
            num_features=int(root["num_features"][name]),
            first_id=int(root["node_offsets"][name]),
        )
        for name, number in dict(root["node_types"]).items()
    ]
    if not node_types:
        raise ValueError("no node type")
    return node_types


def _relations(edge_types: Mapping[str, Any], names: Collection[str]) -> list[RelationType]:
    relations = []
    for key, number in dict(edge_types).items():
        source, _, destination = key.split("__")
        if source not in names or destination not in names:
            raise ValueError(f"no node type for an end of {key}")
        relations.append(RelationType(key=key, source=source, destination=destination, num_edges=int(number)))
    return relations


def _target_type(folder: Path, classes: Mapping[str, int], target: str | None) -> str:
    """The type to learn; without any labels the first, which is refused later."""
    labelled = [name for name, number in classes.items() if number]
    if target is None:
        if len(labelled) > 1:
            raise OptionError(
                f"the node types {', '.join(labelled)} of {folder} all have labels; choose one with --target"
            )
        return (labelled or list(classes))[0]
    if target not in classes:
        raise OptionError(f"--target {target}, but {folder} has the node types {', '.join(classes)}; choose one")
    if target not in labelled:
        raise OptionError(
            f"--target {target}, but these nodes of {folder} have no labels; "
            f"{', '.join(labelled) or 'no other type'} has"
        )
    return target


def _data_type(metadata: Mapping[str, Any]) -> str:
    """What the elements of an array are; 16 bits may be those of a number that Zarr has no name for."""
    name, bits_of = str(metadata["data_type"]), dict(metadata.get("attributes") or {}).get("bits_of")
    if bits_of is None:
        return name
    if (name, bits_of) != ("uint16", "bfloat16"):
        raise ValueError(f"{name} as the bits of {bits_of}")
    return "bfloat16"


def _slowest_links(stored: Any, num_parts: int) -> list[list[str]]:
    rows = [row for row in stored if isinstance(row, list)] if isinstance(stored, list) else []
    if [len(row) for row in rows] != [num_parts] * num_parts:
        raise ValueError(f"slowest_links is not {num_parts} lists of {num_parts} words")
    return [[str(word) for word in row] for row in rows]


def _attributes(manifest: Manifest, name: str) -> dict[str, Any]:
    attributes = manifest.json(name).get("attributes")
    if not isinstance(attributes, dict):
        raise manifest.damaged(name, "has no attributes")
    return attributes
