"""What a part draws of a batch of all parts, by each of the trainer's samplers (`--sampler`, `--draw`)."""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from graphprep.sampling.neighbour_source import NeighbourSource
from graphprep.sampling.reached import reached_from
from graphprep.sampling.samplers.ladies import LayerSampler
from graphprep.sampling.samplers.neighbour import NeighbourSampler, SampledBatch, SamplingOptions, TimeStrategy
from graphprep.sampling.samplers.vertices import VertexSampler, VertexSchedule
from graphprep.sampling.samplers.weighted import WeightedSampler
from graphprep.sampling.schedule import Schedule
from graphprep.sampling.seeds import Seeds

SamplerName = Literal["neighbour", "ladies", "vertices"]
DrawName = Literal["uniform", "replacement", "weighted"]


class PartSampler(Protocol):
    """Draws a part's share of a batch."""

    def sample(
        self, seeds: Seeds, places_b: NDArray[np.int64], is_own_b: NDArray[np.bool_], *, epoch: int, step: int
    ) -> SampledBatch:
        """What the part's seeds reach.

        Args:
            seeds: all of them.
            places_b: those of the batch.
            is_own_b: which of these are the part's.
            epoch, step: which batch it is.
        """
        ...


class EachNode:
    """Draws neighbours for each node: what is drawn for one does not depend on the batch."""

    def __init__(self, sampler: NeighbourSampler) -> None:
        self._sampler = sampler

    def sample(
        self,
        seeds: Seeds,
        places_b: NDArray[np.int64],
        is_own_b: NDArray[np.bool_],
        *,
        epoch: int,
        step: int,  # noqa: ARG002
    ) -> SampledBatch:
        own = seeds.batch(places_b[is_own_b], epoch=epoch, has_trees=self._sampler.has_trees)
        return self._sampler.sample(own.seeds, epoch=epoch, until_B=own.until_B)


class Together:
    """Draws the nodes of each hop together, for the seeds of all parts."""

    def __init__(self, sampler: LayerSampler) -> None:
        self._sampler = sampler

    def sample(
        self,
        seeds: Seeds,
        places_b: NDArray[np.int64],
        is_own_b: NDArray[np.bool_],
        *,
        epoch: int,
        step: int,  # noqa: ARG002
    ) -> SampledBatch:
        every, own = (seeds.batch(some, epoch=epoch, has_trees=False) for some in (places_b, places_b[is_own_b]))
        return reached_from(self._sampler.sample(every.seeds, epoch=epoch), own.seeds)


class AmongVertices:
    """Takes all edges among the nodes of a step, layer by layer."""

    def __init__(self, sampler: VertexSampler, *, num_hops: int) -> None:
        self._sampler, self._num_hops = sampler, num_hops

    def sample(
        self, seeds: Seeds, places_b: NDArray[np.int64], is_own_b: NDArray[np.bool_], *, epoch: int, step: int
    ) -> SampledBatch:
        own = seeds.batch(places_b[is_own_b], epoch=epoch, has_trees=False)
        step_of_all = self._sampler.sample({}, epoch=epoch, step=step)
        return reached_from(step_of_all, own.seeds, num_hops=self._num_hops)


def sampler_and_schedule(
    neighbours: NeighbourSource,
    node_type: str,
    ids_B: NDArray[np.int64],
    *,
    sampler: SamplerName,
    draw: DrawName,
    fanouts: list[int],
    batch_size: int,
    seed: int,
    time_strategy: TimeStrategy = "uniform",
) -> tuple[PartSampler, Schedule | VertexSchedule]:
    """What draws the batches, and what says which seeds each one has.

    Args:
        neighbours: where in-edges are; all of them, but for uniform draws of each node's neighbours.
        node_type: of the seeds, if they are nodes.
        ids_B: the seeds, or of pairs the second nodes.
        sampler, draw, fanouts, batch_size, seed, time_strategy: of the run.

    Raises:
        UsageError: there are no weights to draw by.
    """
    graph = neighbours.graph
    if sampler == "vertices":
        total = sum(graph.num_nodes.values())
        vertices = VertexSampler(graph, share=min(1.0, batch_size / total), seed=seed)
        steps = VertexSchedule(sampler=vertices, node_type=node_type, ids_B=ids_B, num_steps=-(-total // batch_size))
        return AmongVertices(vertices, num_hops=len(fanouts)), steps
    schedule = Schedule(num_seeds=len(ids_B), batch_size=batch_size, seed=seed, shuffle=True)
    options = SamplingOptions(
        fanouts=fanouts,
        seed=seed,
        every_node=True,
        with_replacement=draw == "replacement",
        weighted=draw == "weighted",
        time_strategy=time_strategy,
    )
    if sampler == "ladies":
        return Together(LayerSampler(graph, options)), schedule
    return EachNode(WeightedSampler(graph, options) if draw == "weighted" else neighbours.sampler(options)), schedule
