"""The hypergraph of an exchange: a net is a node whose row is sent, its pins are the nodes that need it.

The net of node u has u as its root and the nodes that u has an edge to as its pins. Whatever the assignment, part(u)
sends one row to every other part that holds a pin: the rows V[p,q] of the cost model are just the sum over nets. This
stays exact when nodes are merged into coarse ones: pins that fall together count once, pins that fall together
with their root not at all, and nets with equal root and pins become one of a greater weight. So a partition is refined
on coarse levels by the very cost that is judged in the end. (Connectivity as an objective over nets: Catalyurek,
Aykanat: Hypergraph-partitioning-based decomposition, IEEE TPDS 1999; coarse levels that keep it: hMETIS, Mt-KaHyPar.)

Where what counts is edges and not rows, every edge is a net of one pin.

Letters: X nodes of a level (the graph's own on the finest), M nets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphprep.core.csr import index_dtype
from graphprep.core.types import Csr
from graphprep.partition.refine import hypergraph_kernels as kernels


class Incidence(NamedTuple):
    """The nets in which a node is a pin."""

    inc_ptr: NDArray[np.signedinteger[Any]]
    """[X + 1]"""
    inc: NDArray[np.int32]
    """net numbers"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hypergraph:
    """The nets of one level, in the order of their roots.

    Offsets are int32 where there are few enough pins, else int64.
    """

    first_X: NDArray[np.signedinteger[Any]]
    """[X + 1]: node x is the root of nets first_X[x] .. first_X[x + 1] - 1"""
    weight_M: NDArray[np.int32]
    """[M]: rows (or edges) that the net represents"""
    pin_ptr: NDArray[np.signedinteger[Any]]
    """[M + 1]"""
    pins: NDArray[np.int32]
    """nodes, none of them the net's root, none twice in a net"""
    is_mirrored: bool = False
    """node x is the root of net x alone, weights are 1, and wherever x is a pin of y, y is one of x; pins ascend"""

    @property
    def num_nodes(self) -> int:
        return len(self.first_X) - 1

    @property
    def num_nets(self) -> int:
        return len(self.weight_M)

    def root_M(self) -> NDArray[np.int32]:
        """[M]: the root of each net."""
        return np.repeat(np.arange(self.num_nodes, dtype=np.int32), np.diff(self.first_X))

    def incidence(self) -> Incidence:
        """Computed at each call, since it takes as much memory as the pins; the pins themselves if mirrored."""
        if self.is_mirrored:
            return Incidence(self.pin_ptr, self.pins)
        return Incidence(*kernels.transpose(self.pin_ptr, self.pins, self.num_nodes))


def row_nets(matrix: Csr, clean: Csr | None = None) -> Hypergraph:
    """One net a node, whose pins are the nodes that it has an edge to.

    Args:
        matrix: in-edges, N x N.
        clean: the same graph made undirected and simple, if it is known that `matrix` is undirected; its columns are
            then shared.
    """
    num_nodes = matrix.num_rows
    if clean is not None:
        pins = clean.indices.astype(np.int32, copy=False)
        return _mirrored(clean.indptr.astype(index_dtype(clean.num_edges), copy=False), pins)
    inc_ptr, inc = kernels.simple_rows(matrix.indptr, matrix.indices, _no_offsets(matrix.num_edges))
    pin_ptr, pins = kernels.transpose(inc_ptr, inc, num_nodes)
    first_X = np.arange(num_nodes + 1, dtype=pin_ptr.dtype)
    return Hypergraph(first_X=first_X, weight_M=np.ones(num_nodes, np.int32), pin_ptr=pin_ptr, pins=pins)


def edge_nets(matrix: Csr, *, weighted: bool = False) -> Hypergraph:
    """One net for every pair of nodes with edges; its weight is their number, or the sum of their data, which are whole
    numbers then."""
    data = matrix.data if weighted and matrix.data is not None else np.zeros(0, np.float32)
    pin_ptr, pins, weight_M, first_X = kernels.pairs(matrix.indptr, matrix.indices, data, _no_offsets(matrix.num_edges))
    return Hypergraph(first_X=first_X, weight_M=weight_M, pin_ptr=pin_ptr, pins=pins)


def renumbered(nets: Hypergraph, order_X: NDArray[np.signedinteger[Any]]) -> Hypergraph:
    """The nets after renumbering the nodes.

    Args:
        nets: as they are.
        order_X: [X], the old number of each node.
    """
    order_X = np.ascontiguousarray(order_X)
    place_X = np.empty(len(order_X), np.int32)
    place_X[order_X] = np.arange(len(order_X), dtype=np.int32)
    if nets.is_mirrored:
        return _mirrored(*kernels.renumber_mirrored(nets.pin_ptr, nets.pins, order_X, place_X))
    first_X, weight_M, pin_ptr, pins = kernels.renumber(
        nets.first_X, nets.weight_M, nets.pin_ptr, nets.pins, order_X, place_X
    )
    return Hypergraph(first_X=first_X, weight_M=weight_M, pin_ptr=pin_ptr, pins=pins)


def contract(nets: Hypergraph, coarse_X: NDArray[np.int32], num_coarse: int) -> Hypergraph:
    """The nets after contracting clusters of nodes.

    Args:
        nets: of the finer level.
        coarse_X: int32 [X], the coarse node of each node.
        num_coarse: how many coarse nodes there are.
    """
    first_X, weight_M, pin_ptr, pins = kernels.contract_nets(
        nets.first_X, nets.weight_M, nets.pin_ptr, nets.pins, coarse_X, num_coarse
    )
    return Hypergraph(first_X=first_X, weight_M=weight_M, pin_ptr=pin_ptr, pins=pins)


def _mirrored(pin_ptr: NDArray[np.signedinteger[Any]], pins: NDArray[np.int32]) -> Hypergraph:
    num_nodes = len(pin_ptr) - 1
    first_X = np.arange(num_nodes + 1, dtype=pin_ptr.dtype)
    return Hypergraph(
        first_X=first_X, weight_M=np.ones(num_nodes, np.int32), pin_ptr=pin_ptr, pins=pins, is_mirrored=True
    )


def _no_offsets(num_edges: int) -> NDArray[np.signedinteger[Any]]:
    """An empty array whose dtype is that of a kernel's offsets."""
    return np.zeros(0, index_dtype(num_edges))
