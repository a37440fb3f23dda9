"""The batches of one part: a global batch of seeds, those of them that the part owns, their layers and rows.

The global batches of an epoch are pieces of one order of all seeds, a hash of (seed, epoch, place of the seed). So they
are the same for any number of parts and processes, and each part makes its own share of every batch.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.read import PartitionCache
from graphprep.sampling.batch_bytes import most_bytes
from graphprep.sampling.batch_options import BatchOptions
from graphprep.sampling.blocks import Arrays, layers_of
from graphprep.sampling.edge_features import features_by_type
from graphprep.sampling.graph import sampling_graph, times_of_nodes
from graphprep.sampling.input_rows import EveryBatch, RowPlan
from graphprep.sampling.neighbour_source import NeighbourSource, WholeGraph
from graphprep.sampling.part_sampler import sampler_and_schedule
from graphprep.sampling.row_cache.kept_rows import Ids, KeptRows, KeptRowsPlanner, window_of
from graphprep.sampling.row_cache.policies import make_row_cache, miss_share, scores_of
from graphprep.sampling.row_cache.scores import presampled_counts
from graphprep.sampling.rows import NodeLocations
from graphprep.sampling.samplers.neighbour import SampledBatch
from graphprep.sampling.seeds import BatchSeeds, NodeSeeds, PairSeeds, Seeds
from graphprep.sampling.temporal_weights import weights_until

EVALUATION = -1
"""the epoch whose draws evaluations have"""
MOST_EPOCHS = 4
"""whose batches are remembered: that which is made, and those that are planned"""


class PartBatches:
    """Makes any batch of a part."""

    def __init__(
        self,
        cache: PartitionCache,
        part: int,
        seeds: NDArray[np.int64],
        options: BatchOptions,
        epochs: tuple[int, int],
        removed: NDArray[np.int64] | None = None,
        neighbours: NeighbourSource | None = None,
    ) -> None:
        """Read the topology.

        Args:
            cache: the graph and its parts.
            part: whose batches are made.
            seeds: all seeds in an order that does not depend on parts, [B]; or pairs of them, [2, B], in a graph of one
                node and edge type; or [3, B], with the number of each among the edges between its nodes.
            options: of the run.
            epochs: the first and the last one.
            removed: [2, K], pairs of nodes between which there is no edge in batches; None for none.
            neighbours: where in-edges are, without those removed; None to read all into memory.

        Raises:
            CacheError: a file is damaged.
            UsageError: there are no times.
        """
        self._part, self._options, self._num_parts = part, options, cache.num_parts
        neighbours = neighbours or WholeGraph(
            sampling_graph(cache, times_of=options.times_of), removed, numbered=options.edge_features is not None
        )
        self._neighbours, self._graph = neighbours, neighbours.graph
        self._seeds, self._owned_B = self._seeds_of(cache, seeds)
        self._sampler, self._schedule = sampler_and_schedule(
            neighbours,
            options.node_type,
            self._owned_B,
            sampler=options.sampler,
            draw=options.draw,
            fanouts=list(options.fanouts),
            batch_size=options.batch_size,
            seed=options.seed,
            time_strategy=options.time_strategy,
        )
        # With times they depend on those of the seeds.
        self._weights = {} if options.times_of else neighbours.weights(options.sums or "sum")
        self._features = features_by_type(cache, options.edge_features, self._graph.edges)
        self._locations = {name: NodeLocations(cache, name) for name in cache.node_types}
        self._plans: dict[str, RowPlan] = {
            name: EveryBatch(locations, part, cache.num_parts) for name, locations in self._locations.items()
        }
        self._owners = {
            name: EveryBatch(locations, part, cache.num_parts) for name, locations in self._locations.items()
        }
        self._batches: dict[int, list[NDArray[np.int64]]] = {}
        self.miss_share = 1.0
        """expected share of other parts' rows that are not kept when a batch needs them"""
        if any(options.num_kept.values()):
            self._plans |= self._with_kept_rows(epochs)

    def of_part(self, part: int) -> PartBatches:
        """The batches of another part, which keeps no rows; the topology is shared."""
        other = copy(self)
        other._part = part
        other._plans = {name: EveryBatch(where, part, self._num_parts) for name, where in self._locations.items()}
        other._owners = {name: EveryBatch(where, part, self._num_parts) for name, where in self._locations.items()}
        return other

    @property
    def steps(self) -> int:
        """Batches of an epoch."""
        return self._schedule.num_batches

    @property
    def num_bytes(self) -> int:
        """What this process has sent to other samplers for edges, and they to it."""
        return self._neighbours.num_bytes

    @property
    def num_kept(self) -> dict[str, int]:
        """Rows of each node type that the trainer has place to keep."""
        return {name: plan.num_kept for name, plan in self._plans.items()}

    def most_bytes(self) -> int:
        """More bytes than any batch has."""
        width = max((of_kind.width for of_kind in self._features.values()), default=0)
        return most_bytes(self._options, self._graph, width=width)

    def make(self, epoch: int, step: int) -> Arrays:
        """One batch, as named arrays.

        `seed_row` has the rows of the seeds in the part; where seeds are pairs, `pairs` [2, k] has the places of their
        nodes among the batch's, `num_pairs` how many are no random ones, and `seed_place` which of all pairs these are.
        `counts` [L + 1, T] has the nodes of each type in the batch before the first hop and after each, `ids/TYPE` the
        numbers of a type's nodes in the graph.
        The arrays of layer l begin with `layer/l/` (see `blocks`), those of a type's rows with `rows/TYPE/` (see
        `input_rows`), and those of the nodes before the last hop with `histories/TYPE/` likewise. With times a node may
        be there several times: its row is fetched once, and `row_of/TYPE` says which of the rows each node has.
        """
        options = self._options
        epoch = EVALUATION if options.is_evaluation else epoch
        of_batch, number, batch = self._drawn(epoch, step)
        weights = self._weights
        if options.times_of is not None:
            assert of_batch.until_B is not None
            batch, weights = weights_until(self._graph, options.sums or "sum", batch, of_batch.until_B)
        arrays: dict[str, NDArray[Any]] = {
            **self._of_seeds(of_batch, number),
            "counts": np.cumsum([nodes.per_hop for nodes in batch.nodes.values()], axis=1).T.astype(np.int64),
        }
        for kind, nodes in batch.nodes.items():
            arrays[f"ids/{kind}"] = row_ids = nodes.ids_n
            if options.times_of is not None:
                row_ids, arrays[f"row_of/{kind}"] = np.unique(nodes.ids_n, return_inverse=True)
            rows = self._plans[kind].of_batch(row_ids, epoch=epoch, step=step)
            arrays |= {f"rows/{kind}/{key}": values for key, values in rows.items()}
            if options.histories:
                inner = self._owners[kind].of_batch(nodes.ids_n[: sum(nodes.per_hop[:-1])], epoch=epoch, step=step)
                arrays |= {f"histories/{kind}/{key}": values for key, values in inner.items()}
        layers = layers_of(
            batch,
            weights,
            weighted=options.sums is not None,
            is_typed=options.is_typed,
            features=self._features,
            with_roots=options.roots,
            by_place=options.times_of is not None,
        )
        for number, layer in enumerate(layers, start=1):
            arrays |= {f"layer/{number}/{key}": values for key, values in layer.items()}
        return {key: np.ascontiguousarray(values) for key, values in arrays.items()}

    def _seeds_of(self, cache: PartitionCache, seeds: NDArray[np.int64]) -> tuple[Seeds, NDArray[np.int64]]:
        """The seeds, and the node of each whose part makes it a seed of its own: of a pair the second one."""
        options, until_B = self._options, None
        if options.negatives is None:
            if options.times_of is not None:
                until_B = times_of_nodes(cache, options.node_type)[seeds]
            return NodeSeeds(node_type=options.node_type, ids_B=seeds, until_B=until_B), seeds
        [kind], num_nodes = self._graph.edges, self._graph.num_nodes[options.node_type]
        if options.times_of is not None:
            until_B = self._neighbours.times_of_pairs(kind, seeds[0], seeds[1], seeds[2] if len(seeds) > 2 else None)
        return PairSeeds(
            edge_type=kind,
            source_B=seeds[0],
            destination_B=seeds[1],
            label_B=None,
            until_B=until_B,
            num_nodes=(num_nodes, num_nodes),
            ratio=options.negatives,
            seed=options.seed,
        ), seeds[1]

    def _of_seeds(self, seeds: BatchSeeds, number: int) -> Arrays:
        """What the arrays of a batch say of its seeds."""
        name = self._options.node_type
        if self._options.negatives is None:
            return {"seed_row": self._locations[name].row_N[seeds.seeds[name]]}
        pairs = seeds.arrays["edge_label_index"]
        assert not isinstance(pairs, int)
        place = seeds.arrays["input_id"]
        assert not isinstance(place, int)
        return {"pairs": pairs, "num_pairs": np.array([number]), "seed_place": place}

    def _drawn(self, epoch: int, step: int) -> tuple[BatchSeeds, int, SampledBatch]:
        """The seeds of a batch that the part owns, how many they are without random pairs, and what they reach."""
        if epoch not in self._batches:
            while len(self._batches) >= MOST_EPOCHS:
                del self._batches[next(iter(self._batches))]
            self._batches[epoch] = self._schedule.batches(epoch)
        places_b = self._batches[epoch][step]
        is_own_b = self._locations[self._options.node_type].part_N[self._owned_B[places_b]] == self._part
        has_trees = self._options.times_of is not None
        own = self._seeds.batch(places_b[is_own_b], epoch=epoch, has_trees=has_trees)
        batch = self._sampler.sample(self._seeds, places_b, is_own_b, epoch=epoch, step=step)
        return own, int(is_own_b.sum()), batch

    def _remote_ids(self, epoch: int, step: int) -> Ids:
        """The nodes of other parts in a batch, by type, in the order of its rows."""
        _, _, batch = self._drawn(epoch, step)
        ids = {name: nodes.ids_n for name, nodes in batch.nodes.items()}
        if self._options.times_of is not None:
            ids = {name: np.unique(ids_n) for name, ids_n in ids.items()}
        return {name: ids_n[self._locations[name].part_N[ids_n] != self._part] for name, ids_n in ids.items()}

    def _seed_probability(self) -> NDArray[np.float64]:
        """How probable it is that each node is a seed of the part in a batch: float64 [N]."""
        options = self._options
        share = min(1.0, options.batch_size / max(len(self._seeds), 1))
        own_B = self._locations[options.node_type].part_N[self._owned_B] == self._part
        count = self._graph.num_nodes[options.node_type]
        times_N = np.bincount(self._owned_B[own_B], minlength=count).astype(np.float64)
        if isinstance(self._seeds, PairSeeds):
            times_N += np.bincount(self._seeds.source_B[own_B], minlength=count)
            times_N += 2 * self._seeds.ratio * int(own_B.sum()) / count
        return np.minimum(1.0, share * times_N)

    def _with_kept_rows(self, epochs: tuple[int, int]) -> dict[str, RowPlan]:
        """Plans with a cache of rows of other parts, by node type."""
        options, graph = self._options, self._graph
        is_remote = {name: where.part_N != self._part for name, where in self._locations.items()}

        def presampled() -> dict[str, NDArray[np.int64]]:
            drawn = [self._remote_ids(epochs[0] - 1, step) for step in range(self.steps)]
            return {
                name: presampled_counts(count, (ids[name] for ids in drawn)) for name, count in graph.num_nodes.items()
            }

        scores = scores_of(
            options.cache_policy,
            self._neighbours,
            fanouts=dict.fromkeys(graph.edges, options.fanouts),
            seed_probability={options.node_type: self._seed_probability()},
            presampled=presampled,
        )
        look_ahead = 1
        if options.cache_policy == "belady":
            look_ahead = window_of(self.steps, sum(scores[name][is_remote[name]].sum() for name in scores))
        num_kept = {name: min(options.num_kept.get(name, 0), int(is_remote[name].sum())) for name in scores}
        self.miss_share = miss_share(options.cache_policy, [(scores[k][is_remote[k]], num_kept[k]) for k in scores])
        caches = {
            name: make_row_cache(
                options.cache_policy,
                num_kept[name],
                score_N=score_N,
                is_remote_N=is_remote[name],
                look_ahead=look_ahead,
            )
            for name, score_N in scores.items()
        }
        steps = product(range(epochs[0], epochs[1] + 1), range(self.steps))
        planner = KeptRowsPlanner(caches, self._remote_ids, steps, look_ahead)
        return {
            name: KeptRows(where, self._part, self._num_parts, planner=planner, node_type=name, num_kept=num_kept[name])
            for name, where in self._locations.items()
        }


def part_batches(
    folder: Path,
    part: int,
    seeds: NDArray[np.int64],
    options: BatchOptions,
    epochs: tuple[int, int],
    removed: NDArray[np.int64] | None = None,
    open_neighbours: Callable[[PartitionCache], NeighbourSource] | None = None,
) -> PartBatches:
    """The batches of one part of the cache in a folder; see `PartBatches`.

    Raises:
        CacheError: it is no cache, or damaged.
    """
    cache = PartitionCache(folder)
    neighbours = None if open_neighbours is None else open_neighbours(cache)
    return PartBatches(cache, part, seeds, options, epochs, removed, neighbours)
