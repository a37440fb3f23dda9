"""Runs on caches of snapshots, from options to a result."""

from __future__ import annotations

import json
import os
import re
import signal
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch

from graphprep.temporal.write_cache import cache_of_arrays
from tests.trainer.rank_group import Run, among_ranks
from tests.trainer.temporal.events.streams import alternating_stream
from tests.trainer.temporal.events.test_run import run_once
from tests.trainer.test_launch import PATIENCE, children_of, is_running, running
from trainer.base.errors import OptionError, StoppedError, TrainingError
from trainer.config.command_line import parse
from trainer.dist.communicator import Communicator
from trainer.startup.opening import open_for
from trainer.temporal import epochs
from trainer.training.termination import StopRequest

pytestmark = pytest.mark.slow

SMALL = ("--hidden", 8, "--lr", 0.02, "--workers", 2)


def made(folder: Path, **changes: Any) -> Path:
    """The alternating stream of events as a cache for two ranks; eight events are a window."""
    stream = alternating_stream(400)
    arrays = (one.numpy() for one in (stream.source_M, stream.destination_M, stream.time_M))
    return cache_of_arrays(folder, *arrays, **{"num_parts": 2, "window_seconds": 80.0, **changes})


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("snapshots") / "cache")


@pytest.fixture(scope="module")
def state_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same stream on four ranks, two a group; each source is left in the turn that it will have next."""
    turn = torch.arange(400) // 8 % 2
    y = torch.where(torch.arange(400) % 5 == 3, -1, 1 - turn).numpy()
    return made(tmp_path_factory.mktemp("snapshots") / "states", num_parts=4, ranks_per_group=2, y=y)


def runs(world: int, *all_arguments: tuple[object, ...]) -> list[Run]:
    return among_ranks(world, [partial(run_once, arguments=[str(one) for one in some]) for some in all_arguments])


MODELS = {"tgcn": ("tgcn",), "gclstm": ("gclstm", "--history", 6), "evolvegcn": ("evolvegcn", "--variant", "h")}


@pytest.fixture(scope="module")
def of_ranks(cache: Path) -> dict[int, dict[str, Run]]:
    """A short run of each model, on one rank and on two."""
    all_arguments = [(cache, "--model", *model, *SMALL, "--epochs", 4, "--metric", "mrr") for model in MODELS.values()]
    return {world: dict(zip(MODELS, runs(world, *all_arguments), strict=True)) for world in (1, 2)}


@pytest.mark.parametrize("model", MODELS)
def test_two_ranks_print_what_one_does(model: str, of_ranks: dict[int, dict[str, Run]]) -> None:
    """Guards against a result that depends on the groups, and lines or results that lack what is promised."""
    one, two = (of_ranks[world][model] for world in (1, 2))
    assert two.losses == pytest.approx(one.losses, rel=1e-5)
    assert [line["epoch"] for line in two.epochs] == [1, 2, 3, 4]
    for name in ("val_mrr", "val_ap", "test_mrr", "test_ap"):
        assert two.result[name] == pytest.approx(one.result[name], abs=1e-3)  # a rounding may change a rank
        assert 0 < one.result[name] <= 1
    assert two.result["row_bytes_sent"] > 0 == one.result["row_bytes_sent"]
    assert two.result["group_borders"][-1] == one.result["group_borders"][-1] == 34
    assert one.result["group_imbalance"] == 1 <= two.result["group_imbalance"] < 2
    assert set(two.result["snapshot_cost"]) == {"base", "edge", "node"}


def test_a_model_learns_what_alternates(cache: Path) -> None:
    """Guards against states that know nothing of the snapshot before: who is next follows from who was last."""
    training = ("--lr", 0.05, "--epochs", 20, "--eval-every", 2, "--patience", 0, "--seed", 3)
    [run] = runs(1, (cache, "--model", "gclstm", "--hidden", 16, *training))
    assert run.result["val_ap"] > 0.85  # 0.5 by chance, and about 0.7 where all that is known is which pairs occur


def test_a_resumed_run_is_the_whole_run(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a checkpoint that lacks the optimiser, the best weights or the epoch; SIGTERM writes it."""
    arguments = (cache, "--model", "evolvegcn", *SMALL, "--epochs", 4)
    [whole] = runs(1, arguments)
    arguments = (*arguments, "--checkpoint", tmp_path / "checkpoints")
    listen = StopRequest.__enter__

    def stop_at_once(request: StopRequest) -> StopRequest:
        request.is_requested = True
        return listen(request)

    with monkeypatch.context() as patch:
        patch.setattr(StopRequest, "__enter__", stop_at_once)
        with pytest.raises(StoppedError, match="stopped by SIGTERM after epoch 1"):
            runs(1, arguments)
    [resumed] = runs(2, (*arguments, "--resume"))
    assert resumed.result["resumed_after"] == 1
    assert resumed.losses == pytest.approx(whole.losses[1:], rel=1e-5)
    assert resumed.result["test_ap"] == pytest.approx(whole.result["test_ap"], abs=1e-4)


def test_files_of_a_run(cache: Path, tmp_path: Path) -> None:
    """Guards against files that are not written, and traces without the workers."""
    out, weights, trace = tmp_path / "run", tmp_path / "weights.pt", tmp_path / "trace"
    words = ("--epochs", 1, "--output", out, "--save-weights", weights, "--trace", trace)
    [run] = runs(1, (cache, "--model", "tgcn", *SMALL, *words))
    assert json.loads((out / "result.json").read_text()) == run.result
    saved = torch.load(weights, weights_only=True)
    assert sum(value.numel() for value in saved.values()) == run.result["parameters"]
    assert saved["vectors_NF"].shape == (24, 8)
    spans = json.loads((trace / "rank-0.json").read_text())["traceEvents"]
    threads = {span["tid"] for span in spans if span["name"] in ("sparse product", "dense product")}
    assert threads == {1, 2}
    [overlap] = run.result["overlap_by_rank"]
    assert 0 <= overlap["both"] <= 2 * min(overlap["sparse"], overlap["dense"])


@pytest.mark.parametrize("model", ["tgcn", "evolvegcn"])
def test_states_of_nodes_are_learnt(model: str, shared_runs: dict[int, dict[str, Run]]) -> None:
    """Guards against states of another node, window or rank: whose turn it is follows from the turn before."""
    two, four = (shared_runs[world][f"states of {model}"] for world in (2, 4))
    learnt = shared_runs[2]["learnt states of tgcn"]
    assert two.losses == pytest.approx(four.losses, rel=1e-4)
    assert (two.result["task"], two.result["metric"], two.result["eval_negatives"]) == ("classes", "accuracy", None)
    assert two.result["test_accuracy"] == pytest.approx(four.result["test_accuracy"], abs=1e-6)
    assert learnt.result["test_accuracy"] > 0.9  # 0.5 by chance


def test_streams_without_states_are_refused(cache: Path) -> None:
    """Guards against classes of a stream that says none."""
    with pytest.raises(TrainingError, match="do not say in which of several states"):
        runs(1, (cache, "--model", "tgcn", "--task", "classes"))


def test_a_killed_rank_is_named(shared_cache: Path) -> None:
    """Guards against ranks that wait for the states, or the rows of its group, of a rank that is gone."""
    words = (shared_cache, "--model", "tgcn", *SMALL, "--epochs", 1_000_000, "--patience", 0, "--json", "-q")
    with running("trainer.launch", *(str(word) for word in words)) as process:
        ranks = children_of(process.pid)
        os.kill(ranks[1], signal.SIGKILL)
        assert process.wait(timeout=PATIENCE) == 128 + signal.SIGKILL
        assert not any(is_running(rank) for rank in ranks)
        assert re.match(r"trainer: rank [0-3] was ended by SIGKILL", process.stderr.read())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "tgcn", "--task", "edges"), "it predicts links, or the classes of states"),
        (("--model", "tgcn", "--task", "classes", "--negatives", "3"), "--task classes has none"),
        (("--model", "tgcn", "--task", "classes", "--metric", "mrr"), "states have classes"),
        (("--model", "tgcn", "--dropout", "0.1"), "--dropout does nothing for --model tgcn"),
        (("--model", "tgcn", "--variant", "h"), "--variant does nothing for --model tgcn"),
        (("--model", "tgn", "--history", "3"), "--history does nothing for --model tgn"),
        (("--model", "gcn", "--workers", "2"), "--workers does nothing for --model gcn; it is for tgcn"),
        (("--model", "gclstm", "--batch-size", "9"), "--batch-size does nothing for --model gclstm"),
        (("--model", "evolvegcn", "--heads", "2"), "--heads does nothing for --model evolvegcn"),
        (("--model", "gclstm", "--metric", "accuracy"), "ranked by ap or mrr"),
    ],
)
def test_options_without_effect_are_refused(arguments: tuple[str, ...], message: str) -> None:
    """Guards against options that are silently ignored."""
    with pytest.raises(OptionError, match=message):
        parse(["cache", *arguments])


def test_caches_that_do_not_suit_are_refused(cache: Path, tmp_path: Path) -> None:
    """Guards against tracebacks, and against a mean over nothing."""
    assert open_for(parse([str(cache), "--model", "tgcn"])).num_nodes == 24
    plain = made(tmp_path / "plain", window_seconds=None)
    with pytest.raises(OptionError, match="has events without windows"):
        open_for(parse([str(plain), "--model", "tgcn"]))
    wide = made(tmp_path / "wide", window_seconds=1e6, num_parts=1)
    with pytest.raises(TrainingError, match="has no event for the training after its first window"):
        runs(1, (wide, "--model", "tgcn"))


def test_too_little_memory_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a rank that the kernel kills in the first epoch."""
    monkeypatch.setattr("trainer.temporal.epochs.available", lambda device: 1000)
    with pytest.raises(
        TrainingError, match=r"will need about .* GB and there is .* or a smaller --hidden, or give --any"
    ):
        runs(1, (cache, "--model", "tgcn"))
    [run] = runs(1, (cache, "--model", "tgcn", "--epochs", 1, "--anyway"))
    assert run.result["memory_estimate_by_rank"][0] > 1000


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same stream, where two of four ranks share each group."""
    return made(tmp_path_factory.mktemp("snapshots") / "shared", num_parts=4, ranks_per_group=2)


@pytest.fixture(scope="module")
def shared_runs(shared_cache: Path, state_cache: Path) -> dict[int, dict[str, Run]]:
    """Short runs on two and four ranks, two a group."""
    of_states = ("--task", "classes", "--metric", "accuracy", "--hidden", 8, "--lr", 0.02)
    all_arguments = {
        "links": (shared_cache, "--model", *MODELS["evolvegcn"], *SMALL, "--epochs", 4, "--metric", "mrr"),
        **{
            f"states of {model}": (state_cache, "--model", model, *of_states, "--epochs", 4, "--eval-every", 4)
            for model in ("tgcn", "evolvegcn")
        },
    }
    four = dict(zip(all_arguments, runs(4, *all_arguments.values()), strict=True))
    learnt = (state_cache, "--model", "tgcn", *of_states, "--epochs", 30, "--eval-every", 10)
    all_arguments["learnt states of tgcn"] = learnt
    return {2: dict(zip(all_arguments, runs(2, *all_arguments.values()), strict=True)), 4: four}


def test_ranks_share_the_groups_of_a_cache(
    shared_runs: dict[int, dict[str, Run]], shared_cache: Path, of_ranks: dict[int, dict[str, Run]]
) -> None:
    """Guards against a cache whose division of nodes is not read, on the ranks that it is for and on fewer."""
    expected = of_ranks[1]["evolvegcn"]
    for world, of_world in shared_runs.items():
        run = of_world["links"]
        assert run.losses == pytest.approx(expected.losses, rel=1e-5)
        assert run.result["test_mrr"] == pytest.approx(expected.result["test_mrr"], abs=1e-3)
        assert (run.result["ranks_per_group"], run.result["workers"]) == (2, 1)
        assert len(run.result["group_borders"]) == 1 + world // 2
        assert len(run.result["group_seconds_by_rank"]) == len(run.result["memory_estimate_by_rank"]) == world
    with pytest.raises(TrainingError, match=r"2 ranks share each group of snapshots of .* and the run has 1; start a"):
        runs(1, (shared_cache, "--model", "tgcn"))


def on_machines_of_their_own(communicator: Communicator, *, available: int, arguments: list[str]) -> Run:
    """A run whose ranks are on one machine each, with so much memory."""
    with (
        patch.object(epochs, "available", lambda _device: available),
        patch.object(epochs.socket, "gethostname", lambda: f"host-{communicator.rank}"),
    ):
        return run_once(communicator, arguments=arguments)


def test_ranks_share_a_group_where_memory_is_too_small(tmp_path: Path, of_ranks: dict[int, dict[str, Run]]) -> None:
    """Guards against a refusal where the group of one machine is too large and two machines have room for half."""
    uneven = made(tmp_path / "uneven", group=[0] * 49 + [1])
    arguments = [str(one) for one in (uneven, "--model", "tgcn", *SMALL, "--epochs", 4, "--metric", "mrr")]
    [needed] = of_ranks[1]["tgcn"].result["memory_estimate_by_rank"]
    task = partial(on_machines_of_their_own, available=int(0.8 * needed), arguments=arguments)
    [run] = among_ranks(2, [task])
    assert run.result["ranks_per_group"] == 2
    assert run.losses == pytest.approx(of_ranks[1]["tgcn"].losses, rel=1e-5)
