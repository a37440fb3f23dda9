"""Mini-batches of a store or a cache as PyTorch Geometric's Data and HeteroData, for any training loop.

A batch has what `torch_geometric.loader.NeighborLoader` gives it, by the same names: the graph of the sampled nodes,
the seeds first, `n_id`, `e_id`, `input_id`, `batch_size`, `num_sampled_nodes`, `num_sampled_edges`, and the rows of all
requested arrays. Neither pyg-lib nor torch-sparse is needed: neighbours are drawn by `graphprep.sampling`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.read import PartitionCache
from graphprep.core.bfloat16 import NAME, is_bfloat16
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, EdgeType
from graphprep.interop.pyg import flat_mask
from graphprep.sampling.excluded_edges import without_pairs
from graphprep.sampling.graph import TIME, edge_rows
from graphprep.sampling.rows import ArrayRows, rows_of_type
from graphprep.sampling.samplers.neighbour import NeighbourSampler, SampledBatch, SampledEdges, SampledNodes
from graphprep.sampling.samplers.vertices import VertexSampler, VertexSchedule
from graphprep.sampling.schedule import Schedule
from graphprep.sampling.seeds import BatchSeeds, Seeds
from graphprep.store.store import GraphStore
from graphprep.system.threads import map_in_order

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data, HeteroData


class BatchLoader:
    """The mini-batches of an epoch, again at every iteration: `for batch in loader`. Each time is the next epoch."""

    def __init__(
        self,
        source: GraphStore | PartitionCache,
        *,
        seeds: Seeds,
        sampler: NeighbourSampler | VertexSampler,
        schedule: Schedule | VertexSchedule,
        arrays: Mapping[str, Sequence[str]],
        edge_arrays: Mapping[EdgeType, Sequence[str]],
        workers: int,
        excluded: Mapping[EdgeType, bool] | None = None,
    ) -> None:
        """Open the arrays; `batch_request` does it from what a person says.

        Args:
            source: whose rows are gathered.
            seeds: all of an epoch.
            sampler: over the same graph.
            schedule: of as many seeds, and of the same steps if they are drawn.
            arrays: which arrays of the nodes of each type batches have.
            edge_arrays: which arrays of the edges of each type.
            workers: threads that make batches ahead; 0 makes each when it is asked for.
            excluded: of which edge types batches lack the edges between the ends of a pair that is a seed; true where
                these are the pairs' reverses.
        """
        self.source, self.seeds, self.sampler, self.schedule = source, seeds, sampler, schedule
        self._excluded = excluded or {}
        self._rows: dict[str, dict[str, ArrayRows]] = {
            name: rows_of_type(source, name, arrays.get(name, ())) for name in sampler.graph.num_nodes
        }
        self._edge_rows = {kind: edge_rows(source, kind, edge_arrays.get(kind, ())) for kind in sampler.graph.edges}
        self._workers, self._epoch = workers, 0

    @property
    def is_homogeneous(self) -> bool:
        """Whether batches are Data, and not HeteroData."""
        graph = self.sampler.graph
        return list(graph.num_nodes) == [HOMOGENEOUS_NODE] and list(graph.edges) == [HOMOGENEOUS_EDGE]

    def __len__(self) -> int:
        return self.schedule.num_batches

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next iteration is, as of `torch.utils.data.DistributedSampler`."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[Data | HeteroData]:
        epoch = self._epoch
        self._epoch += 1
        places = list(enumerate(self.schedule.batches(epoch)))
        if self._workers == 0:
            return (self.batch(each, number=number, epoch=epoch) for number, each in places)
        return map_in_order(
            lambda each: self.batch(each[1], number=each[0], epoch=epoch), places, workers=self._workers
        )

    def batch(self, places_b: NDArray[np.int64], *, number: int, epoch: int) -> Data | HeteroData:
        """A batch of an epoch.

        Args:
            places_b: of its seeds among all of them.
            number: counts this rank's batches.
            epoch: which one.
        """
        of_batch = self.seeds.batch(places_b, epoch=epoch, has_trees=self.sampler.has_trees)
        if isinstance(self.sampler, VertexSampler):
            assert isinstance(self.schedule, VertexSchedule)
            sampled = self.sampler.sample(of_batch.seeds, epoch=epoch, step=self.schedule.step_of(number))
        else:
            sampled = self.sampler.sample(of_batch.seeds, epoch=epoch, until_B=of_batch.until_B)
        if self._excluded:
            sampled = without_pairs(sampled, of_batch, len(places_b), self._excluded)
        return self._data(sampled, of_batch) if self.is_homogeneous else self._hetero_data(sampled, of_batch)

    def _data(self, sampled: SampledBatch, of_batch: BatchSeeds) -> Data:
        from torch_geometric.data import Data

        nodes, edges = sampled.nodes[HOMOGENEOUS_NODE], sampled.edges[HOMOGENEOUS_EDGE]
        data = Data(num_nodes=len(nodes.ids_n))
        data.update(self._node_tensors(nodes, HOMOGENEOUS_NODE))
        data.update(self._edge_tensors(edges, HOMOGENEOUS_EDGE))
        data.update(_seed_tensors(of_batch))
        data.num_sampled_nodes, data.num_sampled_edges = list(nodes.per_hop), list(edges.per_hop)
        return data

    def _hetero_data(self, sampled: SampledBatch, of_batch: BatchSeeds) -> HeteroData:
        from torch_geometric.data import HeteroData

        data = HeteroData()
        for name, nodes in sampled.nodes.items():
            data[name].num_nodes = len(nodes.ids_n)
            data[name].update(self._node_tensors(nodes, name))
            data[name].num_sampled_nodes = list(nodes.per_hop)
        for kind, edges in sampled.edges.items():
            data[tuple(kind)].update(self._edge_tensors(edges, kind))
            data[tuple(kind)].num_sampled_edges = list(edges.per_hop)
        of = of_batch.of
        data[of if isinstance(of, str) else tuple(of)].update(_seed_tensors(of_batch))
        return data

    def _node_tensors(self, nodes: SampledNodes, node_type: str) -> dict[str, Any]:
        import torch

        found: dict[str, Any] = {
            name: _tensor(flat_mask(name, rows.gather(nodes.ids_n))) for name, rows in self._rows[node_type].items()
        }
        found["n_id"] = torch.from_numpy(nodes.ids_n)
        if nodes.tree_n is not None:
            found["batch"] = torch.from_numpy(nodes.tree_n)
        return found

    def _edge_tensors(self, edges: SampledEdges, kind: EdgeType) -> dict[str, Tensor]:
        import torch

        found = {
            "edge_index": torch.from_numpy(np.stack([edges.source_E, edges.destination_E])),
            "e_id": torch.from_numpy(edges.number_E),
        }
        weights = self.sampler.graph.edges[kind].data
        if edges.weight_E is not None:
            found["edge_weight"] = torch.from_numpy(edges.weight_E)
        elif weights is not None:
            found["edge_weight"] = torch.from_numpy(weights[edges.number_E])
        for name, rows in self._edge_rows[kind].items():
            found["edge_time" if name == TIME else name] = _tensor(rows[edges.number_E])
        return found


def _seed_tensors(of_batch: BatchSeeds) -> dict[str, Any]:
    return {name: each if isinstance(each, int) else _tensor(each) for name, each in of_batch.arrays.items()}


def _tensor(array: NDArray[Any]) -> Tensor:
    """A tensor of an array that nobody else has, in this machine's byte order; bfloat16 is torch's own."""
    import torch

    if is_bfloat16(array.dtype):
        return _tensor(np.ascontiguousarray(array[NAME]).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array, array.dtype.newbyteorder("=")))
