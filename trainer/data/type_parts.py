"""One part of a cache with each node type by itself and each relation by itself, for code that keeps them apart.

`trainer.data.typed_part` has the rows of all types in one list instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trainer.data.cache import Cache, NodeType
from trainer.data.csr import Csr, indptr_of
from trainer.data.part import Part, load_part
from trainer.data.part_arrays import NodeArrays, PartArrays
from trainer.data.typed_part import load_typed_part

RelationKey = tuple[str, str, str]
"""source, relation, destination"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeParts:
    """What one rank owns, by type."""

    whole: Part
    """of all types, as the ranks compare it"""
    nodes: Mapping[str, Part]
    """by node type: numbers of nodes are within the type; without edges where there are several relations"""
    relations: Mapping[RelationKey, Part]
    """by relation: the rows of its destinations, and its edges; columns of `remote` count what a peer sends of the type
    of its sources"""


def load_type_parts(cache: Cache, number: int, *, split: int) -> TypeParts:
    """Map part `number` of `cache`, with column `split` of its masks.

    Raises:
        CacheError: a file is missing, too short, of another type, or points outside what it indexes.
    """
    if cache.is_plain:
        part = load_part(cache, number, split=split)
        [relation] = cache.relations
        return TypeParts(whole=part, nodes={cache.node_type: part}, relations={_key_of(relation.key): part})
    arrays = PartArrays(cache, number)
    nodes = {kind.name: _nodes(arrays, kind, arrays.nodes(kind), split) for kind in cache.node_types}
    relations = {}
    for relation in cache.relations:
        source, part = nodes[relation.source], nodes[relation.destination]
        widths = {number: source.num_rows} | {peer: len(ids) for peer, ids in source.halo_ids.items()}
        blocks = arrays.blocks(relation.key, part.num_rows, widths)
        degrees = (block.row_sums(torch.float64) for block in blocks.values())
        degree_n = sum(degrees, start=torch.zeros(1, dtype=torch.float64)).float()
        relations[_key_of(relation.key)] = replace(
            part, degree_n=degree_n, local=blocks.pop(number), remote=blocks, relays=None
        )
    return TypeParts(whole=load_typed_part(cache, number, split=split), nodes=nodes, relations=relations)


def _key_of(name: str) -> RelationKey:
    source, relation, destination = name.split("__")
    return source, relation, destination


def _nodes(arrays: PartArrays, kind: NodeType, nodes: NodeArrays, split: int) -> Part:
    """The rows of one node type, without edges; only the type that is learnt has labels and masks."""
    num_rows = len(nodes.ids_k)
    y, masks = torch.full((num_rows,), -1), [torch.zeros(num_rows, dtype=torch.bool)] * 3
    if kind.name == arrays.cache.node_type:
        y, masks = arrays.labels(num_rows), arrays.masks(num_rows, split)
    train_n, val_n, test_n = masks
    has_features = kind.num_features and f"{arrays.folder}/nodes/{kind.name}/x/zarr.json" in arrays.cache.manifest
    return Part(
        number=arrays.number,
        ids_n=nodes.ids_k,
        halo_ids=nodes.halo_ids,
        x_nF=arrays.features(kind, num_rows) if has_features else None,
        aggregated_nF=None,
        y=y,
        train_n=train_n,
        val_n=val_n,
        test_n=test_n,
        degree_n=torch.zeros(num_rows),
        local=_without_edges(num_rows, num_rows),
        remote={peer: _without_edges(num_rows, len(ids)) for peer, ids in nodes.halo_ids.items()},
        send_rows=nodes.send_rows,
    )


def _without_edges(num_rows: int, num_columns: int) -> Csr:
    nothing: Tensor = torch.empty(0, dtype=torch.int64)
    indptr = indptr_of(torch.zeros(num_rows, dtype=torch.int64), torch.int64)
    return Csr(indptr=indptr, indices=nothing, weights=None, num_columns=num_columns)
