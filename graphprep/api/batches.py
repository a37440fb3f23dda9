"""Mini-batches of stores and caches, for a training loop of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from graphprep.api.caches import Cache, Store
from graphprep.api.call import library_call, location_of
from graphprep.api.options import CallOptions
from graphprep.cache.read import PartitionCache, open_cache
from graphprep.errors import UsageError
from graphprep.store.store import GraphStore, open_store
from graphprep.system.threads import cores

if TYPE_CHECKING:
    from graphprep.interop.batch_loader import BatchLoader
    from graphprep.sampling.graph import TimesOf
    from graphprep.sampling.sampler import Fanouts, TimeStrategy


@library_call(CallOptions)
def loader(
    graph: Store | Cache,
    *,
    num_neighbors: Fanouts,
    input_nodes: Any = "train",
    batch_size: int = 1024,
    shuffle: bool = True,
    replace: bool = False,
    weighted: bool = False,
    disjoint: bool = False,
    time: TimesOf | None = None,
    input_time: Any = None,
    time_strategy: TimeStrategy = "uniform",
    arrays: Sequence[str] | None = None,
    split: int = 0,
    seed: int = 0,
    rank: int = 0,
    world_size: int = 1,
    drop_last: bool = False,
    num_workers: int | None = None,
    **_: Unpack[CallOptions],
) -> BatchLoader:
    """Mini-batches with sampled neighbours, as PyTorch Geometric's `NeighborLoader` gives them.

    Draws are hashes of `seed`, the epoch, the hop and the node. So the batches of an epoch are the same for any number
    of workers, ranks and parts; `num_workers` are threads, since the kernels release Python's lock.

    Args:
        graph: a store or a cache, open, or by its name, path or URL. The topology is read into memory, 4 bytes an edge;
            rows of a cache stay in its files until a batch needs them, those of a store are read into memory.
        num_neighbors: neighbours a node in each hop, from the seeds on: [15, 10, 5]; -1 takes all. With several edge
            types {TYPE: [...]}, by key or (source, relation, destination), or one list for all.
        input_nodes: the seeds: train, val, test, an array of nodes [B], a mask [N], or None for all nodes; with several
            node types (TYPE, one of these), or the one type with labels.
        batch_size: seeds a batch.
        shuffle: another order of the seeds in each epoch.
        replace: draw with replacement.
        weighted: draw in proportion to the edges' weights.
        disjoint: a tree of its own for each seed, `batch` says which each node belongs to; always so with `time`.
        time: whose array `time` says from when on an edge is there: `edges`, or `nodes`, where they begin. A seed's
            tree has no edge that is later than the seed.
        input_time: a number for each seed [B]; by default the nodes' own times.
        time_strategy: `uniform` draws among all that are not later, `last` takes the latest.
        arrays: names of the node and edge arrays that batches have; by default all but `original_id`.
        split: which column of the masks.
        seed: decides all draws and the order.
        rank: of this process.
        world_size: of how many; batch b is rank b % world_size's.
        drop_last: leave out a last batch that is not full, and batches that not every rank has one of. Otherwise ranks
            repeat their first batches until all have as many.
        num_workers: threads that make batches ahead; 0 makes each when it is asked for; by default one a core.

    Returns:
        An object to iterate over, once an epoch: `Data` or `HeteroData` with `n_id`, `e_id` (numbers in the store),
        `input_id` (places among the seeds), `batch_size`, `num_sampled_nodes`, `num_sampled_edges`, x, y and so on.
        `len()` is the number of batches, `set_epoch(n)` says which epoch the next iteration is.

    Raises:
        UsageError: options do not go together, or there are no such nodes, times or arrays.
        DatasetError, CacheError: there is no such graph, or it is damaged.
    """
    from graphprep.interop.batch_loader import load_batches
    from graphprep.sampling.sampler import SamplingOptions

    if batch_size < 1:
        raise UsageError(f"batch_size is {batch_size}; give 1 or more")
    if num_workers is not None and num_workers < 0:
        raise UsageError(f"num_workers is {num_workers}; give 0 or more")
    if time not in (None, "edges", "nodes"):
        raise UsageError(f"time is {time!r}; give 'edges' or 'nodes'")
    if time_strategy not in ("uniform", "last"):
        raise UsageError(f"time_strategy is {time_strategy!r}; give 'uniform' or 'last'")
    if not 0 <= rank < world_size:
        raise UsageError(f"rank is {rank} of world_size {world_size}; ranks are 0 .. world_size - 1")
    return load_batches(
        _opened(graph),
        sampling=SamplingOptions(
            fanouts=num_neighbors,
            seed=seed,
            with_replacement=replace,
            weighted=weighted,
            disjoint=disjoint,
            time_strategy=time_strategy,
        ),
        input_nodes=input_nodes,
        input_time=input_time,
        times_of=time,
        split=split,
        arrays=arrays,
        schedule={
            "batch_size": batch_size,
            "shuffle": shuffle,
            "rank": rank,
            "world_size": world_size,
            "drop_last": drop_last,
        },
        workers=cores() if num_workers is None else num_workers,
    )


def _opened(graph: Store | Cache) -> GraphStore | PartitionCache:
    """A store or a cache, by whatever names it."""
    from pipelines.look import find

    if isinstance(graph, GraphStore | PartitionCache):
        return graph
    kind, place = find(location_of(graph))
    return open_cache(place) if kind == "cache" else open_store(place)
