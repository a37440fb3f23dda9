"""Links learnt on batches: each edge on one side of the split, the same steps on any number of ranks, and it learns."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.trainer.handmade_cache import HandmadeGraph, make_cache, random_graph
from tests.trainer.minibatch.in_process import SamplerInProcess, train_in_process
from tests.trainer.rank_group import among_ranks, train_once
from trainer.dist.communicator import Communicator

pytestmark = pytest.mark.slow

LINKS: dict[str, Any] = {"task": "links", "batch_size": 64, "fanouts": "4,4", "negatives": 2, "eval_negatives": 5}


def clustered_graph() -> HandmadeGraph:
    """Edges between nodes of one class, but for some, and features that tell the class."""
    graph, rng = random_graph(num_nodes=90), np.random.default_rng(3)
    src, dst = rng.integers(0, 90, (2, 2500))
    stays = (src != dst) & ((graph.y[src] == graph.y[dst]) | (rng.random(2500) < 0.05))
    both = np.unique(np.sort(np.c_[src, dst][stays], 1), axis=0)
    graph.src, graph.dst = np.r_[both[:, 0], both[:, 1]], np.r_[both[:, 1], both[:, 0]]
    return graph


def split_of(communicator: Communicator, *, cache: str, **changes: Any) -> tuple[list[list[int]], list[list[int]]]:
    """The pairs that a run learns in batches, and those between which they have no edge."""
    found = {}

    class Recorded(SamplerInProcess):
        def __init__(self, **arguments: Any) -> None:
            found.update(arguments)
            super().__init__(**arguments)

    with patch("trainer.minibatch.batch_stream.SamplerProcesses", Recorded):
        train_once(communicator, cache=cache, epochs=1, **{**LINKS, **changes})
    return found["seeds"].T.tolist(), found["removed"].T.tolist()


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Any]]:
    graph, folder = clustered_graph(), tmp_path_factory.mktemp("links")
    found = {}
    for world in (1, 2):
        assignment = np.random.default_rng(0).integers(0, world, 90)
        cache = str(make_cache(folder / str(world), graph, assignment, world))
        short = partial(train_in_process, cache=cache, epochs=2, dropout=0.3, **LINKS)
        tasks: list[Any] = [short, partial(short, decoder="mlp", disjoint_train=0.3, model="gat")]
        tasks += [partial(split_of, cache=cache), partial(split_of, cache=cache, disjoint_train=0.3)]
        if world == 1:
            tasks.append(partial(train_in_process, cache=cache, model="sage", epochs=20, **LINKS))
        found[world] = among_ranks(world, tasks)
    return found


@pytest.mark.parametrize("number", [0, 1])
def test_any_number_of_ranks_takes_the_same_steps(outcomes: Any, number: int) -> None:
    """Guards against pairs, random pairs or losses that depend on which rank owns a node."""
    one, two = outcomes[1][number], outcomes[2][number]
    np.testing.assert_allclose(two.losses, one.losses, rtol=5e-5)
    assert one.result["test_roc_auc"] == pytest.approx(two.result["test_roc_auc"], abs=1e-4)


def test_each_edge_is_learnt_or_removed(outcomes: Any) -> None:
    """Guards against validation and test edges in the graph of a batch, and with disjoint supervision learnt ones."""
    graph = clustered_graph()
    every = sorted({(min(pair), max(pair)) for pair in zip(graph.src.tolist(), graph.dst.tolist(), strict=True)})
    for number in (2, 3):
        assert outcomes[1][number] == outcomes[2][number]
        seeds, removed = ([(min(pair), max(pair)) for pair in pairs] for pairs in outcomes[1][number])
        assert len(set(seeds)) == len(seeds)
        if number == 2:
            assert sorted(seeds + removed) == every
            assert len(removed) == pytest.approx(0.15 * len(every), abs=2)
        else:
            assert set(seeds) < set(removed) < set(every)


def test_links_are_learnt(outcomes: Any) -> None:
    """Guards against gradients that do not reach the model, and pairs whose rows are another's."""
    assert outcomes[1][-1].result["test_roc_auc"] > 0.75
