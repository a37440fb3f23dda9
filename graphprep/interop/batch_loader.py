"""Mini-batches of a store or a cache as PyTorch Geometric's Data and HeteroData, for any training loop.

A batch has what `torch_geometric.loader.NeighborLoader` gives it, by the same names: the graph of the sampled nodes,
the seeds first, `n_id`, `e_id`, `input_id`, `batch_size`, `num_sampled_nodes`, `num_sampled_edges`, and the rows of all
requested arrays. Neither pyg-lib nor torch-sparse is needed: neighbours are drawn by `graphprep.sampling`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.read import PartitionCache
from graphprep.core.bfloat16 import NAME, is_bfloat16
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, EdgeType
from graphprep.errors import UsageError
from graphprep.interop.in_memory import as_array
from graphprep.interop.pyg import flat_mask
from graphprep.sampling.graph import TIME, SamplingGraph, TimesOf, edge_rows, node_arrays, node_rows, sampling_graph
from graphprep.sampling.rows import NodeRows, rows_of_type
from graphprep.sampling.sampler import NeighbourSampler, SampledBatch, SampledEdges, SamplingOptions
from graphprep.sampling.schedule import Schedule
from graphprep.store.store import GraphStore
from graphprep.system.nearest import nearest
from graphprep.system.threads import map_in_order

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data, HeteroData

MASKS = {"train": "train_mask", "val": "val_mask", "test": "test_mask"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seeds:
    """The nodes that batches are made for."""

    node_type: str
    ids_B: NDArray[np.int64]
    """numbers in the store"""
    until_B: NDArray[Any] | None = None
    """int64 or float64, the time of each, where neighbours must not be later"""


class BatchLoader:
    """The mini-batches of an epoch, again at every iteration: `for batch in loader`. Each time is the next epoch."""

    def __init__(
        self,
        source: GraphStore | PartitionCache,
        *,
        seeds: Seeds,
        sampler: NeighbourSampler,
        schedule: Schedule,
        arrays: Mapping[str, Sequence[str]],
        edge_arrays: Mapping[EdgeType, Sequence[str]],
        workers: int,
    ) -> None:
        """Open the arrays; `load_batches` does it from what a person says.

        Args:
            source: whose rows are gathered.
            seeds: all of an epoch.
            sampler: over the same graph.
            schedule: of as many seeds.
            arrays: which arrays of the nodes of each type batches have.
            edge_arrays: which arrays of the edges of each type.
            workers: threads that make batches ahead; 0 makes each when it is asked for.
        """
        self.source, self.seeds, self.sampler, self.schedule = source, seeds, sampler, schedule
        self._rows: dict[str, dict[str, NodeRows]] = {
            name: rows_of_type(source, name, arrays.get(name, ())) for name in sampler.graph.num_nodes
        }
        self._edge_rows = {
            kind: {name: edge_rows(source, kind, name) for name in edge_arrays.get(kind, ())}
            for kind in sampler.graph.edges
        }
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
        places = self.schedule.batches(epoch)
        if self._workers == 0:
            return (self.batch(each, epoch=epoch) for each in places)
        return map_in_order(lambda each: self.batch(each, epoch=epoch), places, workers=self._workers)

    def batch(self, places_b: NDArray[np.int64], *, epoch: int) -> Data | HeteroData:
        """The batch of some seeds, by their places among all of them."""
        until = None if self.seeds.until_B is None else self.seeds.until_B[places_b]
        sampled = self.sampler.sample(
            self.seeds.ids_B[places_b], seed_type=self.seeds.node_type, epoch=epoch, until_B=until
        )
        return self._data(sampled, places_b) if self.is_homogeneous else self._hetero_data(sampled, places_b)

    def _data(self, sampled: SampledBatch, places_b: NDArray[np.int64]) -> Data:
        from torch_geometric.data import Data

        nodes, edges = sampled.nodes[HOMOGENEOUS_NODE], sampled.edges[HOMOGENEOUS_EDGE]
        data = Data(num_nodes=len(nodes.ids_n))
        data.update(self._node_tensors(sampled, HOMOGENEOUS_NODE, places_b))
        data.update(self._edge_tensors(edges, HOMOGENEOUS_EDGE))
        data.num_sampled_nodes, data.num_sampled_edges = list(nodes.per_hop), list(edges.per_hop)
        return data

    def _hetero_data(self, sampled: SampledBatch, places_b: NDArray[np.int64]) -> HeteroData:
        from torch_geometric.data import HeteroData

        data = HeteroData()
        for name, nodes in sampled.nodes.items():
            data[name].num_nodes = len(nodes.ids_n)
            data[name].update(self._node_tensors(sampled, name, places_b))
            data[name].num_sampled_nodes = list(nodes.per_hop)
        for kind, edges in sampled.edges.items():
            data[tuple(kind)].update(self._edge_tensors(edges, kind))
            data[tuple(kind)].num_sampled_edges = list(edges.per_hop)
        return data

    def _node_tensors(self, sampled: SampledBatch, node_type: str, places_b: NDArray[np.int64]) -> dict[str, Any]:
        import torch

        nodes = sampled.nodes[node_type]
        found: dict[str, Any] = {
            name: _tensor(flat_mask(name, rows.gather(nodes.ids_n))) for name, rows in self._rows[node_type].items()
        }
        found["n_id"] = torch.from_numpy(nodes.ids_n)
        if nodes.tree_n is not None:
            found["batch"] = torch.from_numpy(nodes.tree_n)
        if node_type == sampled.seed_type:
            found |= {"input_id": torch.from_numpy(places_b), "batch_size": sampled.num_seeds}
            if self.seeds.until_B is not None:
                found["seed_time"] = torch.from_numpy(self.seeds.until_B[places_b])
        return found

    def _edge_tensors(self, edges: SampledEdges, kind: EdgeType) -> dict[str, Tensor]:
        import torch

        found = {
            "edge_index": torch.from_numpy(np.stack([edges.source_E, edges.destination_E])),
            "e_id": torch.from_numpy(edges.number_E),
        }
        weights = self.sampler.graph.edges[kind].data
        if weights is not None:
            found["edge_weight"] = torch.from_numpy(weights[edges.number_E])
        for name, rows in self._edge_rows[kind].items():
            found["edge_time" if name == TIME else name] = _tensor(rows[edges.number_E])
        return found


def load_batches(
    source: GraphStore | PartitionCache,
    *,
    sampling: SamplingOptions,
    input_nodes: Any,
    input_time: Any,
    times_of: TimesOf | None,
    split: int,
    arrays: Sequence[str] | None,
    schedule: Mapping[str, Any],
    workers: int,
) -> BatchLoader:
    """A loader of what a person says; `graphprep.loader` has the words for it.

    Raises:
        UsageError: options do not go together, or there are no such nodes, times or arrays.
    """
    graph = sampling_graph(source, times_of=times_of)
    seeds = _seeds(source, graph, input_nodes, input_time, split)
    sampler = NeighbourSampler(graph, sampling)
    if not sampler.has_trees and len(np.unique(seeds.ids_B)) < len(seeds.ids_B):
        raise UsageError("input_nodes has a node twice; give each once, or disjoint=True")
    known = {name: [each for each in node_arrays(source, name) if each != "original_id"] for name in graph.num_nodes}
    of_edges = {kind: list(source.edge_arrays(kind)) for kind in graph.edges}
    if arrays is not None:
        every = {each for names in (*known.values(), *of_edges.values()) for each in names}
        if absent := [name for name in arrays if name not in every]:
            raise UsageError(
                f"there is no array {absent[0]!r}{nearest(absent[0], every)}; arrays: {', '.join(sorted(every))}"
            )
        known = {name: [each for each in names if each in arrays] for name, names in known.items()}
        of_edges = {kind: [each for each in names if each in arrays] for kind, names in of_edges.items()}
    return BatchLoader(
        source,
        seeds=seeds,
        sampler=sampler,
        schedule=Schedule(num_seeds=len(seeds.ids_B), seed=sampling.seed, **schedule),
        arrays=known,
        edge_arrays=of_edges,
        workers=workers,
    )


def _seeds(
    source: GraphStore | PartitionCache, graph: SamplingGraph, input_nodes: Any, input_time: Any, split: int
) -> Seeds:
    """The seeds that a person means.

    Raises:
        UsageError: as for `load_batches`.
    """
    node_type, chosen = _type_and_nodes(source, graph, input_nodes)
    count = graph.num_nodes[node_type]
    if isinstance(chosen, str):
        if chosen not in MASKS:
            raise UsageError(f"input_nodes is {chosen!r}{nearest(chosen, MASKS)}; give train, val, test, or nodes")
        if MASKS[chosen] not in node_arrays(source, node_type):
            raise UsageError(f"{node_type} has no {MASKS[chosen]}; give input_nodes, an array of nodes")
        masks = node_rows(source, node_type, MASKS[chosen])
        if not 0 <= split < masks.shape[1]:
            raise UsageError(f"there is no split {split}; {node_type} has {masks.shape[1]}, from 0")
        ids = np.flatnonzero(masks[:, split])
    else:
        ids = np.arange(count) if chosen is None else _numbers(chosen, count)
    if len(ids) == 0:
        raise UsageError("input_nodes has no nodes; give at least one")
    return Seeds(node_type=node_type, ids_B=ids, until_B=_times(source, graph, node_type, ids, input_time))


def _type_and_nodes(source: GraphStore | PartitionCache, graph: SamplingGraph, input_nodes: Any) -> tuple[str, Any]:
    names = list(graph.num_nodes)
    if isinstance(input_nodes, tuple) and len(input_nodes) == 2 and isinstance(input_nodes[0], str):
        if input_nodes[0] not in names:
            raise UsageError(f"there is no node type {input_nodes[0]!r}; types: {', '.join(names)}")
        return input_nodes
    labelled = [name for name in names if "y" in node_arrays(source, name)]
    candidates = names if len(names) == 1 else labelled
    if len(candidates) != 1:
        raise UsageError(f"there are several node types; give input_nodes as (TYPE, nodes), of {', '.join(names)}")
    return candidates[0], input_nodes


def _numbers(nodes: Any, count: int) -> NDArray[np.int64]:
    """Nodes as int64, of numbers or a mask."""
    found = as_array(nodes, "input_nodes")
    if found.dtype == bool and found.shape == (count,):
        return np.flatnonzero(found)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise UsageError(f"input_nodes are {found.dtype} of shape {found.shape}; give numbers or a mask [{count}]")
    wrong = np.flatnonzero((found < 0) | (found >= count))
    if len(wrong):
        raise UsageError(f"input_nodes[{wrong[0]}] is {found[wrong[0]]}; nodes are 0 .. {count - 1}")
    return found.astype(np.int64)


def _times(
    source: GraphStore | PartitionCache, graph: SamplingGraph, node_type: str, ids: NDArray[np.int64], input_time: Any
) -> NDArray[Any] | None:
    """The time of each seed: as requested, or the node's own."""
    if not (graph.edge_times or graph.node_times):
        if input_time is not None:
            raise UsageError("input_time needs the times of neighbours; give time='edges' or 'nodes'")
        return None
    if input_time is None:
        if TIME not in node_arrays(source, node_type):
            raise UsageError(f"{node_type} has no times of its own; give input_time, a number for each of input_nodes")
        found = node_rows(source, node_type, TIME)[ids]
    else:
        found = as_array(input_time, "input_time")
    if found.shape != ids.shape or found.dtype.kind not in "iuf":
        raise UsageError(f"input_time are {found.dtype} of shape {found.shape}; give {len(ids):,} numbers, one a seed")
    return found.astype(np.float64 if found.dtype.kind == "f" else np.int64)


def _tensor(array: NDArray[Any]) -> Tensor:
    """A tensor of an array that nobody else has, in this machine's byte order; bfloat16 is torch's own."""
    import torch

    if is_bfloat16(array.dtype):
        return _tensor(np.ascontiguousarray(array[NAME]).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array, array.dtype.newbyteorder("=")))
