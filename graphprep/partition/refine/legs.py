"""The legs of a row's way as the kernels of refinement read them: which links each crosses, with relays or without.

Without relays a rank sends a row to each rank that needs it. With relays it crosses into each group of ranks once, and
is passed on inside it. Which rank of the group passes it on is decided when the parts are final (`graphprep.traffic`),
so here the ranks of a group share that work evenly. A leg into a group crosses the links of the routes to its ranks,
each with a part of its rows and a message to each; a leg inside a group crosses those between its subgroups.

Letters: P ranks, D link directions, G depths of groups below the one of all ranks, L = P + G columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from graphprep.core.types import Csr
from graphprep.partition.refine import refine_kernels as kernels
from graphprep.partition.refine.refine_kernels import Links
from graphprep.topology.groups import group_levels
from graphprep.topology.rank_groups import RankGroup
from graphprep.traffic import LinkModel
from graphprep.traffic.counts_streamed import WORD_BITS, mark_rows
from graphprep.traffic.links import SECONDS_A_RELAYED_MESSAGE, SECONDS_A_STAGE


def links_of(model: LinkModel, row_bytes: float, groups: RankGroup | None = None) -> Links:
    """A topology's legs as the kernels read them, without loads.

    Args:
        model: of the topology.
        row_bytes: bytes of one row.
        groups: all ranks in nested groups that rows are passed on in; None for a row to each rank that needs it.
    """
    num_ranks, num_directions = model.num_ranks, len(model.bytes_per_s_D)
    level_GP = np.zeros((0, num_ranks), np.int32) if groups is None else group_levels(groups)
    num_columns = num_ranks + len(level_GP)
    together_GPP = level_GP[:, :, None] == level_GP[:, None, :]
    depth_PP = together_GPP.sum(axis=0)
    first_PG = together_GPP.argmax(axis=2).T
    with_ranks = np.column_stack([first_PG, np.arange(num_ranks)])
    enter_PP = with_ranks[np.arange(num_ranks), np.minimum(depth_PP, len(level_GP))]
    np.fill_diagonal(depth_PP, 0)
    np.fill_diagonal(enter_PP, np.arange(num_ranks))
    sizes = level_GP.max(axis=1, initial=-1) + 1
    group_PG = (level_GP + (np.cumsum(sizes) - sizes)[:, None]).T.astype(np.int64)
    num_groups = int(sizes.sum())
    group_bits_PW = np.zeros((num_ranks, -(-num_groups // kernels.WORD)), np.uint64)
    for group_P in group_PG.T:
        bit_P = np.left_shift(np.uint64(1), (group_P % kernels.WORD).astype(np.uint64))
        group_bits_PW[np.arange(num_ranks), group_P // kernels.WORD] |= bit_P
    pairs = sparse.csr_array(model.crossed.T).astype(np.float64)
    leg_of_pair, pair, weight = [], [], []
    pairs_L = np.zeros(num_ranks * num_columns)
    p, q = (ends.ravel() for ends in np.indices((num_ranks, num_ranks)))
    ways = [(p * num_columns + enter_PP[p, q], p != q)]
    ways += [
        (first_PG[p, d] * num_columns + num_ranks + d, (depth_PP[p, q] == d + 1) & (p != q))
        for d in range(len(level_GP))
    ]
    for leg, chosen in ways:
        _, number, count = np.unique(leg[chosen], return_inverse=True, return_counts=True)
        pairs_L += np.bincount(leg[chosen], minlength=len(pairs_L))
        leg_of_pair.append(leg[chosen])
        pair.append(np.flatnonzero(chosen))
        weight.append(1 / count[number])
    shape = (num_ranks * num_columns, num_ranks**2)
    entries = (np.concatenate(leg_of_pair), np.concatenate(pair))
    route = sparse.csr_array(sparse.csr_array((np.concatenate(weight), entries), shape=shape) @ pairs)
    route.sort_indices()
    return Links(
        route_ptr=route.indptr.astype(np.int64),
        route=route.indices.astype(np.int32),
        share=route.data.astype(np.float64),
        pairs=pairs_L,
        second_D=row_bytes / model.bytes_per_s_D,
        latency_D=model.seconds_a_message_D.copy(),
        rows_PL=np.zeros((num_ranks, num_columns), np.int64),
        load_D=np.zeros(num_directions),
        price_PL=np.zeros((num_ranks, num_columns)),
        scale=np.array([1.0, 0.0, 0.0]),
        total=np.zeros(1, np.int64),
        depth_PP=depth_PP.astype(np.int64),
        enter_PP=enter_PP.astype(np.int64),
        first_PG=np.ascontiguousarray(first_PG, np.int64),
        group_PG=np.ascontiguousarray(group_PG),
        group_bits_PW=group_bits_PW,
        enter_PK=np.zeros((num_ranks, num_groups)),
        last_PP=np.zeros((num_ranks, num_ranks)),
        first_leg_PP=np.zeros((num_ranks, num_ranks)),
    )


def relayed_seconds(matrix: Csr, part_N: NDArray[np.int32], links: Links) -> float:
    """About what one exchange with relays takes: the slowest link direction of each stage, and passing messages on.

    Args:
        matrix: in-edges, N x N.
        part_N: int32 [N], the part of each node.
        links: with groups; their loads are overwritten.
    """
    num_ranks, depths = links.first_PG.shape
    bits_NW = np.zeros((-(-num_ranks // WORD_BITS), len(part_N)), np.uint64)
    for word, bits_N in enumerate(bits_NW):
        mark_rows(matrix.indptr, matrix.indices, part_N, part_N, word * WORD_BITS, bits_N, np.zeros((0, 0), np.int64))
    kernels.clear_loads(links)
    _add_legs_of_nodes(bits_NW, part_N, links)
    num_legs = links.rows_PL.size
    crossed = sparse.csr_array((links.share, links.route, links.route_ptr), shape=(num_legs, len(links.second_D)))
    seconds = 0.0
    for columns in (slice(0, num_ranks), *(slice(num_ranks + d, num_ranks + d + 1) for d in range(depths))):
        rows_PL = np.zeros_like(links.rows_PL)
        rows_PL[:, columns] = links.rows_PL[:, columns]
        messages_L = links.pairs * (rows_PL > 0).ravel()
        load_D = crossed.T @ rows_PL.ravel() * links.second_D + crossed.T @ messages_L * links.latency_D
        seconds += float(load_D.max(initial=0.0))
    sizes = np.bincount(links.first_PG[:, 0])
    messages = int(np.count_nonzero(sizes) - 1) * int(sizes.max() - 1)
    return seconds + int(depths) * SECONDS_A_STAGE + messages * SECONDS_A_RELAYED_MESSAGE


@njit(cache=True, nogil=True)
def _add_legs_of_nodes(bits_NW: Any, part_N: Any, links: Links) -> None:
    """Add the legs of all rows; a bit of `bits_NW` [W, N] is a part that needs the node's row."""
    parts = np.empty(len(links.rows_PL), np.int64)
    for node in range(len(part_N)):
        count = 0
        for word in range(len(bits_NW)):
            left, part = bits_NW[word, node], word * WORD_BITS
            while left:
                if left & np.uint64(1):
                    parts[count] = part
                    count += 1
                left >>= np.uint64(1)
                part += 1
        kernels.add_legs(links, np.int64(part_N[node]), parts[:count], np.int64(1))
