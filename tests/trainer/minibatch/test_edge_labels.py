"""Arrays of edges learnt on batches: as on the whole graph where a batch is all of it, and on any number of ranks."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.trainer.handmade_cache import make_cache
from tests.trainer.minibatch.in_process import train_in_process
from tests.trainer.rank_group import Run, among_ranks, train_once
from tests.trainer.training.test_edge_labels import SETTINGS, labelled_graph

pytestmark = pytest.mark.slow

COMMON: dict[str, Any] = {"task": "edges", "epochs": 2, "dropout": 0.3, "edge_split": "0.6,0.2,0.2"}
RUNS = {name: SETTINGS[name] for name in ("classes", "given split", "numbers")}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, int], Run]:
    """Runs by name, kind and number of ranks: `full` on the whole graph, `all` on it as one batch, and `drawn`."""
    graph, folder, found = labelled_graph(), tmp_path_factory.mktemp("labels"), {}
    for world in (1, 2):
        shares = np.random.default_rng(2).choice(2, graph.num_nodes, p=[0.3, 0.7]) * (world > 1)
        cache, tasks = str(make_cache(folder / str(world), graph, shares, world)), {}
        for name, options in RUNS.items():
            same = {"cache": cache, **COMMON, **options}
            if world == 1:
                tasks[name, "full"] = partial(train_once, **same)
                tasks[name, "all"] = partial(train_in_process, **same, batch_size=1000, fanouts="all,all")
            tasks[name, "drawn"] = partial(train_in_process, **same, batch_size=40, fanouts="3,2", eval_fanouts="3,2")
        found |= {(*key, world): run for key, run in zip(tasks, among_ranks(world, list(tasks.values())), strict=True)}
    return found


@pytest.mark.parametrize("name", RUNS)
def test_one_batch_of_all_edges_is_the_whole_graph(trained: Any, name: str) -> None:
    """Guards against labels or features of another edge, copies that are learnt once, and means over a batch alone."""
    full, batch = trained[name, "full", 1], trained[name, "all", 1]
    np.testing.assert_allclose(batch.losses, full.losses, rtol=2e-5)
    metric = f"val_{full.result['metric']}"
    assert batch.result[metric] == pytest.approx(full.result[metric], abs=1e-6)


@pytest.mark.parametrize("name", RUNS)
def test_any_number_of_ranks_takes_the_same_steps(trained: Any, name: str) -> None:
    """Guards against edges in another order on several ranks, and copies of an edge whose labels change places."""
    one, two = trained[name, "drawn", 1], trained[name, "drawn", 2]
    np.testing.assert_allclose(two.losses, one.losses, rtol=5e-5)
    assert one.result["mini_batches"]["steps_an_epoch"] == -(-one.result["edge_split"]["train"] // 40) > 2
    metric = f"test_{one.result['metric']}"
    assert two.result[metric] == pytest.approx(one.result[metric], abs=1e-4)
    assert not np.allclose(one.losses, trained[name, "full", 1].losses, rtol=1e-3)
