"""Steps on batches: the same on any number of ranks, and those of the whole graph where a batch is all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.trainer.handmade_cache import make_cache, matrix_graph, random_graph
from tests.trainer.minibatch.in_process import train_in_process
from tests.trainer.rank_group import Run, among_ranks, train_once
from tests.trainer.typed_cache import make_typed_cache, typed_graph

pytestmark = pytest.mark.slow

WORLDS = (1, 2, 4)
RUNS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "gcn": ("plain", {"model": "gcn"}),
    "sage, mean": ("plain", {"model": "sage", "residual": True}),
    "sage, max, 3 layers": ("plain", {"model": "sage", "aggregator": "max", "layers": 3, "jumping": "cat"}),
    "gin": ("plain", {"model": "gin", "norm": "layer", "lr": 0.001}),
    "gat": ("plain", {"model": "gat", "heads": 2}),
    "gatv2": ("plain", {"model": "gatv2", "heads": 2, "jumping": "max"}),
    "sage, edge features": ("plain", {"model": "sage", "edge_features": "weights"}),
    "sage, max, edge features": ("plain", {"model": "sage", "aggregator": "max", "edge_features": "edge_attr"}),
    "gin, edge features": ("plain", {"model": "gin", "lr": 0.001, "layers": 3, "edge_features": "edge_attr"}),
    "gat, edge features": ("plain", {"model": "gat", "heads": 2, "edge_features": "edge_attr"}),
    "gatv2, edge features": ("plain", {"model": "gatv2", "heads": 2, "edge_features": "edge_attr"}),
    "rgcn of one type": ("plain", {"model": "rgcn", "class_weights": "1,2,0.5"}),
    "labels": ("matrix", {"model": "gcn"}),
    "control variates, gcn": ("plain", {"model": "gcn", "control_variates": True}),
    "control variates, sage": ("plain", {"model": "sage", "control_variates": True, "input_dropout": 0.0, "layers": 3}),
    "control variates, gin": ("plain", {"model": "gin", "control_variates": True, "dropout": 0.0, "lr": 0.001}),
    "rgcn": ("typed", {"model": "rgcn"}),
    "rgat": ("typed", {"model": "rgat", "heads": 2}),
    "hgt": ("typed", {"model": "hgt", "heads": 2}),
}
FOUR = ("gcn", "hgt", "control variates, gcn")
"""are tried on four ranks too"""
COMMON = {"epochs": 2, "dropout": 0.3}
SIZE = 16
"""of batches, of 30 training nodes"""
NODES = 60


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, int], Run]:
    """Runs by name, kind and number of ranks: `full` on the whole graph, `all` on it as one batch, `drawn`, `one`."""
    folder, rng = tmp_path_factory.mktemp("batches"), np.random.default_rng(1)
    plain = random_graph(num_nodes=NODES, num_edges=400, weighted=True, loops_and_duplicates=True)
    plain.edge_attr = rng.normal(size=(len(plain.src), 2)).astype(np.float32)
    typed = typed_graph()
    typed = replace(
        typed,
        x={name: x if x.shape[1] else rng.normal(size=(len(x), 4)).astype(np.float32) for name, x in typed.x.items()},
    )
    found = {}
    for world in WORLDS:
        caches = {
            "plain": make_cache(folder / f"plain-{world}", plain, rng.integers(0, world, NODES), world),
            "matrix": make_cache(
                folder / f"matrix-{world}", matrix_graph(), rng.integers(0, world, matrix_graph().num_nodes), world
            ),
            "typed": make_typed_cache(
                folder / f"typed-{world}", typed, {k: rng.integers(0, world, len(x)) for k, x in typed.x.items()}, world
            ),
        }
        tasks = {}
        for name, (graph, options) in RUNS.items():
            same = {"cache": str(caches[graph]), **COMMON, **options}
            every, few = (",".join(words[: same.get("layers", 2)]) for words in (["all"] * 3, ["3", "2", "2"]))
            if world == 1:
                tasks[name, "full"] = partial(train_once, **{**same, "control_variates": False})
                tasks[name, "all"] = partial(train_in_process, **same, batch_size=1000, fanouts=every)
            if world < 4 or name in FOUR:
                tasks[name, "drawn"] = partial(train_in_process, **same, batch_size=SIZE, fanouts=few)
        same = {"cache": str(caches["plain"]), **COMMON, "epochs": 1}
        tasks["gcn", "one"] = partial(train_in_process, **same, batch_size=2, fanouts="2,2")
        if world == 2:
            for name, policy in (("gcn", "belady"), ("hgt", "lru")):
                graph, options = RUNS[name]
                same = {"cache": str(caches[graph]), **COMMON, **options, "batch_size": SIZE, "fanouts": "3,2"}
                cached = {"remote_row_cache": "0.3", "cache_policy": policy}
                tasks[name, "cached"] = partial(train_in_process, **same, **cached)
            same = {"cache": str(caches["plain"]), **COMMON, "epochs": 1}
        if world < 4:
            tasks["gcn", "bf16"] = partial(train_in_process, **same, batch_size=SIZE, precision="bf16")
        outcomes = among_ranks(world, list(tasks.values()))
        found |= {(*key, world): run for key, run in zip(tasks, outcomes, strict=True)}
    return found


@pytest.mark.parametrize("name", RUNS)
def test_one_batch_of_everything_is_the_whole_graph(trained: Any, name: str) -> None:
    """Guards against weights, masks of dropout or losses that are a batch's own, and models that see other rows."""
    full, batch = trained[name, "full", 1], trained[name, "all", 1]
    np.testing.assert_allclose(batch.losses, full.losses, rtol=2e-5)
    metric = f"val_{full.result['metric']}"
    assert batch.result[metric] == pytest.approx(full.result[metric], abs=1e-6)


@pytest.mark.parametrize(
    ("name", "world"), [*((name, 2) for name in [*RUNS, "one", "bf16"]), *((name, 4) for name in [*FOUR, "one"])]
)
def test_any_number_of_ranks_takes_the_same_steps(trained: Any, name: str, world: int) -> None:
    """Guards against batches, draws or losses that depend on which rank owns a node, also where some have no seed."""
    key = (name, "drawn") if name in RUNS else ("gcn", name)
    one, several = trained[*key, 1], trained[*key, world]
    np.testing.assert_allclose(several.losses, one.losses, rtol=2e-2 if name == "bf16" else 5e-5)
    if name in RUNS:
        assert len(set(one.losses)) == len(one.losses)
        assert not np.allclose(one.losses, trained[name, "full", 1].losses, rtol=1e-3)


@pytest.mark.parametrize("name", ["gcn", "hgt"])
def test_kept_rows_change_nothing_but_what_is_fetched(trained: Any, name: str) -> None:
    """Guards against rows of another node or batch in the cache, and against rows that are kept by its word alone."""
    without, cached = trained[name, "drawn", 2], trained[name, "cached", 2]
    assert cached.losses == without.losses
    before, after = without.result["mini_batches"], cached.result["mini_batches"]
    assert before["rows_from_cache"] == 0
    assert after["rows_from_cache"] > 10
    assert after["rows_fetched"] + after["rows_from_cache"] == before["rows_fetched"]
    assert cached.result["bytes_sent"] < without.result["bytes_sent"]


def test_the_result_says_what_batches_took_and_sent(trained: Any) -> None:
    """Guards against steps that are not made, and features whose bytes are in no sum."""
    run = trained["gcn", "drawn", 2]
    facts = run.result["mini_batches"]
    assert (facts["batch_size"], facts["fanouts"], facts["steps_an_epoch"]) == (SIZE, [3, 2], 2)
    assert len(facts["idle_seconds_by_rank"]) == len(facts["seconds_by_rank"]) == 2
    assert all(
        0 <= idle <= all_of_it
        for idle, all_of_it in zip(facts["idle_seconds_by_rank"], facts["seconds_by_rank"], strict=True)
    )
    [row] = [one for one in run.result["exchanges"] if one["direction"] == "batches"]
    assert (row["width"], row["exchanges"]) == (6, 2 * 2)
    assert row["bytes_sent"] > 0
    assert row["bytes_sent"] % (6 * 4) == 0
    assert run.result["row_bytes_sent"] == sum(one["bytes_sent"] for one in run.result["exchanges"])
    halved = trained["gcn", "bf16", 2].result
    [row] = [one for one in halved["exchanges"] if one["direction"] == "batches"]
    assert row["bytes_sent"] % (6 * 2) == 0
    assert trained["gcn", "full", 1].result["mini_batches"] is None
