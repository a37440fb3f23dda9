"""Training on neighbours that are not later than their seeds: the same steps on any number of ranks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sampling.test_temporal_batches import NODES, timed_graph
from tests.trainer.handmade_cache import make_cache
from tests.trainer.minibatch.in_process import train_in_process
from tests.trainer.rank_group import Run, among_ranks, run_options, train_once
from tests.trainer.typed_cache import make_typed_cache, typed_graph
from trainer.base.errors import OptionError, TrainingError
from trainer.config.command_line import parse
from trainer.data.cache import open_cache
from trainer.startup.preflight import check_task, ignored_arrays

pytestmark = pytest.mark.slow

RUNS: dict[str, dict[str, Any]] = {
    "gcn": {"model": "gcn", "time": "edges"},
    "sage, last": {"model": "sage", "time": "edges", "time_strategy": "last", "eval_fanouts": "3,2"},
    "gat, times of nodes": {"model": "gat", "heads": 2, "time": "nodes"},
    "gin, weighted": {"model": "gin", "lr": 0.001, "time": "edges", "draw": "weighted", "edge_features": "time"},
    "rgcn, two types with times": {"model": "rgcn", "time": "nodes"},
    "links": {"task": "links", "time": "edges", "negatives": 2, "eval_negatives": 5, "disjoint_train": 0.3},
    "edges": {"task": "edges", "edge_label": "kind", "time": "edges", "model": "sage"},
}
EVERYTHING = ("gcn", "gat, times of nodes", "rgcn, two types with times", "edges")
"""are also trained where nothing is later than a seed, on all neighbours in one batch"""
COMMON: dict[str, Any] = {"epochs": 2, "dropout": 0.3}


def caches_of(folder: Path, world: int) -> dict[str, str]:
    """A cache whose times matter, and one where no edge is later than a seed."""
    found = {}
    for name in ("timed", "early"):
        graph = timed_graph()
        graph.edge_arrays["kind"] = np.random.default_rng(2).integers(0, 3, len(graph.src))
        if name == "early":
            graph.edge_arrays["time"][:] = graph.node_arrays["time"][:] = 5
        assignment = np.random.default_rng(1).integers(0, world, NODES)
        found[name] = str(make_cache(folder / f"{name}-{world}", graph, assignment, world))
        rng, typed = np.random.default_rng(3), typed_graph()
        x = {kind: rng.normal(size=(len(of_kind), 4)).astype(np.float32) for kind, of_kind in typed.x.items()}
        times = {kind: rng.integers(0, 100, len(x[kind])) * (name == "timed") for kind in ("author", typed.target)}
        assignments = {kind: rng.integers(0, world, len(of_kind)) for kind, of_kind in x.items()}
        found[f"typed {name}"] = str(
            make_typed_cache(folder / f"typed-{name}-{world}", replace(typed, x=x, times=times), assignments, world)
        )
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, int], Run]:
    """Runs by name, kind and number of ranks: `full` on the whole graph, `all` on it as one batch, and `drawn`."""
    folder, found = tmp_path_factory.mktemp("times"), {}
    for world in (1, 2, 4):
        caches, tasks = caches_of(folder, world), {}
        for name, options in RUNS.items():
            same, prefix = {**COMMON, **options}, "typed " if options.get("model") == "rgcn" else ""
            if world == 1 and name in EVERYTHING:
                untimed = {key: value for key, value in same.items() if key != "time"}
                tasks[name, "full"] = partial(train_once, cache=caches[prefix + "early"], **untimed)
                every = {"batch_size": 1000, "fanouts": "all,all"}
                tasks[name, "all"] = partial(train_in_process, cache=caches[prefix + "early"], **same, **every)
            if world < 4 or name == "gcn":
                drawn = {"cache": caches[prefix + "timed"], "batch_size": 12, "fanouts": "3,2", **same}
                tasks[name, "drawn"] = partial(train_in_process, **drawn)
        if world == 2:
            tasks["gcn", "cached"] = partial(tasks["gcn", "drawn"], remote_row_cache="0.3")
        found |= {(*key, world): run for key, run in zip(tasks, among_ranks(world, list(tasks.values())), strict=True)}
    return found


@pytest.mark.parametrize("name", EVERYTHING)
def test_where_nothing_is_later_it_is_the_whole_graph(trained: Any, name: str) -> None:
    """Guards against trees that miss nodes, rows of another tree, and edges that count otherwise."""
    np.testing.assert_allclose(trained[name, "all", 1].losses, trained[name, "full", 1].losses, rtol=5e-5)


@pytest.mark.parametrize(("name", "world"), [*((name, 2) for name in RUNS), ("gcn", 4)])
def test_any_number_of_ranks_takes_the_same_steps(trained: Any, name: str, world: int) -> None:
    """Guards against times, trees or losses that depend on which rank owns a node."""
    one, several = trained[name, "drawn", 1], trained[name, "drawn", world]
    np.testing.assert_allclose(several.losses, one.losses, rtol=5e-5)
    facts, options = several.result["mini_batches"], RUNS[name]
    assert (facts["time"], facts["time_strategy"]) == (options["time"], options.get("time_strategy", "uniform"))


def test_kept_rows_change_nothing_but_what_is_fetched(trained: Any) -> None:
    """Guards against a plan of rows in which a node of several trees has several rows."""
    without, cached = trained["gcn", "drawn", 2], trained["gcn", "cached", 2]
    assert cached.losses == without.losses
    before, after = without.result["mini_batches"], cached.result["mini_batches"]
    assert after["rows_from_cache"] > 10
    assert after["rows_fetched"] + after["rows_from_cache"] == before["rows_fetched"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--time edges", "--time does nothing without --batch-size"),
        ("--batch-size 9 --time-strategy last", "--time-strategy last does nothing without --time"),
        ("--batch-size 9 --time edges --sampler ladies", "--time edges cannot be with --sampler ladies"),
        ("--batch-size 9 --time edges --draw replacement", "--time edges cannot be with --draw replacement"),
        (
            "--batch-size 9 --time edges --draw weighted --time-strategy last",
            "--time edges cannot be with --time-strategy last and --draw weighted",
        ),
        ("--batch-size 9 --time edges --control-variates", "--time edges cannot be with --control-variates"),
        ("--batch-size 9 --time edges --sample-from owners", "--sample-from owners cannot be with --time edges"),
        ("--batch-size 9 --time nodes --task links", "--time nodes cannot be with --task links by the times of nodes"),
        (
            "--batch-size 9 --time edges --task links --eval-fanouts 3,2",
            "--time edges cannot be with --task links and --eval-fanouts",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(words: str, message: str) -> None:
    """Guards against times that are ignored without a word."""
    with pytest.raises(OptionError, match=message):
        parse(["c", *words.split()])


def test_times_that_are_not_there(tmp_path: Path) -> None:
    """Guards against a run that starts and has no times to draw by, and against lines that call read times ignored."""
    graph, timed = timed_graph(), open_cache(caches_of(tmp_path, 1)["timed"])
    del graph.edge_arrays["time"]
    without_edges = open_cache(str(make_cache(tmp_path / "edges", graph, np.zeros(NODES, int), 1)))
    graph.edge_arrays, graph.node_arrays = timed_graph().edge_arrays, {}
    without_nodes = open_cache(str(make_cache(tmp_path / "nodes", graph, np.zeros(NODES, int), 1)))

    def options(**changes: Any) -> Any:
        return run_options(timed.folder, batch_size=9, **changes)

    with pytest.raises(TrainingError, match=r"the edges of .* have no array 'time'"):
        check_task(without_edges, options(time="edges"))
    with pytest.raises(TrainingError, match=r"the nodes of .* have no array 'time'"):
        check_task(without_nodes, options(time="nodes"))
    with pytest.raises(TrainingError, match="needs the times of the nodes that are learnt"):
        check_task(without_nodes, options(time="edges"))
    sentences = ignored_arrays(options(time="edges", edge_features="kind"), timed)
    assert [sentence for sentence in sentences if "time" in sentence] == [
        "--time is for training: validation and test read neighbours of any time; --eval-fanouts would draw by time "
        "there too"
    ]
    assert any("arrays time are ignored" in one for one in ignored_arrays(options(), timed))
