"""Draw the neighbours of a batch of seed nodes, hop by hop (GraphSAGE, Hamilton et al. 2017).

In a hop each node that the hop before met for the first time (or with `every_node` each node so far) gets up to so many
of its in-neighbours, for each edge type into its type. Draws are hashes of (seed, epoch, hop, edge type, node): the
same in every batch, thread, process and rank, so that a batch does not depend on how many of these there are, and
whoever knows the seeds knows all draws.

Letters: n nodes of a type in the batch, E edges of a type in the batch, B seeds.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import Csr, EdgeType, chosen_edge_type
from graphprep.errors import UsageError
from graphprep.sampling.draw_key import key_of
from graphprep.sampling.graph import SamplingGraph
from graphprep.sampling.samplers import neighbour_kernels as draws
from graphprep.sampling.samplers.numbering_kernels import ABSENT, forget_nodes, number_nodes, number_pairs

TimeStrategy = Literal["uniform", "last"]
Fanouts = Sequence[int] | Mapping[Any, Sequence[int]]
Limits = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]
"""weights and times of all edges, times of all nodes, and the time of each node that neighbours are drawn for"""
EVERY = -1
"""the fanout that takes all neighbours"""
_NONE = np.empty(0, np.int64)
_NO_WEIGHTS = np.empty(0, np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """How neighbours are drawn."""

    fanouts: Fanouts
    """neighbours a node in each hop, from the seeds on; -1 is all; by edge type where they differ"""
    seed: int = 0
    with_replacement: bool = False
    weighted: bool = False
    """draw in proportion to the edges' weights"""
    disjoint: bool = False
    """a tree of its own for each seed: a node that two seeds reach is there twice"""
    time_strategy: TimeStrategy = "uniform"
    """which of the neighbours that are not later than the seed: any, or the last"""
    every_node: bool = False
    """draw in each hop anew for all nodes so far, as DGL's blocks do, in place of those that the hop before met first
    (PyG's way). What is drawn for a node in a hop then does not depend on the other seeds of the batch."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampledEdges:
    """The edges of one type in a batch, by hop, in a hop by destination."""

    source_E: NDArray[np.int64]
    """numbers of the nodes in the batch, among those of their type"""
    destination_E: NDArray[np.int64]
    number_E: NDArray[np.int64]
    """which edge of the store's CSR each one is; empty where other processes have the edges"""
    per_hop: tuple[int, ...]
    weight_E: NDArray[np.float32] | None = None
    """what each one counts, where edges are drawn by other probabilities than in the neighbour sampler"""
    factor_E: NDArray[np.float32] | None = None
    """1 / the probability of each one, where it differs from k / D for k of the D edges into a node that were drawn"""
    data_E: NDArray[np.float32] | None = None
    """the weight of each one in the graph, where other processes have the edges and these have weights"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawn:
    """What was drawn for some nodes: E edges of one type in a hop."""

    offsets_n: NDArray[np.int64]
    """[n + 1]: where each node's edges begin"""
    source_E: NDArray[np.int64]
    """the nodes of the graph that they come from"""
    number_E: NDArray[np.int64]
    """as `SampledEdges` has them, and the next"""
    data_E: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampledNodes:
    """The nodes of one type in a batch, in the order in which they were met: the seeds first."""

    ids_n: NDArray[np.int64]
    """their numbers in the store"""
    per_hop: tuple[int, ...]
    """new ones: the seeds, then those of each hop"""
    tree_n: NDArray[np.int64] | None
    """where each seed has a tree of its own: which seed's each node is, counted over the types in turn"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampledBatch:
    """The nodes and edges that a batch of seeds needs."""

    nodes: Mapping[str, SampledNodes]
    edges: Mapping[EdgeType, SampledEdges]


class NeighbourSampler:
    """Draws batches from one graph. Threads may share it: each has numbers of nodes of its own, 4 bytes a node."""

    def __init__(self, graph: SamplingGraph, options: SamplingOptions) -> None:
        """Check the options against the graph.

        Raises:
            UsageError: fanouts are not whole numbers from -1 on, are missing for an edge type, or do not go together
                with the other options; or there are no weights to draw by.
        """
        self.graph, self.options = graph, options
        self._fanouts = _fanouts_by_type(options.fanouts, list(graph.edges))
        self.num_hops = len(next(iter(self._fanouts.values())))
        self.has_times = bool(graph.edge_times or graph.node_times)
        if options.weighted and all(matrix.data is None for matrix in graph.edges.values()):
            raise UsageError("the edges have no weights to draw by; leave weighted=True out")
        if options.with_replacement and (options.weighted or self.has_times):
            raise UsageError("replace=True is for uniform draws without times; leave it out, or weighted and time")
        if options.time_strategy == "last" and not self.has_times:
            raise UsageError("time_strategy='last' needs times; give time='edges' or 'nodes'")
        if options.time_strategy == "last" and options.weighted:
            raise UsageError(
                "time_strategy='last' does not draw, so that weighted=True has no effect; give one of them"
            )
        self._thread = threading.local()

    def __reduce__(self) -> tuple[type[NeighbourSampler], tuple[SamplingGraph, SamplingOptions]]:
        """Pickle what it was made of: numbers of nodes are a thread's."""
        return type(self), (self.graph, self.options)

    @property
    def has_trees(self) -> bool:
        """Whether each seed has a tree of its own: as requested, and always where there are times, which differ."""
        return self.options.disjoint or self.has_times

    def sample(
        self, seeds: Mapping[str, NDArray[np.int64]], *, epoch: int, until_B: NDArray[Any] | None = None
    ) -> SampledBatch:
        """Draw the neighbours of some seeds.

        Args:
            seeds: by type, int64: numbers of nodes in the store; without repetition unless each has a tree of its own.
            epoch: another one draws others.
            until_B: int64 or float64, with times: no edge that is later belongs to the tree of a seed. For all seeds,
                type after type.
        """
        names = list(self.graph.num_nodes)
        ids = {name: seeds.get(name, _NONE) for name in names}
        trees = dict.fromkeys(names, _NONE)
        first_tree = 0
        for name, mine in seeds.items():
            trees[name] = np.arange(first_tree, first_tree + len(mine))
            first_tree += len(mine)
        per_hop = {name: [len(ids[name])] for name in names}
        drawn: dict[EdgeType, list[_Hop]] = {kind: [] for kind in self.graph.edges}
        places = self._places()
        try:
            if not self.has_trees:
                for name, mine in seeds.items():
                    ids[name], _ = number_nodes(mine, places[name], _NONE)
            for hop in range(self.num_hops):
                count = {name: len(ids[name]) for name in names}
                new = {
                    name: (0 if self.options.every_node else count[name] - per_hop[name][-1], count[name])
                    for name in names
                }
                for number, kind in enumerate(self.graph.edges):
                    first, end = new[kind.destination]
                    tree_n = trees[kind.destination][first:end]
                    key = key_of(self.options.seed, epoch, (hop << 32) + number)
                    of_hop = self._drawn(kind, hop, ids[kind.destination][first:end], until_B, tree_n, key)
                    owner_E, source_E = draws.owners_of(of_hop.offsets_n, 0), of_hop.source_E
                    name = kind.source
                    if self.has_trees:
                        trees[name], ids[name], place_E = number_pairs(
                            tree_n[owner_E], source_E, trees[name], ids[name]
                        )
                    else:
                        ids[name], place_E = number_nodes(source_E, places[name], ids[name])
                    drawn[kind].append((place_E, owner_E + first, of_hop))
                for name in names:
                    per_hop[name].append(len(ids[name]) - count[name])
        except BaseException:  # Ctrl-C too: numbers may be there of nodes that `ids` does not have yet
            del self._thread.places
            raise
        if not self.has_trees:
            for name in names:
                forget_nodes(ids[name], places[name])
        return SampledBatch(
            nodes={
                name: SampledNodes(
                    ids_n=ids[name], per_hop=tuple(per_hop[name]), tree_n=trees[name] if self.has_trees else None
                )
                for name in names
            },
            edges={kind: _joined(hops) for kind, hops in drawn.items()},
        )

    def _drawn(
        self,
        kind: EdgeType,
        hop: int,
        nodes_n: NDArray[np.int64],
        until_B: NDArray[Any] | None,
        tree_n: NDArray[np.int64],
        key: np.uint64,
    ) -> Drawn:
        """Edges of some nodes."""
        offsets_n, number_E = self._draw(kind, hop, nodes_n, until_B, tree_n, key)
        source_E = draws.sources_of(self.graph.edges[kind].indices, number_E)
        return Drawn(offsets_n=offsets_n, source_E=source_E, number_E=number_E)

    def _draw(
        self,
        kind: EdgeType,
        hop: int,
        nodes_n: NDArray[np.int64],
        until_B: NDArray[Any] | None,
        tree_n: NDArray[np.int64],
        key: np.uint64,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each node's edges begin, and the numbers of the drawn edges."""
        matrix, fanout = self.graph.edges[kind], self._fanouts[kind][hop]
        weight_M = _NO_WEIGHTS if matrix.data is None or not self.options.weighted else matrix.data
        limits = self._limits(kind, weight_M, until_B, tree_n)
        _, time_M, time_N, _ = limits
        if not (len(weight_M) or len(time_M) or len(time_N)):
            replace = self.options.with_replacement
            offsets_n = draws.count_uniform(matrix.indptr, nodes_n, fanout, replace)
            number_E = np.empty(offsets_n[-1], np.int64)
            draws.draw_uniform(matrix.indptr, nodes_n, offsets_n, replace, key, number_E)
            return offsets_n, number_E
        latest = self.options.time_strategy == "last" and bool(len(time_M) or len(time_N))
        offsets_n, number_E, _ = self._smallest(matrix, nodes_n, fanout, limits, key, latest=latest)
        return offsets_n, number_E

    def _limits(
        self, kind: EdgeType, weight_M: NDArray[Any], until_B: NDArray[Any] | None, tree_n: NDArray[np.int64]
    ) -> Limits:
        """What decides which of the edges of some nodes may be drawn."""
        return (
            weight_M,
            self.graph.edge_times.get(kind, _NONE),
            self.graph.node_times.get(kind.source, _NONE),
            _NONE if until_B is None else until_B[tree_n],
        )

    @staticmethod
    def _smallest(
        matrix: Csr, nodes_n: NDArray[np.int64], fanout: int, limits: Limits, key: np.uint64, *, latest: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """The allowed edges of the smallest values: where each node's begin, their numbers and their values."""
        offsets_n = draws.count_possible(matrix.indptr, matrix.indices, nodes_n, fanout, *limits)
        number_E, value_E = np.empty(offsets_n[-1], np.int64), np.empty(offsets_n[-1], np.float64)
        draws.draw_smallest(matrix.indptr, matrix.indices, nodes_n, offsets_n, *limits, latest, key, number_E, value_E)
        return offsets_n, number_E, value_E

    def _places(self) -> Mapping[str, NDArray[np.int32]]:
        """This thread's numbers of nodes, all absent."""
        if not hasattr(self._thread, "places"):
            counts = {name: 0 if self.has_trees else count for name, count in self.graph.num_nodes.items()}
            self._thread.places = {name: np.full(count, ABSENT, np.int32) for name, count in counts.items()}
        places: Mapping[str, NDArray[np.int32]] = self._thread.places
        return places


def _fanouts_by_type(fanouts: Fanouts, kinds: Sequence[EdgeType]) -> dict[EdgeType, tuple[int, ...]]:
    """The fanouts of each edge type.

    Raises:
        UsageError: as for `NeighbourSampler`.
    """
    if isinstance(fanouts, Mapping):
        by_type = {chosen_edge_type(kinds, kind): numbers for kind, numbers in fanouts.items()}
        if absent := [kind.key for kind in kinds if kind not in by_type]:
            raise UsageError(f"num_neighbors has no edge type {absent[0]}; give it too, with zeros to draw none")
    else:
        by_type = dict.fromkeys(kinds, fanouts)
    by_hop = {kind: _numbers(numbers, kind.key) for kind, numbers in by_type.items()}
    if len({len(numbers) for numbers in by_hop.values()}) > 1:
        raise UsageError("num_neighbors have different numbers of hops; give each edge type as many")
    return by_hop


def _numbers(fanouts: Any, name: str) -> tuple[int, ...]:
    """The fanouts of an edge type, from a list, an array or a tensor.

    Raises:
        UsageError: they are no whole numbers from -1 on, one for each hop.
    """
    numbers = fanouts.tolist() if hasattr(fanouts, "tolist") else fanouts
    numbers = list(numbers) if isinstance(numbers, tuple) else numbers
    if not isinstance(numbers, list) or not numbers or any(not _is_fanout(each) for each in numbers):
        raise UsageError(
            f"num_neighbors of {name} is {numbers!r}; give whole numbers from 0 on, or -1 for all, one for each hop, "
            "as [15, 10]"
        )
    return tuple(numbers)


def _is_fanout(number: object) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool) and EVERY <= int(number) < 2**63


_Hop = tuple[NDArray[np.int64], NDArray[np.int64], Drawn]
"""the numbers in the batch of both ends of each edge, and the edges"""


def _joined(hops: Sequence[_Hop]) -> SampledEdges:
    source_E, destination_E = (np.concatenate([hop[end] for hop in hops]) for end in (0, 1))
    data = [drawn.data_E for _, _, drawn in hops if drawn.data_E is not None]
    return SampledEdges(
        source_E=source_E,
        destination_E=destination_E,
        number_E=np.concatenate([drawn.number_E for _, _, drawn in hops]),
        per_hop=tuple(len(place_E) for place_E, _, _ in hops),
        data_E=np.concatenate(data) if data else None,
    )
