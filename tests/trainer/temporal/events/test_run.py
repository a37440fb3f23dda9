"""Runs on event caches, from options to a result."""

from __future__ import annotations

import io
import json
import os
import re
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphprep.core.event_rows import ChangingFeatures
from graphprep.errors import GraphprepError
from graphprep.interop.training_run import TrainingRun
from graphprep.report.summary.run_summary import run_summary
from graphprep.temporal.write_cache import cache_of_arrays
from tests.forks import ForkedProgram
from tests.trainer.handmade_cache import make_cache, random_graph
from tests.trainer.rank_group import Run, among_ranks, free_port
from tests.trainer.temporal.events.streams import alternating_stream
from tests.trainer.test_launch import PATIENCE, children_of, finish, is_running, rank_variables, running
from trainer.base.errors import OptionError, StoppedError, TrainingError
from trainer.config.command_line import parse
from trainer.data.events import open_event_cache
from trainer.dist.communicator import Communicator
from trainer.reporting.report import Report
from trainer.startup.opening import open_for
from trainer.temporal.run import train_temporal
from trainer.training.termination import StopRequest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The alternating stream as a cache."""
    stream = alternating_stream(400)
    return cache_of_arrays(
        tmp_path_factory.mktemp("events") / "cache",
        stream.source_M.numpy(),
        stream.destination_M.numpy(),
        stream.time_M.numpy(),
        num_parts=2,
    )


def run_once(communicator: Communicator, *, arguments: list[str], as_json: bool = True) -> Run | str:
    """What `python -m trainer` prints with these arguments, of rank 0."""
    options = parse([*arguments, "--timeout", "60"])
    output = io.StringIO()
    report = Report(speaks=communicator.is_main, as_json=as_json, output=output)
    train_temporal(options, open_event_cache(options.cache), communicator, report)
    if not as_json:
        return output.getvalue()
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    return Run(epochs=lines[:-1], result=lines[-1]) if lines else Run(epochs=[], result={})


def alone(*arguments: object, **more: Any) -> Any:
    [run] = among_ranks(1, [partial(run_once, arguments=[str(one) for one in arguments], **more)])
    return run


SMALL = ("--model", "tgn", "--hidden", 8, "--batch-size", 16, "--lr", 0.01)


def test_a_run_reports_epochs_and_both_metrics(cache: Path, tmp_path: Path) -> None:
    """Guards against lines or results that lack what is promised, and files that are not written."""
    out, weights = tmp_path / "run", tmp_path / "weights.pt"
    run = alone(cache, *SMALL, "--epochs", 3, "--output", out, "--save-weights", weights)
    assert [line["epoch"] for line in run.epochs] == [1, 2, 3]
    assert all(0 < line["val_ap"] <= 1 and line["bytes_sent"] == 0 for line in run.epochs)
    result = run.result
    assert result["parallel"] == [1, 1, 1]
    assert all(0 < result[f"{group}_{metric}"] <= 1 for group in ("val", "test") for metric in ("ap", "mrr"))
    assert result["val_ap"] == max(line["val_ap"] for line in run.epochs)
    assert json.loads((out / "result.json").read_text()) == result
    assert len((out / "history.jsonl").read_text().splitlines()) == 3
    with pytest.raises(GraphprepError, match="is a run on a stream of events, and the page is of runs on a graph"):
        run_summary(TrainingRun(out))
    saved = torch.load(weights, weights_only=True)
    assert sum(value.numel() for value in saved.values()) == result["parameters"]


def test_two_ranks_print_what_one_does(cache: Path) -> None:
    """Guards against a result that depends on the ranks that share a batch."""
    arguments = [str(one) for one in (cache, *SMALL, "--epochs", 2)]
    [one] = among_ranks(1, [partial(run_once, arguments=arguments)])
    [two] = among_ranks(2, [partial(run_once, arguments=[*arguments, "--parallel", "2,1,1"])])
    assert two.losses == pytest.approx(one.losses, abs=1e-5)
    assert two.result["test_ap"] == pytest.approx(one.result["test_ap"], abs=1e-4)
    assert two.result["row_bytes_sent"] > 0
    assert two.result["bytes_sent"] == sum(two.result[f"{kind}_bytes_sent"] for kind in ("row", "weight", "other"))


def stop_at_once(request: StopRequest) -> StopRequest:
    """`StopRequest.__enter__` of a process that got SIGTERM."""
    request.is_requested = True
    return request


def test_a_resumed_run_is_the_whole_run(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a checkpoint that lacks the optimiser, the best weights or the epoch; SIGTERM writes it."""
    whole = alone(cache, *SMALL, "--epochs", 4)
    arguments = (cache, *SMALL, "--epochs", 4, "--checkpoint", tmp_path / "checkpoints")
    with monkeypatch.context() as patch:
        patch.setattr(StopRequest, "__enter__", stop_at_once)
        with pytest.raises(StoppedError, match="stopped by SIGTERM after epoch 1"):
            alone(*arguments)
    resumed = alone(*arguments, "--resume")
    assert resumed.result["resumed_after"] == 1
    assert resumed.losses == pytest.approx(whole.losses[1:], abs=1e-6)
    for name in ("val_ap", "test_ap", "test_mrr", "best_epoch"):
        assert resumed.result[name] == pytest.approx(whole.result[name])


def test_runs_of_several_epochs_a_round_resume(cache: Path, tmp_path: Path) -> None:
    """Guards against epochs that are counted as rounds, and a place in the stream that is lost: j and k of two."""
    arguments = [str(one) for one in (cache, *SMALL, "--checkpoint", tmp_path / "checkpoints")]
    tasks = [
        partial(run_once, arguments=[*arguments, "--epochs", epochs, "--parallel", numbers, *more])
        for epochs, numbers, more in (("2", "1,2,1", []), ("6", "1,1,2", ["--resume"]))
    ]
    first, resumed = among_ranks(2, tasks)
    assert [line["epoch"] for line in first.epochs] == [2]
    assert [line["epoch"] for line in resumed.epochs] == [4, 6]
    assert resumed.result["resumed_after"] == 2
    assert resumed.losses[-1] < first.losses[0]


def stopped(communicator: Communicator, *, arguments: list[str]) -> None:
    """A run that gets SIGTERM in its first round: a task."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StopRequest, "__enter__", stop_at_once)
        with pytest.raises(StoppedError, match="stopped by SIGTERM"):
            run_once(communicator, arguments=arguments)


@pytest.mark.parametrize(("ranks", "numbers"), [(2, "1,1,2"), (4, "1,2,2")])
def test_a_resumed_run_of_copies_and_epochs_is_the_whole_run(
    cache: Path, tmp_path: Path, ranks: int, numbers: str
) -> None:
    """Guards against a checkpoint without the memory of a copy, or without what was read for epochs that had begun."""
    plain = [str(one) for one in (cache, *SMALL, "--epochs", 8, "--parallel", numbers)]
    checkpoint = ["--checkpoint", str(tmp_path / "checkpoints")]
    whole, _, resumed = among_ranks(
        ranks,
        [
            partial(run_once, arguments=plain),
            partial(stopped, arguments=[*plain, *checkpoint]),
            partial(run_once, arguments=[*plain, *checkpoint, "--resume"]),
        ],
    )
    assert resumed.result["resumed_after"] == ranks
    assert resumed.losses == pytest.approx(whole.losses[1:], abs=1e-6)
    for name in ("val_ap", "test_ap", "test_mrr", "best_epoch"):
        assert resumed.result[name] == pytest.approx(whole.result[name])


def test_states_of_sources_are_learnt(tmp_path: Path) -> None:
    """Guards against labels of other events, events without a label that count, and ranks that change the result: the
    state of a source is which of its two destinations it has met."""
    stream = alternating_stream(400)
    turn_M = (stream.destination_M % 2).numpy()
    y = np.where(stream.time_M.numpy() % 70 == 0, -1, turn_M)
    arrays = (stream.source_M.numpy(), stream.destination_M.numpy(), stream.time_M.numpy())
    known = cache_of_arrays(tmp_path / "known", *arrays, y=y)
    arguments = [str(one) for one in (known, *SMALL, "--task", "classes", "--epochs", 5)]
    [one] = among_ranks(1, [partial(run_once, arguments=arguments)])
    assert one.result["metric"] == "roc_auc"
    assert one.result["test_roc_auc"] > 0.95
    assert "test_mrr" not in one.result
    saved = tmp_path / "weights.pt"
    without = alone(known, *SMALL, "--task", "classes", "--epochs", 1, "--no-node-vectors", "--save-weights", saved)
    assert without.result["parameters"] == one.result["parameters"] - 24 * 8
    assert "static.weight" not in torch.load(saved, weights_only=True)
    [two] = among_ranks(2, [partial(run_once, arguments=[*arguments, "--metric", "accuracy", "--parallel", "2,1,1"])])
    assert two.losses == pytest.approx(one.losses, abs=1e-4)
    assert two.result["test_accuracy"] > 0.9
    with pytest.raises(TrainingError, match="do not say in which of several states"):
        alone(cache_of_arrays(tmp_path / "none", *arrays), *SMALL, "--task", "classes")


def test_early_stopping_and_mrr(cache: Path) -> None:
    """Guards against patience that counts no epochs, and a validation by another metric than that of the run."""
    run = alone(cache, *SMALL, "--epochs", 30, "--patience", 2, "--lr", 1e-9, "--metric", "mrr")
    assert len(run.epochs) <= 6
    assert run.result["epochs"] == run.result["best_epoch"] + 2
    assert run.result["val_mrr"] == max(line["val_mrr"] for line in run.epochs)


def test_edgebank_is_tested_and_said_in_words(cache: Path) -> None:
    """Guards against a baseline that is trained, and a summary of things that it has not."""
    result = alone(cache, "--model", "edgebank").result
    assert result["epochs"] == result["parameters"] == 0
    assert result["test_ap"] > 0.9  # all pairs of the stream are old, and few negatives are
    text = alone(cache, "--model", "edgebank", as_json=False)
    assert text.startswith(f"test ap {100 * result['test_ap']:.2f} %")
    assert "whole blocks" not in text


def test_a_killed_rank_is_named(cache: Path) -> None:
    """Guards against ranks that wait for the memory of a rank that is gone."""
    arguments = [str(one) for one in (cache, *SMALL, "--epochs", 1_000_000, "--patience", 0, "--json", "-q")]
    with running("trainer.launch", *arguments) as process:
        ranks = children_of(process.pid)
        os.kill(ranks[1], signal.SIGKILL)
        assert process.wait(timeout=PATIENCE) == 128 + signal.SIGKILL
        assert not any(is_running(rank) for rank in ranks)
        assert re.match(r"trainer: rank [01] was ended by SIGKILL", process.stderr.read())


def test_a_rank_that_hangs_is_named(cache: Path) -> None:
    """Guards against ranks that wait for ever for the memory of a rank that keeps its connections open."""
    arguments = [*map(str, (cache, *SMALL)), "--parallel", "2,1,1", "--epochs", "1000000", "--json", "-q"]
    port = free_port()
    processes = [
        ForkedProgram("trainer", *arguments, "--timeout", "3", **rank_variables(rank, port)) for rank in range(2)
    ]
    try:
        assert processes[0].stdout.readline().startswith("{")
        processes[1].send_signal(signal.SIGSTOP)
        status, _, err = finish(processes[0])
        assert status == 7
        [line] = err.strip().splitlines()
        assert re.match(r"rank 0: could not .* with rank 1 \(", line)
        assert "--timeout" in line
    finally:
        for process in processes:
            process.kill()
            process.communicate(timeout=PATIENCE)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "tgn", "--dropout", "0.1"), "--dropout does nothing for --model tgn"),
        (("--model", "edgebank", "--lr", "0.1"), "--lr does nothing for --model edgebank"),
        (("--model", "gcn", "--parallel", "1,1,2"), "--parallel does nothing for --model gcn; it is for tgn"),
        (("--model", "own.py:Net", "--neighbours", "3"), "--neighbours does nothing for --model own.py:Net"),
        (("--model", "tgn", "--hidden", "9"), "heads divide it"),
        (("--model", "tgn", "--metric", "accuracy"), "events are ranked by ap or mrr"),
        (("--model", "tgn", "--eval-negatives", "0"), "ap needs one"),
        (("--model", "tgn", "--task", "regression"), "it predicts links, or the classes of states"),
        (("--model", "tgn", "--task", "classes", "--metric", "ap"), "states have classes"),
        (("--model", "tgn", "--task", "classes", "--negatives", "3"), "--task classes has none"),
        (("--model", "edgebank", "--task", "classes"), "--task does nothing for --model edgebank"),
        (("--model", "tgn", "--metric", "mrr", "--eval-negatives", "1"), "nothing to rank"),
        (("--model", "tgn", "--parallel", "1,1,1", "--lost-mail", "0.2"), "it is for --parallel auto"),
        (("--model", "tgn", "--batch-size", "9", "--lost-mail", "0.2"), "chooses the size of batches"),
        (("--model", "tgn", "--resume"), "--resume needs the --checkpoint folder"),
        (("--model", "tgn", "--save-weights", "x.txt"), "ends in neither"),
    ],
)
def test_options_without_effect_are_refused(arguments: tuple[str, ...], message: str) -> None:
    """Guards against options that are silently ignored."""
    with pytest.raises(OptionError, match=message):
        parse(["cache", *arguments])


def test_defaults_are_those_of_the_model() -> None:
    """Guards against the learning rate of a citation graph for a stream, and the other way round."""
    tgn, gcn = parse(["cache", "--model", "tgn"]), parse(["cache"])
    assert (tgn.lr, tgn.epochs, tgn.heads, tgn.eval_negatives) == (2e-4, 12, 2, 49)
    assert (gcn.lr, gcn.epochs, gcn.heads, gcn.eval_negatives) == (0.01, 200, 4, 100)
    assert parse(["cache", "--model", "tgn", "--lr", "0.01"]).lr == 0.01


def test_models_and_caches_have_to_match(cache: Path, tmp_path: Path) -> None:
    """Guards against a traceback, or a wrong model, where the kind of the cache is another."""
    assert open_for(parse([str(cache), "--model", "tgn"])).num_nodes == 24
    with pytest.raises(OptionError, match="is a cache of events, and --model gcn trains on graphs without times"):
        open_for(parse([str(cache)]))
    graph = random_graph()
    plain = make_cache(tmp_path / "plain", graph, np.zeros(graph.num_nodes, dtype=np.int64), 1)
    with pytest.raises(OptionError, match="--model tgn trains on events"):
        open_for(parse([str(plain), "--model", "tgn"]))


def test_nodes_with_features_have_no_learnt_vectors(tmp_path: Path) -> None:
    """Guards against features that are not read, and an option that does nothing for them."""
    stream, rng = alternating_stream(200), np.random.default_rng(0)
    arrays = (stream.source_M.numpy(), stream.destination_M.numpy(), stream.time_M.numpy())
    made = [
        cache_of_arrays(tmp_path / str(seed), *arrays, node_x=rng.normal(size=(24, 3)).astype(np.float32))
        for seed in range(2)
    ]
    first, second = (alone(cache, *SMALL, "--epochs", 1) for cache in made)
    assert first.losses != second.losses
    with pytest.raises(OptionError, match="have features; leave it out"):
        alone(made[0], *SMALL, "--no-node-vectors")


def test_ranks_share_batches_of_nodes_whose_features_change(tmp_path: Path) -> None:
    """Guards against rows of memory of other nodes than those that have the features."""
    stream, rng = alternating_stream(300), np.random.default_rng(0)
    changing = ChangingFeatures(
        node=rng.integers(0, 24, 60), time=rng.integers(0, 3000, 60), x=rng.normal(size=(60, 2)).astype(np.float32)
    )
    arrays = (stream.source_M.numpy(), stream.destination_M.numpy(), stream.time_M.numpy())
    cache = cache_of_arrays(tmp_path / "cache", *arrays, changing=changing, num_parts=2)
    arguments = [str(one) for one in (cache, *SMALL, "--epochs", 2)]
    [one] = among_ranks(1, [partial(run_once, arguments=arguments)])
    [two] = among_ranks(2, [partial(run_once, arguments=[*arguments, "--parallel", "2,1,1"])])
    assert two.losses == pytest.approx(one.losses, abs=1e-5)
    assert two.result["test_ap"] == pytest.approx(one.result["test_ap"], abs=1e-4)


def test_streams_without_validation_or_other_destinations_are_refused(tmp_path: Path) -> None:
    """Guards against a division by nothing."""
    event_M = np.arange(40)
    one = cache_of_arrays(tmp_path / "one", event_M % 3, np.full(40, 3), event_M)
    with pytest.raises(TrainingError, match="one destination only"):
        alone(one, "--model", "edgebank")
    two = open_event_cache(str(cache_of_arrays(tmp_path / "two", event_M % 3, 3 + event_M % 2, event_M)))

    def run_unsplit(communicator: Communicator) -> None:
        options = parse([str(two.folder), "--model", "edgebank"])
        train_temporal(options, replace(two, split=(20, 40)), communicator, Report(speaks=False, as_json=True))

    with pytest.raises(TrainingError, match="has no events for test"):
        among_ranks(1, [run_unsplit])
