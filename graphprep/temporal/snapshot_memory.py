"""An estimate of the memory that training on snapshots takes on each rank, as the trainer makes it before it starts.

Of each snapshot a rank keeps its matrices and what the backward pass needs of every row. The trainer's own estimate
knows the options of the run; this one takes its defaults, and groups as the cache has them.

Letters: T snapshots, G groups, S ranks that share one, n rows of a rank in a snapshot, F features, H the hidden width.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from graphprep.temporal.cache import EventCache
from graphprep.temporal.format import DESTINATION, INDEX_EVENT, INDEX_OFFSETS, NODE_X, SOURCE

HIDDEN, LAYERS, NEGATIVES = 64, 2, 1
"""The trainer's defaults"""
BYTES_OF_AN_ENTRY = 24
VALUES_OF_A_SCORE = 8
COPIES_OF_WEIGHTS = 10
BUFFERS_OF_A_HALO = 4
"""As the trainer counts them"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """What a model of the default width and depth keeps."""

    of_row: int
    """numbers that the backward pass needs of a row"""
    of_snapshot: int
    """and of a snapshot without rows"""
    weights: int
    matrices: int
    width: int
    """columns of the widest state"""


def model_sizes(num_features: int) -> dict[str, ModelSize]:
    """By model, those of EvolveGCN for its first variant.

    Args:
        num_features: F, of the rows that it reads.
    """
    width, squared = HIDDEN, HIDDEN * HIDDEN
    decoder = 2 * squared + 2 * width + 1
    cells = [(num_features, width)] + [(width, width)] * (LAYERS - 1)
    return {
        "tgcn": ModelSize(
            of_row=2 * num_features + (2 * LAYERS + 12) * width,
            of_snapshot=0,
            weights=num_features * width + (LAYERS + 5) * squared + 3 * width + decoder,
            matrices=1,
            width=width,
        ),
        "gclstm": ModelSize(
            of_row=2 * num_features + (15 + 3 * LAYERS) * width,
            of_snapshot=0,
            weights=4 * (num_features + 1) * width + 5 * (LAYERS + 1) * squared + decoder,
            matrices=2,
            width=2 * width,
        ),
        "evolvegcn": ModelSize(
            of_row=sum(2 * width_in + width_out for width_in, width_out in cells),
            of_snapshot=sum(16 * width_in * width_out for width_in, width_out in cells),
            weights=sum(5 * width_in * width_out + 8 * width_in**2 for width_in, width_out in cells) + decoder,
            matrices=1,
            width=2 * width,
        ),
    }


def memory_by_rank(cache: EventCache) -> dict[str, list[int]] | None:
    """Bytes of each rank by the model; None where the cache has no snapshots."""
    offsets_T, group_T = cache.snapshot_offsets, cache.snapshot_group
    if offsets_T is None or group_T is None:
        return None
    number = cache.ranks_per_group
    num_groups = cache.num_parts // number
    member_of_N = np.zeros(cache.num_nodes, np.int64) if cache.member_of is None else np.asarray(cache.member_of)
    rows_TS = _rows(cache, offsets_T, member_of_N, number)
    sources_TS, destinations_TS = (
        _ends(cache.arrays[name], offsets_T, member_of_N, number) for name in (SOURCE, DESTINATION)
    )
    ends_TS = sources_TS + destinations_TS
    halo_TS = np.minimum(ends_TS, rows_TS.sum(axis=1, keepdims=True) - rows_TS)
    num_steps = max(int((offsets_T[:-1] < cache.split[0]).sum()) - 1, 0)
    borders = np.minimum(np.searchsorted(group_T, np.arange(num_groups + 1)), num_steps).tolist()
    num_features = cache.arrays[NODE_X].shape[1] if cache.has(NODE_X) else HIDDEN + 1
    num_learnt = 0 if cache.has(NODE_X) else cache.num_nodes * HIDDEN
    found: dict[str, list[int]] = {}
    for model, size in model_sizes(num_features).items():
        found[model] = []
        for begin, end in pairwise(borders):
            for member in range(number):
                rows = int(rows_TS[begin:end, member].sum())
                scores = int(sources_TS[begin + 1 : end + 1, member].max(initial=0)) * (1 + NEGATIVES)
                values = rows * size.of_row + (end - begin) * size.of_snapshot
                values += VALUES_OF_A_SCORE * HIDDEN * scores + COPIES_OF_WEIGHTS * (size.weights + num_learnt)
                if number > 1:
                    values += BUFFERS_OF_A_HALO * size.width * int(halo_TS[begin:end, member].max(initial=0))
                entries = rows + int(ends_TS[begin:end, member].sum())
                found[model].append(4 * values + entries * size.matrices * BYTES_OF_AN_ENTRY)
    return found


def _rows(
    cache: EventCache, offsets_T: NDArray[np.int64], member_of_N: NDArray[np.integer], number: int
) -> NDArray[np.int64]:
    """The nodes of each member that have occurred by the end of each snapshot; int64 [T, S]."""
    offsets_N = cache.arrays[INDEX_OFFSETS]
    has_events = offsets_N[1:] > offsets_N[:-1]
    first_event = np.asarray(cache.arrays[INDEX_EVENT][offsets_N[:-1][has_events]])
    window = np.searchsorted(offsets_T, first_event, side="right") - 1
    place = window * number + member_of_N[has_events]
    num_snapshots = len(offsets_T) - 1
    new_TS = np.bincount(place, minlength=num_snapshots * number).reshape(num_snapshots, number)
    rows_TS: NDArray[np.int64] = new_TS.cumsum(axis=0)
    return rows_TS


def _ends(
    nodes_M: NDArray[np.int64], offsets_T: NDArray[np.int64], member_of_N: NDArray[np.integer], number: int
) -> NDArray[np.int64]:
    """Of one end of all events, how many are nodes of each member in each snapshot; int64 [T, S]."""
    return np.stack(
        [np.bincount(member_of_N[nodes_M[begin:end]], minlength=number) for begin, end in pairwise(offsets_T.tolist())]
    )
