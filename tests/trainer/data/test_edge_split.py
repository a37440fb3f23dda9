"""The split of the edges and the pairs that are no edges: the same on any number of ranks, and nothing leaks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.handmade_cache import HandmadeGraph, make_cache, random_graph
from trainer.config.edge_shares import edge_counts
from trainer.data.cache import Cache, open_cache
from trainer.data.cross_edges import cross_edges
from trainer.data.edge_split import HASH_END, EdgeSplit, Pairs, PartEdges, smallest_with
from trainer.data.negatives import TRIES, Negatives
from trainer.data.part import Part, load_part

Edge = tuple[int, int]
GRAPHS = {
    "undirected": random_graph(seed=1, undirected=True, loops_and_duplicates=True),
    "directed": random_graph(seed=2, weighted=True, loops_and_duplicates=True),
}
WORLDS = (1, 3)
SEED = 5


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Cache]:
    folder, assignment = tmp_path_factory.mktemp("split"), np.random.default_rng(3).integers(0, 3, 60)
    return {
        (name, world): open_cache(str(make_cache(folder / f"{name}-{world}", graph, assignment % world, world)))
        for name, graph in GRAPHS.items()
        for world in WORLDS
    }


def parts_of(cache: Cache) -> list[Part]:
    return [load_part(cache, number, split=0) for number in range(cache.num_parts)]


def edges_of(cache: Cache) -> list[PartEdges]:
    return [
        PartEdges(part, num_nodes=cache.num_nodes, seed=SEED, is_undirected=cache.is_undirected)
        for part in parts_of(cache)
    ]


def split_of(edges: Sequence[PartEdges], counts: Sequence[int]) -> EdgeSplit:
    """The first of the pairs by their hash, as many as `counts` to validate, to test and to learn alone."""

    def count(ends: list[int]) -> list[int]:
        return [sum(int((of_part.hash_k < end).sum()) for of_part in edges) for end in ends]

    val_end, test_end, learnt_end = smallest_with(count, np.cumsum(counts).tolist())
    is_disjoint = learnt_end > test_end
    return EdgeSplit(
        seed=SEED,
        val_end=val_end,
        test_end=test_end,
        train_end=learnt_end if is_disjoint else HASH_END,
        message_begin=learnt_end,
    )


def named(edges: PartEdges, pairs: Pairs) -> list[Edge]:
    """Pairs by the numbers of both nodes in the graph."""
    return list(zip(pairs.source_k.tolist(), edges.ids_n[pairs.row_k].tolist(), strict=True))


def message_edges(parts: Sequence[Part]) -> list[Edge]:
    """The edges in some part's matrices, those of its own rows and those of its halo."""
    found: list[Edge] = []
    for part in parts:
        for columns, block in [
            (part.ids_n, part.local),
            *((part.halo_ids[peer], block) for peer, block in part.remote.items()),
        ]:
            found += zip(columns[block.indices].tolist(), part.ids_n[block.row_E].tolist(), strict=True)
    return found


def unordered(edges: Sequence[Edge]) -> set[Edge]:
    return {(min(edge), max(edge)) for edge in edges}


def true_edges(graph: HandmadeGraph) -> list[Edge]:
    return list(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("learnt_alone", [0, 20])
def test_no_held_out_edge_nor_its_reverse_is_in_the_graph(
    caches: dict[tuple[str, int], Cache], name: str, learnt_alone: int
) -> None:
    """An edge whose reverse stays, or that stays in one rank's halo, tells the model the answer."""
    everything = true_edges(GRAPHS[name])
    splits = []
    for world in WORLDS:
        cache = caches[name, world]
        edges, parts = edges_of(cache), parts_of(cache)
        split = split_of(edges, [10, 20, learnt_alone])
        message = [split.message_part(part) for part in parts]
        limits = [0, split.val_end, split.test_end, split.train_end]
        groups = [
            sorted(pair for of_part in edges for pair in named(of_part, of_part.between(begin, end)))
            for begin, end in pairwise(limits)
        ]
        val, test, train = groups
        left = message_edges(message)
        out = unordered(val) | unordered(test) | (unordered(train) if learnt_alone else set())
        assert not out & unordered(left)
        assert sorted(left) == sorted(edge for edge in everything if (min(edge), max(edge)) not in out)
        if world > 1:
            of_all, ids = cross_edges(message).edges, torch.cat([part.ids_n for part in parts])
            crossing = set(zip(ids[of_all.indices].tolist(), ids[of_all.row_E].tolist(), strict=True))
            assert crossing
            assert crossing <= set(left)
        for part in message:
            blocks = (part.local, *part.remote.values())
            assert torch.equal(part.degree_n, sum(block.row_sums(torch.float32) for block in blocks))
            assert part.aggregated_nF is None
        splits.append(groups)
    assert splits[0] == splits[1]


@pytest.mark.parametrize("name", GRAPHS)
def test_every_edge_is_a_pair_of_one_group(caches: dict[tuple[str, int], Cache], name: str) -> None:
    """A pair that is in no group is never learnt; an undirected one in two owners' lists is counted twice."""
    edges = edges_of(caches[name, 3])
    pairs = [pair for of_part in edges for pair in named(of_part, of_part.pairs)]
    expected = {edge for edge in true_edges(GRAPHS[name]) if edge[0] != edge[1]}
    if name == "undirected":
        assert sorted((min(pair), max(pair)) for pair in pairs) == sorted(unordered(list(expected)))
        assert {pair[0] < pair[1] for pair in pairs} == {True, False}, "one end is always the owner"
    else:
        assert sorted(pairs) == sorted(expected)


def test_undirected_counts_are_exact(caches: dict[tuple[str, int], Cache]) -> None:
    """Guards against a threshold by share, which gives about as many."""
    edges = edges_of(caches["undirected", 3])
    total = sum(len(of_part.pairs) for of_part in edges)
    for counts in ([0, 0, 0], [1, 0, 0], [7, 9, 0], [total - 1, 0, 0]):
        split = split_of(edges, counts)
        ends = [0, split.val_end, split.test_end, split.message_begin]
        assert [sum(len(one.between(*limits)) for one in edges) for limits in pairwise(ends)] == counts


@given(st.lists(st.integers(0, HASH_END - 1), unique=True, max_size=20), st.data())
def test_bisection_finds_the_smallest_number(hashes: list[int], data: st.DataObject) -> None:
    """Guards against a limit that is one off, or that misses the first or the last hash."""
    targets = data.draw(st.lists(st.integers(0, len(hashes)), min_size=1, max_size=3))
    found = smallest_with(lambda ends: [sum(one < end for one in hashes) for end in ends], targets)
    assert found == [0 if not target else sorted(hashes)[target - 1] + 1 for target in targets]


def test_counts_of_shares() -> None:
    """0.1 of 10 pairs is one, though 10 * 0.1 may be a little less."""
    assert edge_counts("0.85,0.05,0.1", 10) == (9, 0, 1)
    assert edge_counts("0.7,0.1,0.2", 5278) == (5278 - 527 - 1055, 527, 1055)
    assert edge_counts("1,0,0", 3) == (3, 0, 0)


@pytest.mark.parametrize("name", GRAPHS)
def test_negatives_are_the_same_on_any_number_of_ranks_and_no_edges(
    caches: dict[tuple[str, int], Cache], name: str
) -> None:
    """A draw that depends on the rank, or on where a batch ends, makes another loss; an edge is no negative."""
    everything = set(true_edges(GRAPHS[name]))
    drawn = []
    for world in WORLDS:
        found: list[list[Edge]] = []
        for group, epoch, total in (("train", 1, 200), ("train", 2, 200), ("val", 0, 7), ("test", 0, 130)):
            found.append([])
            for edges in edges_of(caches[name, world]):
                random = Negatives(edges, SEED).random(group, epoch, total)
                size = 1000 if world == 1 else 4
                for begin in range(0, len(random), size):
                    found[-1] += named(edges, random.between(begin, min(begin + size, len(random))))
            assert len(found[-1]) == total
        found.append([])
        for edges in edges_of(caches[name, world]):
            five_each = torch.arange(len(edges.pairs) * 5)
            of_pairs = Negatives(edges, SEED).ranked(edges.pairs[five_each // 5], five_each % 5)
            assert torch.equal(of_pairs.row_k, edges.pairs.row_k[five_each // 5])
            found[-1] += named(edges, of_pairs)
        for pairs in found:
            assert not everything & set(pairs)
            assert all(one != other for one, other in pairs)
        drawn.append([sorted(pairs) for pairs in found])
    assert drawn[0] == drawn[1]
    first_epoch, second_epoch, *_ = drawn[0]
    assert first_epoch != second_epoch


def test_second_nodes_of_random_pairs_are_spread_evenly(caches: dict[tuple[str, int], Cache]) -> None:
    """Guards against a count a node that misses the total, or that gives some nodes many pairs and others none."""
    [edges] = edges_of(caches["directed", 1])
    for total in (0, 1, 59, 60, 61, 150):
        random = Negatives(edges, SEED).random("train", 3, total)
        assert len(random) == total
        counts = np.bincount(random.between(0, total).row_k, minlength=60)
        assert counts.max() - counts.min() <= 1


def test_a_node_that_all_others_point_to_keeps_its_last_draw(tmp_path: Path) -> None:
    """Guards against a search for a pair that is no edge, where there is none, that never ends."""
    src, dst = (side.ravel() for side in np.mgrid[0:4, 0:4])
    graph = random_graph(num_nodes=4, num_edges=3)
    graph.src, graph.dst = src[src != dst], dst[src != dst]
    cache = open_cache(str(make_cache(tmp_path / "all", graph, np.zeros(4, int), 1)))
    [edges] = edges_of(cache)
    negatives = Negatives(edges, SEED)
    pairs = negatives.random("train", 1, 40).between(0, 40)
    assert len(pairs) == negatives.num_kept == 40
    assert TRIES < 100


def test_hashes_differ_between_seeds(caches: dict[tuple[str, int], Cache]) -> None:
    """Guards against runs of several seeds that all have one split."""
    cache = caches["directed", 1]
    [part] = parts_of(cache)
    make = partial(PartEdges, part, num_nodes=60, is_undirected=False)
    one, other = (make(seed=seed).hash_k.argsort().tolist() for seed in (0, 1))
    assert one != other
