"""Where the sampler of a part finds in-edges: in memory or a file that all samplers of a machine map, or with owners.

`WholeGraph` has all edges; `owners.source.OwnedEdges` has those of one part, and asks other parts' samplers for theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.read import PartitionCache
from graphprep.cache.topology_file import mapped_topology
from graphprep.core.types import EdgeType
from graphprep.sampling.edge_weights import EdgeWeights, Sums
from graphprep.sampling.graph import SamplingGraph, TimesOf, sampling_graph, with_times, without_pairs
from graphprep.sampling.row_cache.scores import degrees
from graphprep.sampling.samplers.neighbour import NeighbourSampler, SamplingOptions
from graphprep.sampling.samplers.neighbour_kernels import copies_of
from graphprep.traffic.visits import Probabilities, visit_probabilities


class NeighbourSource(Protocol):
    """The in-edges of a graph."""

    graph: SamplingGraph
    """the numbers of nodes and of each one's in-edges; which ones they are, where the source has them itself"""

    @property
    def num_bytes(self) -> int:
        """What this process has sent to others for edges, and they to it."""
        ...

    def sampler(self, options: SamplingOptions) -> NeighbourSampler:
        """Draws batches."""
        ...

    def times_of_pairs(
        self,
        kind: EdgeType,
        source_B: NDArray[np.int64],
        destination_B: NDArray[np.int64],
        copy_B: NDArray[np.int64] | None,
    ) -> NDArray[Any]:
        """From when on each of some edges is there, whether or not it is removed: int64 or float64 [B].

        Args:
            kind: their type, which has times.
            source_B, destination_B: the nodes of each one.
            copy_B: which of the edges between these nodes each one is, in the store's order; None for the earliest.
        """
        ...

    def weights(self, sums: Sums) -> dict[EdgeType, EdgeWeights]:
        """What the drawn edges of each type count."""
        ...

    def visit_probabilities(
        self, fanouts: Mapping[EdgeType, Sequence[int]], seed_probability: Mapping[str, NDArray[np.float64]]
    ) -> Probabilities:
        """As `graphprep.traffic.visits.visit_probabilities`."""
        ...

    def out_degrees(self) -> dict[str, NDArray[np.int64]]:
        """How many edges begin at each node, of all types together."""
        ...


class WholeGraph:
    """All edges, on this machine."""

    num_bytes = 0

    def __init__(
        self, graph: SamplingGraph, removed: NDArray[np.int64] | None = None, *, numbered: bool = False
    ) -> None:
        """Take edges out.

        Args:
            graph: the topology, with times if they are used.
            removed: int64 [2, K], pairs of nodes between which no edge is drawn; None for none. With them the edges
                that stay are copied into memory.
            numbered: whether the edges that stay also say which ones of all they are, where some are removed.
        """
        self._whole = graph if graph.edge_times else None
        if removed is not None:
            numbered |= bool(graph.edge_times)
            edges = {kind: without_pairs(matrix, *removed, numbered=numbered) for kind, matrix in graph.edges.items()}
            times = {kind: times_E[edges[kind].edge_number] for kind, times_E in graph.edge_times.items()}
            graph = replace(graph, edges=edges, edge_times=times)
        self.graph = graph

    def sampler(self, options: SamplingOptions) -> NeighbourSampler:
        return NeighbourSampler(self.graph, options)

    def times_of_pairs(
        self,
        kind: EdgeType,
        source_B: NDArray[np.int64],
        destination_B: NDArray[np.int64],
        copy_B: NDArray[np.int64] | None,
    ) -> NDArray[Any]:
        assert self._whole is not None
        matrix, time_E = self._whole.edges[kind], self._whole.edge_times[kind]
        first_B, last_B = copies_of(matrix.indptr, matrix.indices, source_B, destination_B)
        if copy_B is not None:
            found: NDArray[Any] = time_E[first_B + copy_B]
            return found
        earliest_B: NDArray[Any] = time_E[first_B]
        for copy in range(1, int((last_B - first_B).max(initial=0))):
            has_copy = first_B + copy < last_B
            earliest_B[has_copy] = np.minimum(earliest_B[has_copy], time_E[first_B[has_copy] + copy])
        return earliest_B

    def weights(self, sums: Sums) -> dict[EdgeType, EdgeWeights]:
        return {kind: EdgeWeights.of(matrix, sums) for kind, matrix in self.graph.edges.items()}

    def visit_probabilities(
        self, fanouts: Mapping[EdgeType, Sequence[int]], seed_probability: Mapping[str, NDArray[np.float64]]
    ) -> Probabilities:
        return visit_probabilities(self.graph.edges, self.graph.num_nodes, fanouts, seed_probability)

    def out_degrees(self) -> dict[str, NDArray[np.int64]]:
        return {name: degrees(self.graph, name) for name in self.graph.num_nodes}


def mapped_graph(cache: PartitionCache, *, timeout: float, times_of: TimesOf | None = None) -> SamplingGraph:
    """The topology of a cache from a file that the processes of this machine share, or in memory where there is none.

    Args:
        cache: whose graph it is.
        timeout: seconds to wait for another process that makes the file.
        times_of: whose times are read into memory too, as for `sampling_graph`.

    Raises:
        CacheError: a file of the cache is damaged.
        UsageError, DatasetError: as for `sampling_graph`.
    """
    edges = mapped_topology(cache, timeout=timeout)
    if edges is None:
        return sampling_graph(cache, times_of=times_of)
    return with_times(SamplingGraph(num_nodes=cache.node_types, edges=edges), cache, times_of)
