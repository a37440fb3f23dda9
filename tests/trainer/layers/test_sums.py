"""Sums of features that the cache holds: used where they suit, said or refused where they do not."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer.dense_reference import dense_adjacency
from tests.trainer.handmade_cache import HandmadeGraph, make_cache, random_graph
from tests.trainer.parity_cases import uneven
from tests.trainer.rank_group import Run, among_ranks, run_options, train_once
from trainer.base.errors import TrainingError
from trainer.config.options import Options
from trainer.data.cache import Cache, open_cache
from trainer.layers.sums import remark_on_sums, sums_suit
from trainer.startup.preflight import check_task

pytestmark = pytest.mark.slow

RULES = {"gcn": "gcn", "sage": "mean"}


def summed(folder: Path, graph: HandmadeGraph, model: str, parts: int = 1, **changes: Any) -> Path:
    """A cache with the sums of a model's rule."""
    sums = (dense_adjacency(graph, model).numpy() @ graph.x.astype(np.float64)).astype(np.float32)
    return make_cache(folder, graph, uneven(60, parts), parts, aggregated=(RULES[model], sums), **changes)


def layer_1(run: Run) -> dict[str, Any]:
    [entry] = [entry for entry in run.result["exchanges"] if entry["layer"] == 1]
    return dict(entry)


@pytest.mark.parametrize("parts", [1, 3])
def test_the_losses_are_those_of_sums_that_are_made_at_start(tmp_path: Path, parts: int) -> None:
    """Guards against sums of other rows, and against features that travel although nobody needs them."""
    graph = random_graph(loops_and_duplicates=True, weighted=True, seed=3)
    plain = make_cache(tmp_path / "plain", graph, uneven(60, parts), parts)
    tasks, settings = [], [("gcn", True), ("gcn", False), ("sage", True)]
    for model, with_features in settings:
        cache = summed(tmp_path / f"{model}-{with_features}", graph, model, parts, with_features=with_features)
        tasks += [partial(train_once, cache=str(folder), model=model, epochs=8) for folder in (plain, cache)]
    runs = among_ranks(parts, tasks)
    for (model, _), made, kept in zip(settings, runs[::2], runs[1::2], strict=True):
        assert kept.losses == pytest.approx(made.losses, rel=1e-5), model
        assert kept.result["test_accuracy"] == pytest.approx(made.result["test_accuracy"])
        assert layer_1(kept)["bytes_sent"] == 0
        assert (layer_1(made)["bytes_sent"] > 0) == (parts > 1)
        both = [layer_1(run)["bytes_sent"] + layer_1(run)["bytes_skipped"] for run in (made, kept)]
        assert both[0] == both[1], "a pass is recorded twice or not at all"


def test_features_are_taken_where_sums_do_not_suit(tmp_path: Path) -> None:
    """Guards against GraphSAGE on GCN's sums, and against dropout that is left out without a word."""
    graph = random_graph(seed=3)
    plain, cache = make_cache(tmp_path / "plain", graph, uneven(60, 2), 2), summed(tmp_path / "gcn", graph, "gcn", 2)
    changes: list[dict[str, Any]] = [
        {"model": "sage"},
        {"model": "gcn", "input_dropout": 0.4},
        {"model": "gcn", "residual": True},
    ]
    tasks = [partial(train_once, cache=str(folder), **change) for change in changes for folder in (plain, cache)]
    runs = among_ranks(2, tasks)
    assert runs[0].losses == runs[1].losses
    assert runs[2].losses == runs[3].losses
    assert runs[4].losses == pytest.approx(runs[5].losses, rel=1e-5), "sums and each node's own features"


def opened(tmp_path: Path, **changes: Any) -> tuple[Cache, Options]:
    cache = open_cache(str(summed(tmp_path / "cache", random_graph(), "gcn", with_features=False)))
    return cache, run_options(cache.folder, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "sage"}, "not that of --model sage"),
        ({"input_dropout": 0.25}, "--input-dropout 0.25"),
        ({"residual": True}, "--residual"),
    ],
)
def test_sums_alone_that_do_not_suit_are_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    """Guards against a traceback in the first layer of a run that needs features which are not there."""
    cache, options = opened(tmp_path, **changes)
    assert not sums_suit(options, cache)
    with pytest.raises(TrainingError, match=words) as caught:
        check_task(cache, options)
    assert "\n" not in str(caught.value)
    assert words in str(remark_on_sums(options, cache))


def test_sums_that_suit_need_no_word(tmp_path: Path) -> None:
    """Guards against a refusal of the very runs that the sums are for."""
    cache, options = opened(tmp_path)
    assert sums_suit(options, cache)
    check_task(cache, options)
    assert remark_on_sums(options, cache) is None
