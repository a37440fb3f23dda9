"""Checkpoints, and runs that resume from them."""

from __future__ import annotations

import hashlib
import io
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.trainer.handmade_cache import edit_json, make_cache, random_graph, seal
from tests.trainer.rank_group import Run, among_ranks, run_options, train_once
from trainer.base.errors import OptionError, StoppedError, TrainerError, TrainingError
from trainer.base.traffic_log import Clock
from trainer.data.cache import open_cache
from trainer.dist.communicator import Communicator
from trainer.dist.rank_info import RankInfo
from trainer.reporting.report import EpochLine, Report
from trainer.run import train
from trainer.training import checkpoint

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
SETTINGS: dict[str, dict[str, Any]] = {
    "adam, dropout, batch norm": {"dropout": 0.5, "norm": "batch", "layers": 3},
    "adamw, cosine": {"optimiser": "adamw", "schedule": "cosine:0.1", "lr_warmup": 3},
    "sgd, clipped": {"optimiser": "sgd", "clip_norm": 0.1, "schedule": "step:4:0.5"},
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_cache(tmp_path_factory.mktemp("checkpoint") / "cache", random_graph(seed=3), np.zeros(60, int), 1)


def fitted(cache: Path, *, restarts: int = 0, **changes: Any) -> Run:
    with Communicator(RankInfo(restarts=restarts), CPU, timeout=1.0, clock=Clock(CPU)) as communicator:
        return train_once(communicator, cache=str(cache), **changes)


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("epoch-*.pt"))


def epochs(folder: Path) -> list[int]:
    return [int(path.name.split("-")[1]) for path in files(folder)]


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_resumed_run_is_the_uninterrupted_one(cache: Path, tmp_path: Path, setting: str) -> None:
    """A step counter, a velocity, a running mean or a place in the schedule that is forgotten changes the losses."""
    whole = fitted(cache, epochs=12, checkpoint=str(tmp_path), checkpoint_every=5, **SETTINGS[setting])
    assert epochs(tmp_path) == [10, 12]
    files(tmp_path)[-1].unlink()
    rest = fitted(cache, epochs=12, checkpoint=str(tmp_path), resume=True, **SETTINGS[setting])
    assert [line["epoch"] for line in rest.epochs] == [11, 12]
    assert rest.losses == whole.losses[10:]
    for name in ("test_accuracy", "val_accuracy", "best_epoch", "epochs"):
        assert rest.result[name] == whole.result[name]
    assert (whole.result["resumed_after"], rest.result["resumed_after"]) == (None, 10)


def test_the_best_weights_and_the_patience_survive(cache: Path, tmp_path: Path) -> None:
    """Patience that starts anew at every resumption never ends a run; best weights that are lost cost accuracy."""
    whole = fitted(cache, lr=1e-30, epochs=50, patience=8, checkpoint=str(tmp_path), checkpoint_every=5)
    assert (whole.result["best_epoch"], whole.result["epochs"]) == (1, 9)
    files(tmp_path)[-1].unlink()
    rest = fitted(cache, lr=1e-30, epochs=50, patience=8, checkpoint=str(tmp_path), resume=True)
    assert (rest.result["best_epoch"], rest.result["epochs"]) == (1, 9)


def test_a_run_that_ended_can_be_lengthened(cache: Path, tmp_path: Path) -> None:
    """200 epochs that were too few are not to be paid for twice."""
    whole = fitted(cache, epochs=8)
    fitted(cache, epochs=4, checkpoint=str(tmp_path))
    rest = fitted(cache, epochs=8, checkpoint=str(tmp_path), resume=True)
    assert rest.losses == whole.losses[4:]
    again = fitted(cache, epochs=8, checkpoint=str(tmp_path), resume=True)
    assert again.losses == []
    assert again.result["test_accuracy"] == whole.result["test_accuracy"]


@pytest.fixture(scope="module")
def across(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """One graph cut into four and into two: a whole run on four ranks, and its second half on four and on two."""
    root = tmp_path_factory.mktemp("across")
    graph, nodes = random_graph(seed=3, weighted=True), np.arange(60)
    four, two = (make_cache(root / f"{parts}", graph, nodes % parts, parts) for parts in (4, 2))
    common = {"dropout": 0.4, "norm": "batch", "epochs": 12}

    def once(cache: Path, folder: str, **changes: Any) -> Any:
        return partial(train_once, cache=str(cache), **{**common, "checkpoint": str(root / folder), **changes})

    whole, _, _, rest_4 = among_ranks(
        4,
        [
            once(four, "whole"),
            once(four, "first", epochs=6),
            once(four, "for two", epochs=6),
            once(four, "first", resume=True),
        ],
    )
    [rest_2] = among_ranks(2, [once(two, "for two", resume=True)])
    stale = {"staleness": "adaptive:2", "staleness_grad": "variation:0.5"}
    _, stale_rest = among_ranks(2, [once(two, "stale", epochs=6, **stale), once(two, "stale", resume=True, **stale)])
    return {"whole": whole, "rest 4": rest_4, "rest 2": rest_2, "stale rest": stale_rest}


def test_the_same_ranks_go_on_bit_for_bit(across: dict[str, Run]) -> None:
    """A rank that is left behind by an epoch, or draws other masks, changes the losses of all."""
    assert across["rest 4"].losses == across["whole"].losses[6:]
    assert across["rest 4"].result["test_accuracy"] == across["whole"].result["test_accuracy"]


def test_fewer_ranks_go_on_where_four_were(across: dict[str, Run]) -> None:
    """Optimiser state that depends on the parts would start again, or crash, on another cache of the graph."""
    assert len(across["rest 2"].losses) == 6
    assert across["rest 2"].losses == pytest.approx(across["whole"].losses[6:], rel=1e-4)


def test_kept_copies_are_fetched_anew(across: dict[str, Run]) -> None:
    """Copies that nobody has sent since the resumption would be zeros, or make the ranks wait for each other."""
    run = across["stale rest"]
    assert [line["epoch"] for line in run.epochs] == list(range(7, 13))
    assert run.epochs[0]["bytes_skipped"] < run.epochs[1]["bytes_skipped"]
    assert all(np.isfinite(run.losses))


def spoil(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "truncated":
        content = content[: len(content) // 2]
    elif how == "empty":
        content = bytearray()
    else:
        content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["truncated", "empty", "bit"])
def test_a_damaged_checkpoint_is_never_loaded(
    cache: Path, tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """One wrong bit in a weight is not noticed by any shape, and spoils the run in silence."""
    whole = fitted(cache, epochs=12, checkpoint=str(tmp_path), checkpoint_every=5)
    spoil(files(tmp_path)[-1], how)
    (tmp_path / ".partial-epoch-00000099-0123456789abcdef.pt").write_bytes(b"half")
    with caplog.at_level("WARNING", logger="trainer"):
        checkpoint.log.propagate = True
        rest = fitted(cache, epochs=12, checkpoint=str(tmp_path), resume=True)
    assert "is damaged" in caplog.text
    assert rest.losses == whole.losses[10:]
    assert not list(tmp_path.glob(".partial-*"))
    for path in files(tmp_path):
        spoil(path, how)
    with pytest.raises(TrainingError, match=r"no checkpoint in .* is whole"):
        fitted(cache, epochs=12, checkpoint=str(tmp_path), resume=True)


def test_a_checkpoint_runs_no_code(cache: Path, tmp_path: Path) -> None:
    """A checkpoint from a stranger must not be able to do anything, whatever its checksum."""
    trap = tmp_path / "trap"

    class Trap:
        def __reduce__(self) -> Any:
            return (os.mkdir, (str(trap),))

    buffer = io.BytesIO()
    torch.save({"graphprep_checkpoint": 1, "epoch": Trap()}, buffer)
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()[:16]
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    (folder / f"epoch-00000003-{digest}.pt").write_bytes(buffer.getvalue())
    with pytest.raises(TrainingError, match="cannot be read"):
        fitted(cache, checkpoint=str(folder), resume=True)
    assert not trap.exists()


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({}, OptionError, "give --resume"),
        ({"resume": True, "hidden": 16}, OptionError, "--hidden 8, not 16"),
        ({"resume": True, "seed": 1}, OptionError, "--seed 0, not 1"),
        ({"resume": True, "optimiser": "sgd"}, OptionError, "--optimiser adam, not sgd"),
    ],
)
def test_runs_do_not_mix(
    cache: Path, tmp_path: Path, changes: dict[str, Any], error: type[TrainerError], said: str
) -> None:
    """A run that resumes with another model, or writes among another run's checkpoints, ruins both."""
    fitted(cache, epochs=3, checkpoint=str(tmp_path))
    with pytest.raises(error, match=said) as caught:
        fitted(cache, epochs=5, checkpoint=str(tmp_path), **changes)
    assert caught.value.shared


def test_what_may_change_may_change(cache: Path, tmp_path: Path) -> None:
    """A lower learning rate is a common reason to resume, and so is an exact end of a run that sampled."""
    fitted(cache, epochs=3, boundary_sampling=0.5, checkpoint=str(tmp_path))
    assert len(fitted(cache, epochs=5, lr=0.001, patience=9, checkpoint=str(tmp_path), resume=True).losses) == 2


def test_another_graph_is_refused(cache: Path, tmp_path: Path) -> None:
    """The weights of a graph with as many features and classes fit, and mean nothing."""
    fitted(cache, epochs=3, checkpoint=str(tmp_path / "c"))
    other = make_cache(tmp_path / "other", random_graph(seed=3), np.zeros(60, int), 1)
    edit_json(other / "zarr.json", source={"files": {"x": "another"}})
    seal(other)
    with pytest.raises(TrainingError, match="are of another graph"):
        fitted(other, epochs=5, checkpoint=str(tmp_path / "c"), resume=True)


def test_resume_without_a_checkpoint_starts(cache: Path, tmp_path: Path) -> None:
    """A scheduler runs the same command the first time and after it took the machine away."""
    assert len(fitted(cache, epochs=3, checkpoint=str(tmp_path / "new"), resume=True).losses) == 3


def test_a_restarted_rank_goes_on_by_itself(cache: Path, tmp_path: Path) -> None:
    """torchrun --max-restarts starts the very same command again."""
    whole = fitted(cache, epochs=6)
    fitted(cache, epochs=4, checkpoint=str(tmp_path))
    assert fitted(cache, epochs=6, checkpoint=str(tmp_path), restarts=1).losses == whole.losses[4:]


class Interrupting(Report):
    """Sends this process SIGTERM after epoch 3."""

    def epoch(self, line: EpochLine) -> None:
        super().epoch(line)
        if line.epoch == 3:
            os.kill(os.getpid(), signal.SIGTERM)


def test_sigterm_saves_and_ends_the_run(cache: Path, tmp_path: Path) -> None:
    """A machine that is taken away after a minute's notice must not cost ten minutes of training."""
    whole = fitted(cache, epochs=9)
    options = run_options(cache, epochs=9, checkpoint=str(tmp_path))
    before = signal.getsignal(signal.SIGTERM)
    with (
        Communicator(RankInfo(), CPU, timeout=1.0, clock=Clock(CPU)) as communicator,
        pytest.raises(StoppedError) as caught,
    ):
        train(
            options, open_cache(str(cache)), communicator, Interrupting(speaks=True, as_json=True, output=io.StringIO())
        )
    assert (caught.value.exit_status, caught.value.shared) == (8, True)
    assert "after epoch 4" in str(caught.value)
    assert signal.getsignal(signal.SIGTERM) == before
    assert fitted(cache, epochs=9, checkpoint=str(tmp_path), resume=True).losses == whole.losses[4:]


def test_a_full_disk_costs_a_checkpoint_and_not_the_run(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Hours of training must not die by a full disk; a stop that says that it saved must have saved."""

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_whole", full)
    with caplog.at_level("WARNING", logger="trainer"):
        checkpoint.log.propagate = True
        assert fitted(cache, epochs=4, checkpoint=str(tmp_path), checkpoint_every=2).result["epochs"] == 4
    assert "No space left on device; training goes on" in caplog.text
    options = run_options(cache, epochs=9, checkpoint=str(tmp_path))
    with (
        Communicator(RankInfo(), CPU, timeout=1.0, clock=Clock(CPU)) as communicator,
        pytest.raises(TrainingError, match="No space left"),
    ):
        train(
            options, open_cache(str(cache)), communicator, Interrupting(speaks=True, as_json=True, output=io.StringIO())
        )


def test_a_folder_that_cannot_be_is_said_at_once(cache: Path, tmp_path: Path) -> None:
    """Ten minutes later is too late to learn that nothing is saved."""
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match="give another --checkpoint"):
        fitted(cache, checkpoint=str(tmp_path / "file" / "folder"))
