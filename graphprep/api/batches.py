"""Mini-batches of stores and caches, for a training loop of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from graphprep.api.caches import Cache, Store
from graphprep.api.call import library_call, location_of
from graphprep.api.options import CallOptions
from graphprep.cache.read import PartitionCache, open_cache
from graphprep.errors import UsageError
from graphprep.store.store import GraphStore, open_store
from graphprep.system.nearest import nearest
from graphprep.system.threads import cores

if TYPE_CHECKING:
    from graphprep.interop.batch_loader import BatchLoader
    from graphprep.interop.batch_request import BatchOptions
    from graphprep.sampling.graph import TimesOf
    from graphprep.sampling.samplers.neighbour import Fanouts, TimeStrategy


@library_call(CallOptions)
def loader(
    graph: Store | Cache,
    *,
    num_neighbors: Fanouts | None = None,
    sampler: Literal["neighbour", "ladies", "vertices"] = "neighbour",
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
        graph: a store or a cache, open, or by its name or path; a store by its URL too. The topology is read into
            memory, 4 bytes an edge; rows of a cache stay in its files until a batch needs them, those of a store are
            read into memory.
        num_neighbors: neighbours a node in each hop, from the seeds on: [15, 10, 5]; -1 takes all. With several edge
            types {TYPE: [...]}, by key or (source, relation, destination), or one list for all. With `ladies` nodes a
            hop and edge type; not with `vertices`.
        sampler: `neighbour` draws neighbours for each node, `ladies` the nodes of each hop together, by their share in
            the means over neighbours, `vertices` the nodes of a step evenly, with all edges among them. With the latter
            two `edge_weight` says what each edge counts: the sum of weights times rows is on average the mean over all
            neighbours.
        input_nodes: the seeds: train, val, test, an array of nodes [B], a mask [N], or None for all nodes; with several
            node types (TYPE, one of these), or the one type with labels.
        batch_size: seeds a batch; with `vertices` nodes a step, on average.
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
    from graphprep.interop.batch_request import node_batches

    options = _options(
        num_neighbors,
        sampler=sampler,
        batch_size=batch_size,
        shuffle=shuffle,
        replace=replace,
        weighted=weighted,
        disjoint=disjoint,
        time=time,
        time_strategy=time_strategy,
        arrays=arrays,
        seed=seed,
        rank=rank,
        world_size=world_size,
        drop_last=drop_last,
        num_workers=num_workers,
    )
    return node_batches(_opened(graph), options, input_nodes=input_nodes, input_time=input_time, split=split)


@library_call(CallOptions)
def link_loader(
    graph: Store | Cache,
    *,
    num_neighbors: Fanouts,
    edge_label_index: Any = None,
    edge_label: Any = None,
    edge_label_time: Any = None,
    edge_type: Any = None,
    reverse_edge_type: Any = None,
    neg_sampling_ratio: float | None = None,
    exclude: bool = True,
    batch_size: int = 1024,
    shuffle: bool = True,
    replace: bool = False,
    weighted: bool = False,
    disjoint: bool = False,
    time: TimesOf | None = None,
    time_strategy: TimeStrategy = "uniform",
    arrays: Sequence[str] | None = None,
    seed: int = 0,
    rank: int = 0,
    world_size: int = 1,
    drop_last: bool = False,
    num_workers: int | None = None,
    **_: Unpack[CallOptions],
) -> BatchLoader:
    """Mini-batches for pairs of nodes, as PyTorch Geometric's `LinkNeighborLoader` gives them.

    Args:
        graph, num_neighbors, batch_size, shuffle, replace, weighted, disjoint, time, time_strategy, arrays, seed, rank,
            world_size, drop_last, num_workers: as for `loader`; a batch has `batch_size` pairs and their random ones.
        edge_label_index: the pairs, [2, B] numbers of nodes, sources above destinations; by default all edges.
        edge_label: [B] or [B, C], what the pairs are labelled with; by default 1, and 0 for random pairs.
        edge_label_time: [B], the time of each pair, with `time`: neither end's tree has a later edge. By default the
            edges' own, where the pairs are all edges.
        edge_type: from whose source type to whose destination type pairs lead; may be left out if there is one.
        reverse_edge_type: the type with the reverses of its edges.
        neg_sampling_ratio: random pairs for each pair, drawn by a hash of seed, epoch and pair, both ends evenly; one
            may be an edge. By default 1, and 0 with `edge_label`.
        exclude: leave edges between the ends of a pair out of its batch, in both directions, so that a model is not
            given what it is to predict; random pairs are not looked for.

    Returns:
        As for `loader`, with `edge_label_index` (numbers of nodes in the batch, [2, pairs]), `edge_label`, `input_id`
        (the pairs' places; the random ones follow them), and with `time` `edge_label_time`.

    Raises:
        UsageError: options do not go together, or there are no such nodes, edge types, times or arrays.
        DatasetError, CacheError: there is no such graph, or it is damaged.
    """
    from graphprep.interop.batch_request import pair_batches

    options = _options(
        num_neighbors,
        batch_size=batch_size,
        shuffle=shuffle,
        replace=replace,
        weighted=weighted,
        disjoint=disjoint,
        time=time,
        time_strategy=time_strategy,
        arrays=arrays,
        seed=seed,
        rank=rank,
        world_size=world_size,
        drop_last=drop_last,
        num_workers=num_workers,
    )
    return pair_batches(
        _opened(graph),
        options,
        pairs=edge_label_index,
        labels=edge_label,
        times=edge_label_time,
        edge_type=edge_type,
        reverse_edge_type=reverse_edge_type,
        ratio=neg_sampling_ratio,
        exclude=exclude,
    )


def _options(
    num_neighbors: Fanouts | None,
    *,
    sampler: str = "neighbour",
    batch_size: int,
    shuffle: bool,
    replace: bool,
    weighted: bool,
    disjoint: bool,
    time: TimesOf | None,
    time_strategy: TimeStrategy,
    arrays: Sequence[str] | None,
    seed: int,
    rank: int,
    world_size: int,
    drop_last: bool,
    num_workers: int | None,
) -> BatchOptions:
    """What both loaders take.

    Raises:
        UsageError: a value is out of its range.
    """
    from graphprep.interop.batch_request import SAMPLERS, BatchOptions, check_whole
    from graphprep.sampling.samplers.neighbour import SamplingOptions

    check_whole("batch_size", batch_size, 1)
    check_whole("num_workers", cores() if num_workers is None else num_workers, 0)
    check_whole("seed", seed)
    check_whole("rank", rank)
    check_whole("world_size", world_size)
    if isinstance(arrays, str):
        raise UsageError(f"arrays is {arrays!r}; give a list of names, as [{arrays!r}]")
    if time not in (None, "edges", "nodes"):
        raise UsageError(f"time is {time!r}; give 'edges' or 'nodes'")
    if time_strategy not in ("uniform", "last"):
        raise UsageError(f"time_strategy is {time_strategy!r}; give 'uniform' or 'last'")
    if sampler not in SAMPLERS:
        raise UsageError(f"sampler is {sampler!r}{nearest(sampler, SAMPLERS)}; give one of {', '.join(SAMPLERS)}")
    if sampler != "neighbour":
        unusable = {"replace": replace, "weighted": weighted, "disjoint": disjoint, "time": time is not None}
        if sampler == "vertices":
            unusable |= {"num_neighbors": num_neighbors is not None, "drop_last": drop_last, "shuffle": not shuffle}
        if any(unusable.values()):
            name = next(name for name, is_used in unusable.items() if is_used)
            raise UsageError(f"{name} has no meaning with sampler={sampler!r}; leave one of them out")
    if num_neighbors is None and sampler != "vertices":
        raise UsageError("num_neighbors is missing; give whole numbers, one for each hop, as [15, 10]")
    if not 0 <= rank < world_size:
        raise UsageError(f"rank is {rank} of world_size {world_size}; ranks are 0 .. world_size - 1")
    sampling = SamplingOptions(
        fanouts=[0] if num_neighbors is None else num_neighbors,
        seed=seed,
        with_replacement=replace,
        weighted=weighted,
        disjoint=disjoint,
        time_strategy=time_strategy,
    )
    return BatchOptions(
        sampling=sampling,
        sampler=sampler,
        times_of=time,
        arrays=arrays,
        batch_size=batch_size,
        shuffle=shuffle,
        rank=rank,
        world_size=world_size,
        drop_last=drop_last,
        workers=cores() if num_workers is None else num_workers,
    )


def _opened(graph: Store | Cache) -> GraphStore | PartitionCache:
    """A store or a cache, by whatever names it.

    Raises:
        UsageError: it is an object of another kind.
        DatasetError, CacheError: there is none, or it is damaged.
    """
    from pipelines.look import find

    if isinstance(graph, GraphStore | PartitionCache):
        return graph
    if not isinstance(graph, str | Path):
        raise UsageError(
            f"graph is of the type {type(graph).__name__}; give a store, as of gp.from_pyg, a cache, or the name or "
            "path of one"
        )
    kind, place = find(location_of(graph))
    return open_cache(place) if kind == "cache" else open_store(place)
