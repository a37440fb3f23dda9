"""The legs of a row's way as the kernels of refinement read them: which links each crosses, with relays or without.

Without relays a rank sends a row to each rank that needs it. With relays it crosses into each group of ranks once, and
is passed on inside it. Which rank of the group passes it on is decided when the parts are final
(`graphprep.traffic`), so here the ranks of a group share that work evenly: a leg into a group crosses the links of the
routes to all its ranks, each with a part of its rows; a leg inside a group those between its subgroups.

Letters: P ranks, D link directions, G depths of groups below the one of all ranks, L = P + G columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from graphprep.partition.methods.rank_groups import RankGroup, levels, ranks_in
from graphprep.partition.refine.refine_kernels import Links
from graphprep.traffic import LinkModel


def links_of(model: LinkModel, row_bytes: int, groups: RankGroup | None = None) -> Links:
    """A topology's legs as the kernels read them, without loads.

    Args:
        model: of the topology.
        row_bytes: bytes of one row.
        groups: all ranks in nested groups that rows are passed on in; None for a row to each rank that needs it.
    """
    num_ranks, num_directions = model.num_ranks, len(model.bytes_per_s_D)
    depth = 0 if groups is None else max(levels(groups) - 1, 0)
    depth_PP = np.zeros((num_ranks, num_ranks), np.int64)
    enter_PP = np.tile(np.arange(num_ranks), (num_ranks, 1))
    first_PG = np.tile(np.arange(num_ranks)[:, None], depth)
    pairs = sparse.csr_array(model.crossed.T, dtype=np.float64)
    legs: dict[int, sparse.csr_array] = {}
    num_columns = num_ranks + depth
    if depth and groups is not None:
        _number(groups, 0, depth_PP, enter_PP, first_PG)
        for p in range(num_ranks):
            for column in np.unique(enter_PP[p]):
                ends = np.flatnonzero(enter_PP[p] == column)
                if p not in ends:
                    legs[p * num_columns + int(column)] = _mean(pairs, p * num_ranks + ends)
        for d in range(depth):
            for first in np.unique(first_PG[:, d]):
                members = np.flatnonzero(first_PG[:, d] == first)
                a, b = (ends.ravel() for ends in np.meshgrid(members, members, indexing="ij"))
                apart = depth_PP[a, b] == d + 1
                if apart.any():
                    legs[int(first) * num_columns + num_ranks + d] = _mean(pairs, (a * num_ranks + b)[apart])
        shape = (num_ranks * num_columns, num_directions)
        route = sparse.vstack([legs.get(leg, sparse.csr_array((1, num_directions))) for leg in range(shape[0])])
    else:
        route = pairs
    route = sparse.csr_array(route)
    route.sort_indices()
    return Links(
        route_ptr=route.indptr.astype(np.int64),
        route=route.indices.astype(np.int32),
        share=route.data.astype(np.float64),
        second_D=row_bytes / model.bytes_per_s_D,
        latency_D=model.seconds_a_message_D.copy(),
        rows_PL=np.zeros((num_ranks, num_columns), np.int64),
        load_D=np.zeros(num_directions),
        price_PL=np.zeros((num_ranks, num_columns)),
        scale=np.array([1.0, 0.0, 0.0]),
        total=np.zeros(1, np.int64),
        depth_PP=depth_PP,
        enter_PP=enter_PP,
        first_PG=first_PG,
    )


def _number(
    group: RankGroup,
    depth: int,
    depth_PP: NDArray[np.int64],
    enter_PP: NDArray[np.int64],
    first_PG: NDArray[np.int64],
) -> None:
    """Fill in depths, columns and first ranks of a group at `depth` and of all inside it."""
    if isinstance(group, int):
        return
    members = ranks_in(group)
    depth_PP[np.ix_(members, members)] = depth
    if depth:
        first_PG[members, depth - 1] = members[0]
    for part in group:
        inside = ranks_in(part)
        outside = np.setdiff1d(members, inside)
        enter_PP[np.ix_(outside, inside)] = inside[0]
        _number(part, depth + 1, depth_PP, enter_PP, first_PG)
    np.fill_diagonal(depth_PP, 0)


def _mean(pairs: sparse.csr_array, chosen: NDArray[np.int64]) -> sparse.csr_array:
    """The links that rows cross which are shared out evenly among some pairs of ranks: [1, D]."""
    return sparse.csr_array(pairs[chosen].sum(axis=0)[None] / len(chosen))
