"""Steps whose neighbours or nodes are drawn in other ways: the same on any number of ranks and of sampler processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphprep.sampling.batch_options import BatchOptions
from graphprep.sampling.batches import part_batches
from tests.trainer.handmade_cache import make_cache, random_graph
from tests.trainer.minibatch.in_process import train_in_process
from tests.trainer.minibatch.test_links import LINKS, clustered_graph
from tests.trainer.minibatch.test_sampler_process import BATCH
from tests.trainer.rank_group import Run, among_ranks, train_once
from tests.trainer.typed_cache import make_typed_cache, typed_graph
from trainer.base.errors import OptionError
from trainer.config.command_line import parse

pytestmark = pytest.mark.slow

NODES, WORLDS = 60, (1, 2, 4)
RUNS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "weighted": ("plain", {"draw": "weighted", "fanouts": "3,2"}),
    "weighted, control variates": ("plain", {"draw": "weighted", "fanouts": "3,2", "control_variates": True}),
    "replacement": ("plain", {"draw": "replacement", "fanouts": "3,2", "model": "gin", "lr": 0.001}),
    "ladies": ("plain", {"sampler": "ladies", "fanouts": "8,6", "model": "sage"}),
    "ladies, typed": ("typed", {"sampler": "ladies", "fanouts": "4,3", "model": "rgcn"}),
    "ladies, links": ("links", {**LINKS, "sampler": "ladies", "fanouts": "30,20"}),
    "vertices": ("plain", {"sampler": "vertices", "batch_size": 25}),
    "vertices, typed": ("typed", {"sampler": "vertices", "batch_size": 25, "model": "rgcn"}),
}
COMMON = {"epochs": 2, "dropout": 0.3, "batch_size": 16}
FOUR = ("weighted", "ladies", "vertices")
"""are tried on four ranks too"""
EVERYTHING = {
    "weighted": {"draw": "weighted", "fanouts": "all,all"},
    "ladies": {"sampler": "ladies", "fanouts": "all,all"},
    "vertices": {"sampler": "vertices"},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Run]:
    """Runs by name and number of ranks; `whole` on the whole graph, and one batch of everything by each sampler."""
    folder, rng = tmp_path_factory.mktemp("samplers"), np.random.default_rng(1)
    graphs = {"plain": random_graph(num_nodes=NODES, num_edges=400, weighted=True), "links": clustered_graph()}
    typed = typed_graph()
    typed = replace(typed, x={name: rng.normal(size=(len(x), 4)).astype(np.float32) for name, x in typed.x.items()})
    found: dict[tuple[str, int], Run] = {}
    for world in WORLDS:
        places = {name: rng.integers(0, world, len(x)) for name, x in typed.x.items()}
        caches = {"typed": str(make_typed_cache(folder / f"typed-{world}", typed, places, world))}
        for name, graph in graphs.items():
            assignment = rng.integers(0, world, graph.num_nodes)
            caches[name] = str(make_cache(folder / f"{name}-{world}", graph, assignment, world))
        tasks: dict[str, Any] = {
            name: partial(train_in_process, **{"cache": caches[graph], **COMMON, **options})
            for name, (graph, options) in RUNS.items()
            if world < 4 or name in FOUR
        }
        if world == 1:
            same = {"cache": caches["plain"], **COMMON, "model": "sage"}
            tasks["whole"] = partial(train_once, **{**same, "batch_size": None})
            tasks |= {
                f"everything, {name}": partial(train_in_process, **{**same, **options, "batch_size": 1000})
                for name, options in EVERYTHING.items()
            }
        if world == 2:
            kept = {**RUNS["ladies"][1], "remote_row_cache": "0.3"}
            tasks["ladies, kept rows"] = partial(train_in_process, **{"cache": caches["plain"], **COMMON, **kept})
        outcomes = among_ranks(world, list(tasks.values()))
        found |= {(name, world): run for name, run in zip(tasks, outcomes, strict=True)}
    return found


@pytest.mark.parametrize(("name", "world"), [*((name, 2) for name in RUNS), *((name, 4) for name in FOUR)])
def test_any_number_of_ranks_takes_the_same_steps(trained: Any, name: str, world: int) -> None:
    """Guards against draws that depend on a rank's own seeds, and edges of a batch that a rank does not have."""
    one, several = trained[name, 1], trained[name, world]
    np.testing.assert_allclose(several.losses, one.losses, rtol=5e-5)
    assert len(set(one.losses)) == 2
    facts, options = several.result["mini_batches"], RUNS[name][1]
    assert (facts["sampler"], facts["draw"]) == (options.get("sampler", "neighbour"), options.get("draw", "uniform"))
    if options.get("sampler") == "vertices":
        assert facts["steps_an_epoch"] > 1


@pytest.mark.parametrize("name", EVERYTHING)
def test_one_batch_of_everything_is_the_whole_graph(trained: Any, name: str) -> None:
    """Guards against edges that count other than in the whole graph, and layers that see other rows."""
    np.testing.assert_allclose(trained[f"everything, {name}", 1].losses, trained["whole", 1].losses, rtol=2e-5)


def test_kept_rows_change_nothing_but_what_is_fetched(trained: Any) -> None:
    """Guards against a plan of rows that knows other batches than those that are made."""
    without, kept = trained["ladies", 2], trained["ladies, kept rows", 2]
    assert kept.losses == without.losses
    assert kept.result["mini_batches"]["rows_from_cache"] > 10


@pytest.mark.parametrize("name", [name for name in RUNS if "," not in name])
def test_a_batch_does_not_depend_on_those_before_it(name: str, tmp_path: Path) -> None:
    """Guards against batches that depend on which sampler process makes them."""
    graph = random_graph(num_nodes=NODES, num_edges=400, weighted=True)
    cache = make_cache(tmp_path / "c", graph, np.random.default_rng(0).integers(0, 2, NODES), 2)
    names = {key: value for key, value in RUNS[name][1].items() if key in ("draw", "sampler")}
    options = BatchOptions(**{**BATCH, **names, "fanouts": [3, 2]})
    one, other = (part_batches(cache, 1, np.arange(0, NODES, 2), options, (1, 2)) for _ in range(2))
    steps = [(epoch, step) for epoch in (1, 2) for step in range(one.steps)]
    in_order = {key: one.make(*key) for key in steps}
    for key in reversed(steps):
        batch = other.make(*key)
        assert batch.keys() == in_order[key].keys()
        for array, values in batch.items():
            np.testing.assert_array_equal(values, in_order[key][array])
    assert not np.array_equal(in_order[1, 0]["ids/node"], in_order[2, 0]["ids/node"])
    assert max(sum(values.nbytes for values in batch.values()) for batch in in_order.values()) < one.most_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--draw weighted", "--draw does nothing without --batch-size"),
        ("--batch-size 9 --sampler ladies --draw weighted", "--sampler ladies and --draw weighted"),
        ("--batch-size 9 --sampler vertices --fanouts 3,2", "--sampler vertices and --fanouts"),
        ("--batch-size 9 --sampler vertices --task links", "--sampler vertices and --task links"),
        ("--batch-size 9 --sampler ladies --control-variates", "--control-variates cannot be with --sampler ladies"),
        ("--batch-size 9 --eval-fanouts 3", "--eval-fanouts 3 has 1 numbers and the model 2 layers"),
    ],
)
def test_what_has_no_meaning_is_refused(words: str, message: str) -> None:
    """Guards against options that are ignored without a word."""
    with pytest.raises(OptionError, match=message):
        parse(["c", *words.split()])
