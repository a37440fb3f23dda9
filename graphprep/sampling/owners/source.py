"""In-edges with the samplers of their owners: this part's are drawn here, and other parts' samplers draw theirs.

This process has the in-edges of its own part, and of all nodes how many in-edges they have (8 bytes a node and edge
type), the sum of their weights and whether they have a self-loop. The batches are those of the whole graph, bit for
bit.

Letters: N nodes of a type in the graph, n nodes whose edges are drawn, k of them of one owner, E edges drawn.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.read import PartitionCache
from graphprep.cache.rebuild import rebuild_csr
from graphprep.core.types import Csr, EdgeType
from graphprep.errors import TrainingError, UsageError
from graphprep.sampling.edge_weights import EdgeWeights, RowFacts, Sums, row_facts
from graphprep.sampling.graph import SamplingGraph, without_pairs
from graphprep.sampling.owners.connection import Owners, Request
from graphprep.sampling.owners.server import (
    COUNTS,
    MISSES,
    OUT_DEGREES,
    SOURCES,
    SOURCES_AND_WEIGHTS,
    OwnerServer,
    drawn_edges,
    node_dtype,
    request_of,
)
from graphprep.sampling.samplers import neighbour_kernels as draws
from graphprep.sampling.samplers.neighbour import Drawn, NeighbourSampler, SamplingOptions
from graphprep.traffic.visits import Probabilities, multiply_misses, visits_of_draws

_NONE = np.empty(0, np.int64)
Serve = Callable[[Callable[[], bool]], None]
"""answers other samplers as long as what it is given says that they may ask"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerNetwork:
    """How the samplers of a run reach each other."""

    listener: socket.socket
    """where other samplers connect to this one"""
    addresses: Sequence[tuple[str, int]]
    """of the samplers of all parts"""
    key: bytes
    """of the run"""
    timeout: float
    """seconds to wait for an answer"""


class OwnedEdges:
    """The in-edges of one part, and those of others by their samplers."""

    def __init__(
        self,
        cache: PartitionCache,
        part: int,
        network: OwnerNetwork,
        start: Callable[[Serve], None],
        removed: NDArray[np.int64] | None = None,
        *,
        weighted: bool,
    ) -> None:
        """Read the part's edges, start to serve them, and learn from the others how many there are.

        Args:
            cache: the graph and its parts.
            part: this process's.
            network: the samplers of the run.
            start: runs what it is given beside this process, or in a thread of it.
            removed: int64 [2, K], pairs of nodes between which no edge is drawn; None for none.
            weighted: whether the weights of edges are used, if they have some.

        Raises:
            CacheError: a file is damaged.
            TrainingError: another sampler is gone or silent.
        """
        own = {kind: rebuild_csr(cache, kind, parts=[part]) for kind in cache.edge_types}
        if removed is not None:
            own = {kind: without_pairs(matrix, *removed) for kind, matrix in own.items()}
        self._own, self._part, self._weighted = own, part, weighted
        ids = {
            name: [cache.node_array(each, name, "global_ids") for each in range(cache.num_parts)]
            for name in cache.node_types
        }
        self._ids = ids
        self._part_N = {name: np.empty(count, np.int32) for name, count in cache.node_types.items()}
        for name, of_parts in ids.items():
            for each, ids_k in enumerate(of_parts):
                self._part_N[name][ids_k] = each
        self._facts = {kind: row_facts(matrix) for kind, matrix in own.items()}
        counts = [_to_bytes(facts, ids[kind.destination][part]) for kind, facts in self._facts.items()]
        server = OwnerServer(own, [ids[kind.destination][part] for kind in own], counts, network.key)
        start(lambda is_needed: server.serve(network.listener, is_needed))
        self._owners = Owners(network.addresses, network.key, timeout=network.timeout)
        for number, (kind, facts) in enumerate(self._facts.items()):
            requests = {
                each: Request(content=request_of(COUNTS, number), answer_bytes=len(ids_k) * _BYTES_A_NODE)
                for each, ids_k in self._of_others(kind)
            }
            for each, content in self._owners.ask(requests).items():
                _take(facts, ids[kind.destination][each], content)
        self.graph = SamplingGraph(
            num_nodes=cache.node_types,
            edges={
                kind: Csr(
                    indptr=np.concatenate([[0], np.cumsum(facts.degree_N)]),
                    indices=own[kind].indices[:0],
                    num_sources=own[kind].num_sources,
                )
                for kind, facts in self._facts.items()
            },
        )

    @property
    def num_bytes(self) -> int:
        return self._owners.num_bytes

    def sampler(self, options: SamplingOptions) -> NeighbourSampler:
        """Draws batches.

        Raises:
            UsageError: draws are of a kind that owners do not make.
        """
        if options.weighted or options.with_replacement or options.disjoint:
            raise UsageError(
                "--sample-from owners is for draws of different neighbours that are equally probable; give "
                "--sample-from mapped for others"
            )
        return OwnerSampler(
            self.graph, options, self._own, self._part_N, self._part, self._owners, weighted=self._weighted
        )

    def times_of_pairs(
        self,
        kind: EdgeType,  # noqa: ARG002
        source_B: NDArray[np.int64],  # noqa: ARG002
        destination_B: NDArray[np.int64],  # noqa: ARG002
        copy_B: NDArray[np.int64] | None,  # noqa: ARG002
    ) -> NDArray[Any]:
        raise UsageError("--sample-from owners is for draws without times; give --sample-from mapped for --time")

    def weights(self, sums: Sums) -> dict[EdgeType, EdgeWeights]:
        return {kind: EdgeWeights.of_facts(self.graph.edges[kind], facts, sums) for kind, facts in self._facts.items()}

    def visit_probabilities(
        self, fanouts: Mapping[EdgeType, Sequence[int]], seed_probability: Mapping[str, NDArray[np.float64]]
    ) -> Probabilities:
        numbers = {kind: number for number, kind in enumerate(self._own)}

        def draw(
            kind: EdgeType, fanout: int, missed_rows: NDArray[np.float64], missed_sources: NDArray[np.float64]
        ) -> None:
            requests = {
                each: Request(
                    content=request_of(MISSES, numbers[kind], fanout=fanout, about=missed_rows[ids_k]),
                    answer_bytes=missed_sources.nbytes,
                )
                for each, ids_k in self._of_others(kind)
            }
            multiply_misses(self._own[kind], fanout, missed_rows, missed_sources)
            for content in self._owners.ask(requests).values():
                missed_sources *= np.frombuffer(content, np.float64)

        return visits_of_draws(draw, self.graph.num_nodes, fanouts, seed_probability)[-1]

    def out_degrees(self) -> dict[str, NDArray[np.int64]]:
        degrees = {name: np.zeros(count, np.int64) for name, count in self.graph.num_nodes.items()}
        for number, (kind, matrix) in enumerate(self._own.items()):
            of_type = degrees[kind.source]
            of_type += np.bincount(matrix.indices, minlength=len(of_type))
            request = Request(content=request_of(OUT_DEGREES, number), answer_bytes=of_type.nbytes)
            for content in self._owners.ask({each: request for each, _ in self._of_others(kind)}).values():
                of_type += np.frombuffer(content, np.int64)
        return degrees

    def _of_others(self, kind: EdgeType) -> list[tuple[int, NDArray[np.integer[Any]]]]:
        """The other parts, and their nodes that edges of a type lead to."""
        return [(each, ids_k) for each, ids_k in enumerate(self._ids[kind.destination]) if each != self._part]


class OwnerSampler(NeighbourSampler):
    """Draws the edges of the part's own nodes, and has those of others drawn."""

    def __init__(
        self,
        graph: SamplingGraph,
        options: SamplingOptions,
        own: Mapping[EdgeType, Csr],
        part_N: Mapping[str, NDArray[np.int32]],
        part: int,
        owners: Owners,
        *,
        weighted: bool,
    ) -> None:
        super().__init__(graph, options)
        self._weighted = weighted
        self._own, self._part_N, self._part, self._owners = own, part_N, part, owners
        self._numbers = {kind: number for number, kind in enumerate(own)}

    def _drawn(
        self,
        kind: EdgeType,
        hop: int,
        nodes_n: NDArray[np.int64],
        until_B: NDArray[Any] | None,  # noqa: ARG002
        tree_n: NDArray[np.int64],  # noqa: ARG002
        key: np.uint64,
    ) -> Drawn:
        matrix, own, fanout = self.graph.edges[kind], self._own[kind], self._fanouts[kind][hop]
        weighted = self._weighted and own.data is not None
        offsets_n = draws.count_uniform(matrix.indptr, nodes_n, fanout, False)
        count_n = np.diff(offsets_n)
        part_n = np.where(count_n > 0, self._part_N[kind.destination][nodes_n], -1)
        places = {int(owner): np.flatnonzero(part_n == owner) for owner in np.unique(part_n[part_n >= 0])}
        dtype = node_dtype(matrix.num_sources)
        requests = {
            owner: Request(
                content=request_of(
                    SOURCES_AND_WEIGHTS if weighted else SOURCES,
                    self._numbers[kind],
                    key=int(key),
                    fanout=fanout,
                    about=nodes_n[place_k].astype(node_dtype(matrix.num_rows)),
                ),
                answer_bytes=int(count_n[place_k].sum()) * (dtype.itemsize + 4 * weighted),
            )
            for owner, place_k in places.items()
            if owner != self._part
        }
        source_E = np.empty(offsets_n[-1], np.int64)
        data_E = np.empty(offsets_n[-1], np.float32) if weighted else None
        answers = self._owners.ask(requests)
        for owner, place_k in places.items():
            edges = _edges_of(offsets_n[place_k], count_n[place_k])
            if owner == self._part:
                _, sources, data = drawn_edges(own, nodes_n[place_k], fanout, key, weighted=weighted)
            else:
                sources = np.frombuffer(answers[owner], dtype, len(edges)).astype(np.int64)
                data = np.frombuffer(answers[owner], np.float32, offset=sources.size * dtype.itemsize)
            source_E[edges] = sources
            if data_E is not None and data is not None:
                data_E[edges] = data
        if len(source_E) and not (source_E.min() >= 0 and source_E.max() < matrix.num_sources):
            raise TrainingError("a sampler gave nodes that are not in the graph; give all ranks the same cache")
        return Drawn(offsets_n=offsets_n, source_E=source_E, number_E=_NONE, data_E=data_E)


_BYTES_A_NODE = 8 + 4 + 1
"""of the counts"""


def _to_bytes(facts: RowFacts, ids_k: NDArray[np.integer[Any]]) -> bytes:
    """What is said of some nodes to other samplers."""
    return b"".join(values[ids_k].tobytes() for values in (facts.degree_N, facts.sum_N, facts.has_loop_N))


def _take(facts: RowFacts, ids_k: NDArray[np.integer[Any]], content: bytearray) -> None:
    """Note what an owner has said of its nodes."""
    start = 0
    for values in (facts.degree_N, facts.sum_N, facts.has_loop_N):
        values[ids_k] = np.frombuffer(content, values.dtype, len(ids_k), start)
        start += len(ids_k) * values.dtype.itemsize


def _edges_of(start_k: NDArray[np.int64], count_k: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers from each start on, so many of each: int64 [E]."""
    before_k = np.cumsum(count_k) - count_k
    edges: NDArray[np.int64] = np.arange(count_k.sum()) + np.repeat(start_k - before_k, count_k)
    return edges
