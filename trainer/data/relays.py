"""Which way each row of a part's halo comes, where a cache has relays, and which rows the part passes on.

A row that several ranks of one group need is sent to one of them, its relay, which passes it on. Halo rows are counted
peer after peer, as everywhere. docs/cache-format.md describes the arrays.

Letters: P parts, S stages, H halo rows, R rows that this part sends, K rows that it passes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.data.cache import Cache
from trainer.data.part_arrays import PartArrays


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRelays:
    """The relays of one part."""

    num_stages: int
    """S, at least 2: the most hops that a row makes"""
    batch_P: Sequence[int]
    """The group of each owner: a relay passes on the rows of all owners of one group in one message."""
    owner_H: Tensor
    """int64, whose row each halo row is"""
    via_H: Tensor
    """int64, the rank from which it arrives"""
    stage_H: Tensor
    """int64, how many hops it has made then, from 1"""
    is_direct_R: Tensor
    """bool: which of the rows that peers need this part sends itself, peer after peer"""
    forwards: Mapping[tuple[int, int], Tensor]
    """By (stage from 2, target) the numbers of the halo rows that are passed on, ascending: int64."""


def load_relays(
    cache: Cache, number: int, *, halo_ids: Mapping[int, Tensor], send_rows: Mapping[int, Tensor]
) -> PartRelays | None:
    """The relays of part `number`; None where the cache has none.

    Args:
        cache, number: which part.
        halo_ids, send_rows: its rows to receive and to send, by peer in ascending order.

    Raises:
        CacheError: an array is missing, too short, of another type, or points outside what it indexes.
    """
    if not cache.has_relays:
        return None
    arrays, world, damaged = PartArrays(cache, number), cache.num_parts, cache.manifest.damaged
    counts_P = {peer: len(ids) for peer, ids in halo_ids.items()}
    folder, num_halo, num_sent = f"parts/{number}/relay", sum(counts_P.values()), sum(map(len, send_rows.values()))
    batch_P = arrays.mapped("relay_batches", ("int32",), (world,)).tolist()
    via_H = arrays.mapped(f"{folder}/via", ("int16",), (num_halo,)).long()
    stage_H = arrays.mapped(f"{folder}/stage", ("uint8",), (num_halo,)).long()
    is_direct_R = arrays.truth_values(f"{folder}/direct", (num_sent,))
    forward_K = arrays.vector(f"{folder}/forward", ("int32", "int64"), num_halo).long()
    stored = cache.array(f"{folder}/forward_counts", data_types=("int64",), dimensions=2)
    num_stages = stored.shape[0] + 1
    counts_SP = arrays.mapped(f"{folder}/forward_counts", ("int64",), (num_stages - 1, world))
    owner_H = torch.tensor(list(counts_P)).repeat_interleave(torch.tensor(list(counts_P.values())))
    if num_halo and not (int(via_H.min()) >= 0 and int(via_H.max()) < world and not bool((via_H == number).any())):
        raise damaged(f"{folder}/via", f"names a rank that is none of the other {world - 1}")
    if num_halo and not 1 <= int(stage_H.min()) <= int(stage_H.max()) <= num_stages:
        raise damaged(f"{folder}/stage", f"is not within 1 .. {num_stages}")
    if bool(((via_H == owner_H) != (stage_H == 1)).any()):
        raise damaged(f"{folder}/stage", "is 1 for other rows than those that come from their owner")
    is_counted = bool((counts_SP >= 0).all()) and int(counts_SP.sum()) == len(forward_K)
    if not is_counted or bool(counts_SP[:, number].any()):
        raise damaged(f"{folder}/forward_counts", f"does not count the {len(forward_K)} rows that are passed on")
    pieces = torch.split(forward_K, counts_SP.flatten().tolist())
    keys = [(stage, target) for stage in range(2, num_stages + 1) for target in range(world)]
    for (stage, _), rows in zip(keys, pieces, strict=True):
        if bool((stage_H[rows] != stage - 1).any()):
            raise damaged(
                f"{folder}/forward", f"names a row to pass on in stage {stage} that does not arrive before it"
            )
    return PartRelays(
        num_stages=num_stages,
        batch_P=batch_P,
        owner_H=owner_H,
        via_H=via_H,
        stage_H=stage_H,
        is_direct_R=is_direct_R,
        forwards={key: rows for key, rows in zip(keys, pieces, strict=True) if len(rows)},
    )
