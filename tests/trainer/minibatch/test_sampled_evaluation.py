"""Validation and test on sampled neighbourhoods: exact with all neighbours, and the same on any number of ranks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.trainer.handmade_cache import make_cache, random_graph
from tests.trainer.minibatch.in_process import train_in_process
from tests.trainer.minibatch.test_links import LINKS, clustered_graph
from tests.trainer.rank_group import among_ranks
from tests.trainer.typed_cache import make_typed_cache, typed_graph

pytestmark = pytest.mark.slow

WORLDS = (1, 2, 4)
SAME: dict[str, Any] = {"epochs": 3, "dropout": 0.3, "batch_size": 16, "fanouts": "3,2", "patience": 0}
METRIC = {"nodes": "accuracy", "typed": "accuracy", "links": "roc_auc"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, int], Any]:
    """Runs by kind of graph, by how they are evaluated (`exact`, `all`, `drawn`), and by number of ranks."""
    folder, rng = tmp_path_factory.mktemp("evaluation"), np.random.default_rng(2)
    found: dict[tuple[str, str, int], Any] = {}
    plain, typed, links = random_graph(num_nodes=60, num_edges=600), typed_graph(), clustered_graph()
    typed = replace(typed, x={name: rng.normal(size=(len(x), 4)).astype(np.float32) for name, x in typed.x.items()})
    for world in WORLDS:
        places = {name: rng.integers(0, world, len(x)) for name, x in typed.x.items()}
        caches = {
            "nodes": (make_cache(folder / f"nodes-{world}", plain, rng.integers(0, world, 60), world), SAME),
            "typed": (
                make_typed_cache(folder / f"typed-{world}", typed, places, world),
                {**SAME, "model": "rgcn", "remote_row_cache": "0.3"} if world > 1 else {**SAME, "model": "rgcn"},
            ),
            "links": (make_cache(folder / f"links-{world}", links, rng.integers(0, world, 90), world), SAME | LINKS),
        }
        ways = {"exact": None, "all": "all,all", "drawn": "2,1"} if world == 1 else {"drawn": "2,1"}
        tasks = {
            (kind, name, world): partial(
                train_in_process,
                cache=str(cache),
                **options,
                eval_fanouts=fanouts,
                save_predictions=str(folder / f"{name}-{world}.pt") if kind == "nodes" else None,
            )
            for kind, (cache, options) in caches.items()
            for name, fanouts in ways.items()
            if world < 4 or kind == "nodes"
        }
        found |= dict(zip(tasks, among_ranks(world, list(tasks.values())), strict=True))
    return found | {("folder", "", 0): folder}


@pytest.mark.parametrize("kind", METRIC)
def test_all_neighbours_give_the_exact_metrics(trained: Any, kind: str) -> None:
    """Guards against scores at other nodes' rows, dropout, and sums over other neighbours or weights."""
    exact, drawn = trained[kind, "exact", 1], trained[kind, "all", 1]
    for group in ("val", "test"):
        name = f"{group}_{METRIC[kind]}"
        assert drawn.result[name] == pytest.approx(exact.result[name], abs=1e-6)
    assert drawn.losses == exact.losses
    assert exact.result["mini_batches"]["eval_fanouts"] is None
    assert drawn.result["mini_batches"]["eval_fanouts"] == [-1, -1]


@pytest.mark.parametrize(("kind", "world"), [(kind, 2) for kind in METRIC] + [("nodes", 4)])
def test_any_number_of_ranks_measures_the_same(trained: Any, kind: str, world: int) -> None:
    """Guards against draws that depend on ranks or on the epoch, and against means of the ranks' metrics."""
    one, several = trained[kind, "drawn", 1], trained[kind, "drawn", world]
    for group in ("val", "test"):
        name = f"{group}_{METRIC[kind]}"
        assert several.result[name] == pytest.approx(one.result[name], abs=1e-4)
    assert several.result["best_epoch"] == one.result["best_epoch"]


def test_the_saved_scores_are_of_all_nodes(trained: Any) -> None:
    """Guards against zeros for nodes that are not measured, and against few neighbours that change nothing."""
    folder: Path = trained["folder", "", 0]
    exact, every, drawn, again = (
        torch.load(folder / f"{name}.pt") for name in ("exact-1", "all-1", "drawn-1", "drawn-2")
    )
    torch.testing.assert_close(every, exact)
    assert bool((drawn != 0).any(1).all())
    assert not torch.allclose(drawn, exact, atol=1e-2)
    torch.testing.assert_close(again, drawn, rtol=1e-3, atol=1e-4)
