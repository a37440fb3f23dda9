"""Draw the nodes of a step evenly, and take all edges among them (ScaleGNN's uniform vertex sampling).

A node is in step s of an epoch if a hash of (seed, epoch, s, node) is below the share of nodes that a step takes. So
every process knows which nodes of other parts are in a step, without a word from these. An edge u -> v is there if both
ends are; given that v is there, that has the probability of u, and what the edge counts in the mean over v's neighbours
is divided by it. A loop is always there with its node.

Letters: N nodes of a type in the graph, n in the step, E edges in the step, B seeds in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.core.csr_kernels import mixed
from graphprep.core.types import EdgeType
from graphprep.sampling.draw_key import VERTICES, key_of
from graphprep.sampling.graph import SamplingGraph
from graphprep.sampling.samplers.ladies import shares_of_rows
from graphprep.sampling.samplers.neighbour import SampledBatch, SampledEdges, SampledNodes
from graphprep.sampling.samplers.numbering_kernels import ABSENT


class VertexSampler:
    """Draws the steps of one graph. Threads may share it; each step has numbers of nodes of its own, 4 bytes a node."""

    has_trees = False

    def __init__(self, graph: SamplingGraph, *, share: float, seed: int) -> None:
        """Take the graph.

        Args:
            graph: its nodes and edges.
            share: of the nodes of each type that a step takes, above 0 and at most 1.
            seed: of the hashes.
        """
        self.graph, self.share, self._seed = graph, share, seed
        self._mean_E = {kind: shares_of_rows(matrix) for kind, matrix in graph.edges.items()}

    def nodes(self, node_type: str, *, epoch: int, step: int) -> NDArray[np.int64]:
        """The nodes of a type that are in a step, ascending."""
        key = key_of(self._seed, epoch, VERTICES, step, list(self.graph.num_nodes).index(node_type))
        chosen: NDArray[np.int64] = _chosen(self.graph.num_nodes[node_type], key, _limit_of(self.share))
        return chosen

    def sample(self, seeds: Mapping[str, NDArray[np.int64]], *, epoch: int, step: int) -> SampledBatch:
        """A step.

        Args:
            seeds: by type, nodes of the step that come first.
            epoch, step: which one.
        """
        ids, place = {}, {}
        for name, count in self.graph.num_nodes.items():
            first = seeds.get(name, np.empty(0, np.int64))
            chosen = self.nodes(name, epoch=epoch, step=step)
            ids[name] = np.concatenate([first, chosen[~np.isin(chosen, first)]])
            place[name] = np.full(count, ABSENT, np.int32)
            place[name][ids[name]] = np.arange(len(ids[name]))
        return SampledBatch(
            nodes={
                name: SampledNodes(ids_n=of_type, per_hop=(len(of_type),), tree_n=None) for name, of_type in ids.items()
            },
            edges={kind: self._induced(kind, ids[kind.destination], place[kind.source]) for kind in self.graph.edges},
        )

    def _induced(self, kind: EdgeType, ids_n: NDArray[np.int64], place_N: NDArray[np.int32]) -> SampledEdges:
        matrix = self.graph.edges[kind]
        source_E, destination_E, number_E = _edges_among(matrix.indptr, matrix.indices, ids_n, place_N)
        is_loop = (source_E == destination_E) & (kind.source == kind.destination)
        factor_E = np.where(is_loop, 1.0, 1 / self.share)
        return SampledEdges(
            source_E=source_E,
            destination_E=destination_E,
            number_E=number_E,
            per_hop=(len(number_E),),
            weight_E=(self._mean_E[kind][number_E] * factor_E).astype(np.float32),
            factor_E=factor_E.astype(np.float32),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VertexSchedule:
    """The steps of each epoch: as many as take all nodes once on average."""

    sampler: VertexSampler
    node_type: str
    ids_B: NDArray[np.int64]
    """the seeds, each once"""
    num_steps: int
    """of all ranks in an epoch"""
    rank: int = 0
    world_size: int = 1

    @property
    def num_batches(self) -> int:
        """Of this rank in an epoch; all ranks make as many."""
        return -(-self.num_steps // self.world_size)

    def step_of(self, batch: int) -> int:
        """The step that is a batch of this rank."""
        return batch * self.world_size + self.rank

    def batches(self, epoch: int) -> list[NDArray[np.int64]]:
        """The places of the seeds of each of this rank's steps."""
        return [
            np.flatnonzero(
                np.isin(self.ids_B, self.sampler.nodes(self.node_type, epoch=epoch, step=self.step_of(batch)))
            )
            for batch in range(self.num_batches)
        ]


def _limit_of(share: float) -> np.uint64:
    return np.uint64(min(int(share * 2.0**64), 2**64 - 1))


@njit(cache=True, nogil=True)
def _chosen(count, key, limit):  # type: ignore[no-untyped-def]
    """The numbers below `count` whose hash is at most `limit`."""
    found = np.empty(count, np.int64)
    size = 0
    for node in range(count):
        if mixed(key, node) <= limit:
            found[size] = node
            size += 1
    return found[:size].copy()


@njit(cache=True, nogil=True)
def _edges_among(indptr, indices, ids_n, place_N):  # type: ignore[no-untyped-def]
    """In-edges of some nodes whose sources are there: places of both ends, and numbers of the edges."""
    count = 0
    for i in range(len(ids_n)):
        for e in range(indptr[ids_n[i]], indptr[ids_n[i] + 1]):
            count += place_N[indices[e]] != ABSENT
    source, destination, number = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    at = 0
    for i in range(len(ids_n)):
        for e in range(indptr[ids_n[i]], indptr[ids_n[i] + 1]):
            if place_N[indices[e]] != ABSENT:
                source[at], destination[at], number[at] = place_N[indices[e]], i, e
                at += 1
    return source, destination, number
