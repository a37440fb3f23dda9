"""One part of a cache with its node types and relations distinguished: see `trainer.data.typed`."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import torch
from torch import Tensor

from trainer.data.cache import Cache, RelationType
from trainer.data.csr import Csr, indptr_of, vstack
from trainer.data.part import Part
from trainer.data.part_arrays import PartArrays
from trainer.data.relays import load_relays
from trainer.data.typed import RelationSums, Typed, TypeRows


def load_typed_part(cache: Cache, number: int, *, split: int) -> Part:
    """Map part `number` of `cache`, with column `split` of its masks, and put the rows of its types into one list.

    Raises:
        CacheError: a file is missing, too short, of another type, or points outside what it indexes.
    """
    arrays, kinds = PartArrays(cache, number), {kind.name: kind for kind in cache.node_types}
    nodes = {name: arrays.nodes(kind) for name, kind in kinds.items()}
    rows = _stretches({name: len(one.ids_k) for name, one in nodes.items()})
    columns = {number: rows}
    for peer in arrays.peers:
        columns[peer] = _stretches({name: len(one.halo_ids[peer]) for name, one in nodes.items()})
    stacks, relations = {source: list[Csr]() for source in columns}, []
    for relation in cache.relations:
        rows_m, blocks = _relation(arrays, relation, rows[relation.destination], columns)
        relations.append(RelationSums(name=relation.key, rows_m=rows_m))
        for source, block in blocks.items():
            stacks[source].append(block)
    blocks = {source: vstack(stack, _total(columns[source])) for source, stack in stacks.items()}
    degrees = (block.row_sums(torch.float64) for block in blocks.values())
    types = [
        TypeRows(
            name=name,
            rows=rows[name],
            first_id=kind.first_id,
            num_nodes=kind.num_nodes,
            x_kF=arrays.features(kind, _length(rows[name])) if kind.num_features else None,
        )
        for name, kind in kinds.items()
    ]
    target = next(one for one in types if one.name == cache.node_type)
    num_rows, y = _total(rows), arrays.labels(_length(target.rows))
    unknown = torch.full((num_rows,), -1) if y.dim() == 1 else torch.full((num_rows, y.shape[1]), float("nan"))
    train_n, val_n, test_n = (
        _placed(mask, torch.zeros(num_rows, dtype=torch.bool), target)
        for mask in arrays.masks(_length(target.rows), split)
    )
    halo = {
        peer: torch.cat([one.halo_ids[peer] + kinds[name].first_id for name, one in nodes.items()])
        for peer in arrays.peers
    }
    send_rows = {
        peer: torch.cat([one.send_rows[peer] + rows[name].start for name, one in nodes.items()])
        for peer in arrays.peers
    }
    return Part(
        number=number,
        ids_n=torch.cat([one.ids_k + kinds[name].first_id for name, one in nodes.items()]),
        halo_ids=halo,
        x_nF=None,
        aggregated_nF=None,
        y=_placed(y, unknown, target),
        train_n=train_n,
        val_n=val_n,
        test_n=test_n,
        degree_n=sum(degrees, start=torch.zeros(1, dtype=torch.float64)).float(),
        local=blocks.pop(number),
        remote=blocks,
        send_rows=send_rows,
        relays=load_relays(cache, number, halo_ids=halo, send_rows=send_rows),
        typed=Typed(types=types, relations=relations, target=target),
    )


def _stretches(counts: Mapping[str, int]) -> dict[str, slice]:
    """Which of the rows of all types are each type's, type after type."""
    ends = accumulate(counts.values())
    return {name: slice(end - count, end) for (name, count), end in zip(counts.items(), ends, strict=True)}


def _length(stretch: slice) -> int:
    length: int = stretch.stop - stretch.start
    return length


def _total(stretches: Mapping[str, slice]) -> int:
    return sum(map(_length, stretches.values()))


def _relation(
    arrays: PartArrays, relation: RelationType, rows: slice, columns: Mapping[int, Mapping[str, slice]]
) -> tuple[Tensor, dict[int, Csr]]:
    """The in-edges of one relation, without the rows that have none, and with columns of all types.

    Args:
        arrays: of the part.
        relation: which one.
        rows: of its destinations, among those of all types.
        columns: by rank, the columns of each type's rows.

    Returns:
        the row that each row of the matrices is for, and the matrices by rank.
    """
    num_columns = {rank: _length(of[relation.source]) for rank, of in columns.items()}
    blocks = arrays.blocks(relation.key, _length(rows), num_columns)
    has_edges_k = torch.stack([block.indptr.diff() for block in blocks.values()]).sum(0) > 0
    local_m = has_edges_k.nonzero().squeeze(1)
    return local_m + rows.start, {
        rank: Csr(
            indptr=indptr_of(block.indptr.diff()[local_m], torch.int64),
            indices=block.indices.long() + columns[rank][relation.source].start,
            weights=block.weights,
            num_columns=_total(columns[rank]),
        )
        for rank, block in blocks.items()
    }


def _placed(values: Tensor, everywhere: Tensor, target: TypeRows) -> Tensor:
    """Values of the target's rows among those of all types, which are `everywhere` elsewhere."""
    everywhere[target.rows] = values.to(everywhere.dtype)
    return everywhere
