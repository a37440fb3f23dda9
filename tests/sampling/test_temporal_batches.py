"""Batches by time: nothing that is later than a seed is in its tree, nor in what its edges count."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from graphprep.sampling.batch_options import BatchOptions
from graphprep.sampling.batches import part_batches
from graphprep.sampling.graph import TIME
from tests.trainer.handmade_cache import HandmadeGraph, make_cache, random_graph

NODES, PARTS = 40, 2
BATCH: dict[str, Any] = {"fanouts": [3, 2], "seed": 1, "is_typed": False, "node_type": "node", "edge_features": TIME}


def timed_graph(seed: int = 0) -> HandmadeGraph:
    """Edges with weights, loops and copies, and times from 0 to 99 of edges and of nodes."""
    rng = np.random.default_rng(seed)
    graph = random_graph(num_nodes=NODES, num_edges=300, weighted=True, loops_and_duplicates=True, seed=seed)
    graph.edge_arrays = {TIME: rng.integers(0, 100, len(graph.src))}
    graph.node_arrays = {TIME: rng.integers(0, 100, NODES)}
    return graph


def cache_of(graph: HandmadeGraph, folder: Path) -> Path:
    return make_cache(folder / "c", graph, np.random.default_rng(0).integers(0, PARTS, NODES), PARTS)


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> tuple[HandmadeGraph, Path]:
    graph = timed_graph()
    return graph, cache_of(graph, tmp_path_factory.mktemp("timed"))


def edges_of(arrays: Mapping[str, NDArray[Any]], layer: int) -> list[tuple[int, int, float, float]]:
    """Source and destination of each edge of a layer, their places in the batch; what it counts and its feature."""
    num_own = arrays["counts"][2 - layer, 0]
    found = []
    for side, first in (("own", 0), ("halo", num_own)):
        of = {key: arrays[f"layer/{layer}/{side}_{key}"] for key in ("indptr", "indices", "weights", "features")}
        rows = np.repeat(np.arange(num_own), np.diff(of["indptr"]))
        found += list(
            zip((of["indices"] + first).tolist(), rows.tolist(), of["weights"], of["features"][:, 0], strict=True)
        )
    return found


def seed_times(graph: HandmadeGraph, arrays: Mapping[str, NDArray[Any]], seeds: Any) -> list[float]:
    """The time of each seed node of a batch, in their order."""
    ids = arrays["ids/node"][: arrays["counts"][0, 0]]
    if seeds.ndim == 1:
        return graph.node_arrays[TIME][ids].tolist()  # type: ignore[no-any-return]
    place = arrays["seed_place"]
    found = []
    for source, destination, copy in seeds[:, place].T.tolist():
        found.append(graph.edge_arrays[TIME][(graph.src == source) & (graph.dst == destination)][copy])
    return found * 2


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 3),
    time_strategy=st.sampled_from(["uniform", "last"]),
    draw=st.sampled_from(["uniform", "weighted"]),
    of=st.sampled_from(["edges", "nodes", "pairs"]),
    part=st.integers(0, PARTS - 1),
)
def test_no_edge_is_later_than_its_seed(
    tmp_path_factory: pytest.TempPathFactory, seed: int, time_strategy: str, draw: str, of: str, part: int
) -> None:
    """Guards against leaks: an edge of a later time, or from a later node, in any hop of any seed's tree."""
    graph = timed_graph(seed)
    cache = cache_of(graph, tmp_path_factory.mktemp("leaks"))
    pairs, seeds = of == "pairs", np.arange(NODES)
    if pairs:
        order = np.lexsort((graph.src, graph.dst))
        ends = np.stack([graph.src, graph.dst])[:, order]
        is_first = np.r_[True, (np.diff(ends) != 0).any(0)]
        place = np.arange(len(order))
        copies = place - np.maximum.accumulate(np.where(is_first, place, 0))
        seeds = np.concatenate([ends, copies[None]])
    options: dict[str, Any] = {
        "batch_size": 30,
        "sums": "mean",
        "times_of": "nodes" if of == "nodes" else "edges",
        "negatives": 0 if pairs else None,
        "draw": "uniform" if time_strategy == "last" else draw,
        "time_strategy": time_strategy,
    }
    batches, num_edges = part_batches(cache, part, seeds, BatchOptions(**BATCH, **options), (1, 1)), 0
    for step in range(batches.steps):
        arrays = batches.make(1, step)
        until = dict(enumerate(seed_times(graph, arrays, seeds)))
        ids = arrays["ids/node"]
        for layer in (2, 1):
            for source, destination, _, time in edges_of(arrays, layer):
                assert until.setdefault(source, until[destination]) == until[destination], "a node of two trees"
                time_of_edge = graph.node_arrays[TIME][ids[source]] if of == "nodes" else time
                assert time_of_edge <= until[destination]
                num_edges += 1
        assert len(until) == len(ids)
        assert sum(values.nbytes for values in arrays.values()) < batches.most_bytes()
        for name in ("own_row", "requested_row"):
            rows = arrays[f"rows/node/{name}"]
            assert len(np.unique(rows)) <= len(rows) <= len(np.unique(ids))
        assert arrays["row_of/node"].max(initial=-1) < len(np.unique(ids))
    assert num_edges > 0


@pytest.mark.parametrize("of", ["edges", "nodes"])
@pytest.mark.parametrize("sums", ["gcn", "mean", "sum", "messages"])
def test_all_neighbours_so_far_count_as_in_the_graph_of_that_time(
    timed: tuple[HandmadeGraph, Path], sums: str, of: str
) -> None:
    """Guards against degrees, sums of weights and self-loops that know of later edges."""
    graph, cache = timed
    options: dict[str, Any] = {**BATCH, "fanouts": [-1, -1], "batch_size": NODES, "sums": sums, "times_of": of}
    arrays = part_batches(cache, 0, np.arange(NODES), BatchOptions(**options), (1, 1)).make(1, 0)
    ids, until = arrays["ids/node"], dict(enumerate(seed_times(graph, arrays, np.arange(NODES))))
    times = graph.edge_arrays[TIME] if of == "edges" else graph.node_arrays[TIME][graph.src]
    assert graph.weight is not None
    for layer in (2, 1):
        edges = edges_of(arrays, layer)
        counted = np.zeros((arrays["counts"][2 - layer, 0], NODES))
        for source, destination, weight, _ in edges:
            until[source] = until[destination]
            counted[destination, ids[source]] += weight
        for destination in range(len(counted)):
            so_far = times <= until[destination]
            dense = np.zeros((NODES, NODES))
            weights = np.ones(so_far.sum()) if sums == "messages" else graph.weight[so_far]
            np.add.at(dense, (graph.dst[so_far], graph.src[so_far]), weights)
            if sums == "gcn":
                has_loop = np.zeros(NODES, bool)
                has_loop[graph.dst[so_far & (graph.src == graph.dst)]] = True
                dense += np.diag(~has_loop)
                dense /= np.sqrt(np.outer(dense.sum(1), dense.sum(1)))
            elif sums == "mean":
                dense /= np.where(dense.sum(1) == 0, 1, dense.sum(1))[:, None]
            np.testing.assert_allclose(counted[destination], dense[ids[destination]], rtol=1e-5, atol=1e-7)


def test_a_batch_does_not_depend_on_those_before_it(timed: tuple[HandmadeGraph, Path]) -> None:
    """Guards against batches that depend on which sampler process makes them."""
    options = BatchOptions(**BATCH, batch_size=9, sums="gcn", times_of="edges", num_kept={"node": 5})
    one, other = (part_batches(timed[1], 1, np.arange(NODES), options, (1, 2)) for _ in range(2))
    steps = [(epoch, step) for epoch in (1, 2) for step in range(one.steps)]
    in_order = {key: one.make(*key) for key in steps}
    for key in steps[1::2]:  # those of the second of two processes
        batch = other.make(*key)
        assert batch.keys() == in_order[key].keys()
        for array, values in batch.items():
            np.testing.assert_array_equal(values, in_order[key][array])
    assert sum(len(batch["rows/node/kept_place"]) for batch in in_order.values()) > 0


def test_a_pair_has_the_time_of_its_first_edge(timed: tuple[HandmadeGraph, Path]) -> None:
    """Guards against links that are predicted from what was there when they came again, also where they are removed."""
    graph, cache = timed
    pairs = np.unique(np.stack([graph.src, graph.dst])[:, graph.src != graph.dst], axis=1)
    earliest = [
        graph.edge_arrays[TIME][(graph.src == source) & (graph.dst == destination)].min()
        for source, destination in pairs.T
    ]
    options = BatchOptions(**{**BATCH, "fanouts": [-1, -1]}, batch_size=1000, sums="sum", times_of="edges", negatives=1)
    batches = part_batches(cache, 1, pairs, options, (1, 1), pairs[:, ::2])
    arrays = batches.make(1, 0)
    number, ends = int(arrays["num_pairs"][0]), arrays["pairs"]
    until = np.full(len(arrays["ids/node"]), -1.0)
    until[ends[:, :number]] = np.array(earliest)[arrays["seed_place"]]
    until[ends[:, number:]] = until[ends[0, :number]]
    gone = {frozenset(pair) for pair in pairs[:, ::2].T.tolist()}
    latest = np.full(len(until), -1.0)
    for source, destination, _, time in edges_of(arrays, 2):
        assert time <= until[destination]
        latest[destination] = max(latest[destination], time)
        ends_of_edge = frozenset(int(arrays["ids/node"][end]) for end in (source, destination))
        assert ends_of_edge not in gone
    assert number > 50
    assert (latest > -1).sum() > 50
