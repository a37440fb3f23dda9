"""The layers of a batch as a trainer reads them: for each layer the edges into the rows that it computes.

A layer computes the rows of the nodes that were there before its hop, from those that are there after it. Its edges
are in two matrices: from the nodes that were there before (`own`, destinations as a part's own rows are), and from
those that the hop has added (`halo`, as a part's halo rows are). Columns count the nodes of all types, type after type.
Where types are distinguished there is a row for each node and edge type with in-edges; otherwise one for each node.

Letters: n nodes that a layer computes, h those that its hop has added, M rows of its matrices.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.core.types import EdgeType
from graphprep.sampling.edge_features import EdgeFeatures
from graphprep.sampling.edge_weights import EdgeWeights
from graphprep.sampling.samplers.neighbour import SampledBatch

_NO_LOOPS = np.empty(0, np.float32)
_NO_FEATURES: Mapping[EdgeType, EdgeFeatures] = {}
Arrays = dict[str, NDArray[Any]]


def layers_of(
    batch: SampledBatch,
    weights: Mapping[EdgeType, EdgeWeights],
    *,
    weighted: bool,
    is_typed: bool,
    features: Mapping[EdgeType, EdgeFeatures] = _NO_FEATURES,
    with_roots: bool = False,
    by_place: bool = False,
) -> list[Arrays]:
    """The matrices of every layer, the first one's first.

    Args:
        batch: sampled with `every_node`.
        weights: of the edges of each type, in key order.
        weighted: whether edges get weights.
        is_typed: whether there is a row for each node and edge type.
        features: of the edges, by type; empty for none.
        with_roots: whether each edge also gets the weight with which it counts sqrt(D / k) times, not D / k times: for
            noise that is independent from edge to edge.
        by_place: whether the numbers of nodes in `weights` are their places in the batch, not those in the graph.

    Returns:
        For each layer the arrays `own_indptr`, `own_indices`, `halo_indptr`, `halo_indices`; with weights `own_weights`
        and `halo_weights`; with roots `own_roots` and `halo_roots`; with features `own_features` and `halo_features`,
        float32 [edges, D], 0 for self-loops; with types `rows`, the node of each row, and `rows_per_relation`.
    """
    num_hops = len(next(iter(batch.edges.values())).per_hop)
    return [
        _layer(
            batch,
            weights,
            hop,
            ids={name: np.arange(len(nodes.ids_n)) if by_place else nodes.ids_n for name, nodes in batch.nodes.items()},
            weighted=weighted,
            is_typed=is_typed,
            features=features,
            with_roots=with_roots,
        )
        for hop in reversed(range(num_hops))
    ]


def _layer(
    batch: SampledBatch,
    weights: Mapping[EdgeType, EdgeWeights],
    hop: int,
    *,
    ids: Mapping[str, NDArray[np.int64]],
    weighted: bool,
    is_typed: bool,
    features: Mapping[EdgeType, EdgeFeatures],
    with_roots: bool,
) -> Arrays:
    own, added = {}, {}
    for name, nodes in batch.nodes.items():
        own[name] = sum(nodes.per_hop[: hop + 1])
        added[name] = nodes.per_hop[hop + 1]
    first_own, first_added = _firsts(own), _firsts(added)
    pieces: list[tuple[NDArray[Any], ...]] = []
    roots: list[tuple[NDArray[Any], ...]] = []
    of_edges: list[tuple[NDArray[np.float32], NDArray[np.float32]]] = []
    rows, rows_per_relation = [], []
    for kind, of_kind in batch.edges.items():
        edges = slice(sum(of_kind.per_hop[:hop]), sum(of_kind.per_hop[: hop + 1]))
        source_E, destination_E = of_kind.source_E[edges], of_kind.destination_E[edges]
        ids_n = ids[kind.destination][: own[kind.destination]]
        weight_E = loop_n = _NO_LOOPS
        factor_E = None if of_kind.factor_E is None else of_kind.factor_E[edges]
        if weighted:
            source_ids_E = ids[kind.source][source_E]
            data_E = None if of_kind.data_E is None else of_kind.data_E[edges]
            weight_E = weights[kind].of_drawn(
                ids_n, source_ids_E, destination_E, of_kind.number_E[edges], factor_E, data_E
            )
            loop_n = weights[kind].of_loops(ids_n)
        num_rows = len(ids_n)
        if is_typed:
            has_edges_n = np.bincount(destination_E, minlength=num_rows) > 0
            with_edges = np.flatnonzero(has_edges_n)
            destination_E = (np.cumsum(has_edges_n) - 1)[destination_E]
            rows.append(with_edges + first_own[kind.destination])
            num_rows = len(with_edges)
            rows_per_relation.append(num_rows)
        columns = own[kind.source], first_own[kind.source], first_added[kind.source]
        pieces.append(_split(source_E, destination_E, weight_E, loop_n, num_rows, *columns))
        if features:
            values_ED = features[kind].gather(of_kind.number_E[edges])
            of_edges.append(_split_features(values_ED, source_E < own[kind.source], pieces[-1][0], loop_n))
        if with_roots:
            if factor_E is None:
                ends_E = of_kind.destination_E[edges]
                factor_E = weights[kind].inflation(ids_n, ends_E)[ends_E]
            root_E = weight_E / np.sqrt(factor_E)
            roots.append(_split(source_E, destination_E, root_E, loop_n, num_rows, *columns))
    arrays = _stacked(pieces, weighted=weighted)
    if with_roots:
        by_side = _stacked(roots, weighted=True)
        arrays |= {f"{side}_roots": by_side[f"{side}_weights"] for side in ("own", "halo")}
    if features:
        own_features, halo_features = zip(*of_edges, strict=True)
        arrays |= {"own_features": np.concatenate(own_features), "halo_features": np.concatenate(halo_features)}
    if is_typed:
        arrays["rows"] = np.concatenate(rows)
        arrays["rows_per_relation"] = np.array(rows_per_relation, np.int64)
    return arrays


def _firsts(counts: Mapping[str, int]) -> dict[str, int]:
    """Where the nodes of each type begin, type after type."""
    return dict(zip(counts, accumulate(counts.values(), initial=0), strict=False))


def _stacked(pieces: list[tuple[NDArray[Any], ...]], *, weighted: bool) -> Arrays:
    """The matrices of all edge types, one below the other."""
    arrays: Arrays = {}
    for side, first in (("own", 0), ("halo", 3)):
        counts = np.concatenate([np.diff(piece[first]) for piece in pieces])
        indices = np.concatenate([piece[first + 1] for piece in pieces])
        index_type = np.int32 if len(indices) < 2**31 else np.int64
        arrays[f"{side}_indptr"] = np.concatenate([[0], np.cumsum(counts)]).astype(index_type)
        arrays[f"{side}_indices"] = indices.astype(index_type, copy=False)
        if weighted:
            arrays[f"{side}_weights"] = np.concatenate([piece[first + 2] for piece in pieces])
    return arrays


def _split_features(
    values_ED: NDArray[np.float32], is_own_E: NDArray[np.bool_], own_indptr: NDArray[Any], loop_n: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The features of the edges in both matrices, in the order that `_split` gives them; a self-loop's are 0.

    Args:
        values_ED: of the edges, as they were drawn.
        is_own_E: which of them are in the first matrix.
        own_indptr: of that matrix.
        loop_n: the weight of each row's self-loop, as for `_split`.
    """
    own_ED = np.zeros((own_indptr[-1], values_ED.shape[1]), np.float32)
    is_drawn = np.ones(len(own_ED), np.bool_)
    is_drawn[own_indptr[1:][loop_n != 0] - 1 if len(loop_n) else []] = False
    own_ED[is_drawn] = values_ED[is_own_E]
    return own_ED, values_ED[~is_own_E]


@njit(cache=True, nogil=True)
def _split(  # type: ignore[no-untyped-def]
    source_E, destination_E, weight_E, loop_n, num_rows, num_own, first_own, first_added
):
    """Edges by where they begin: indptr, indices and weights of those from own nodes, then of the others.

    Args:
        source_E: the place of each edge's source among the nodes of its type.
        destination_E: its row, ascending.
        weight_E: its weight; empty for none.
        loop_n: the weight of each row's self-loop, 0 for none; empty where no row has one.
        num_rows: of the matrices.
        num_own: how many nodes of the sources' type are own.
        first_own, first_added: what is added to the columns of both matrices.
    """
    own_indptr, halo_indptr = np.zeros(num_rows + 1, np.int64), np.zeros(num_rows + 1, np.int64)
    for e in range(len(source_E)):
        if source_E[e] < num_own:
            own_indptr[destination_E[e] + 1] += 1
        else:
            halo_indptr[destination_E[e] + 1] += 1
    for i in range(num_rows):
        own_indptr[i + 1] += own_indptr[i]
        halo_indptr[i + 1] += halo_indptr[i]
        if len(loop_n) > 0 and loop_n[i] != 0:
            own_indptr[i + 1] += 1
    own_indices, halo_indices = np.empty(own_indptr[-1], np.int32), np.empty(halo_indptr[-1], np.int32)
    weighted = len(weight_E) > 0 or len(loop_n) > 0
    own_weights = np.empty(own_indptr[-1] if weighted else 0, np.float32)
    halo_weights = np.empty(halo_indptr[-1] if weighted else 0, np.float32)
    own_at, halo_at = 0, 0
    e = 0
    for i in range(num_rows):
        while e < len(source_E) and destination_E[e] == i:
            if source_E[e] < num_own:
                own_indices[own_at] = source_E[e] + first_own
                if weighted:
                    own_weights[own_at] = weight_E[e]
                own_at += 1
            else:
                halo_indices[halo_at] = source_E[e] - num_own + first_added
                if weighted:
                    halo_weights[halo_at] = weight_E[e]
                halo_at += 1
            e += 1
        if len(loop_n) > 0 and loop_n[i] != 0:
            own_indices[own_at] = i + first_own
            own_weights[own_at] = loop_n[i]
            own_at += 1
    return own_indptr, own_indices, own_weights, halo_indptr, halo_indices, halo_weights
