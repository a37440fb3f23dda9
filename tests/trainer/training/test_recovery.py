"""Ranks that are killed under torchrun, and runs that are asked to stop: whole programs."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from subprocess import Popen
from typing import Any

import numpy as np
import pytest

from tests.forks import ForkedProgram
from tests.soak import soak_count
from tests.trainer.handmade_cache import make_cache, random_graph
from tests.trainer.rank_group import among_ranks, train_once
from tests.trainer.test_launch import PATIENCE, children_of, finish, start

pytestmark = pytest.mark.slow

KILLS = soak_count(20)
LONG_PATIENCE = 360 + 60 * KILLS
"""Seconds for a run with that many restarts, each of which imports torch in every rank."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_cache(tmp_path_factory.mktemp("recovery") / "cache", random_graph(seed=3), np.arange(60) % 2, 2)


def ranks_of(pid: int) -> list[int]:
    """The rank processes among the children of torchrun."""

    def is_rank(child: int) -> bool:
        try:
            return b"\0-m\0trainer\0" in Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            return False

    return [child for child in children_of(pid) if is_rank(child)]


def newest(folder: Path) -> int:
    """The epoch of the newest checkpoint; 0 for none."""
    return max((int(path.name.split("-")[1]) for path in folder.glob("epoch-*.pt")), default=0)


@contextmanager
def torchrun(cache: Path, *options: str, restarts: int = 0) -> Iterator[Popen[str]]:
    """torchrun with two ranks; nothing of it is left, whatever the test does."""
    head = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", str(restarts)]
    process = start(*head, "-m", "trainer", str(cache), "--device", "cpu", "--hidden", "8", "--json", "-q", *options)
    try:
        yield process
    finally:
        for pid in [*children_of(process.pid), process.pid] if process.poll() is None else []:
            os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE)


def wait_for(what: str, happened: Any, process: Popen[str] | ForkedProgram) -> None:
    deadline = time.monotonic() + LONG_PATIENCE
    while not happened():
        assert process.poll() is None, f"torchrun ended before {what}"
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.02)


@pytest.mark.soak
def test_a_run_survives_ranks_that_are_killed(cache: Path, tmp_path: Path) -> None:
    """A checkpoint that is half written or of one rank's own epoch, or ranks that start at different ones: the run
    hangs, starts anew, or ends with other weights than one that was left alone.
    """
    epochs = 100 + 100 * KILLS
    plain = ["--epochs", str(epochs), "--eval-every", "50", "--patience", "0", "--dropout", "0.3"]
    folder = tmp_path / "checkpoints"
    chance = random.Random(7)
    of_run = {"epochs": epochs, "eval_every": 50, "dropout": 0.3}
    [alone] = among_ranks(2, [partial(train_once, cache=str(cache), **of_run)])
    saving = ["--checkpoint", str(folder), "--checkpoint-every", "20"]
    with torchrun(cache, *plain, *saving, restarts=KILLS + 1) as process:
        known: set[int] = set()
        for number in range(KILLS):

            def has_started(known: set[int] = known) -> bool:
                return len(set(ranks_of(process.pid)) - known) == 2

            wait_for(f"start {number}", has_started, process)
            if chance.random() < 0.7:
                before = newest(folder)

                def has_moved(before: int = before) -> bool:
                    return newest(folder) > before

                wait_for(f"a checkpoint after start {number}", has_moved, process)
            time.sleep(chance.uniform(0, 0.1))
            ranks = ranks_of(process.pid)
            known |= set(ranks)
            os.kill(chance.choice(ranks), signal.SIGKILL)
        status, out, err = finish_within(process, LONG_PATIENCE)
        assert status == 0, err
        result = json.loads(out.splitlines()[-1])
    assert result["resumed_after"] > 0
    for name in ("test_accuracy", "val_accuracy", "best_epoch", "epochs"):
        assert result[name] == alone.result[name]


def finish_within(process: Popen[str], seconds: float) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


def test_sigterm_saves_on_all_ranks_and_the_run_goes_on_later(cache: Path, tmp_path: Path) -> None:
    """A scheduler that takes the machine away: what is saved must be one epoch of all ranks, and torchrun must end."""
    line = ["--epochs", "100000000", "--patience", "0", "--checkpoint", str(tmp_path), "--checkpoint-every", "50"]
    line += ["--eval-every", "1000000"]  # nobody reads the lines before the end
    with torchrun(cache, *line) as process:
        wait_for("the first checkpoint", lambda: newest(tmp_path) > 0, process)
        asked = time.monotonic()
        process.send_signal(signal.SIGTERM)
        status, _, err = finish(process)
        assert status != 0
        assert time.monotonic() - asked < 25, "a rank waited to be killed"
        [said] = [line for line in err.splitlines() if line.startswith("rank ")]
        assert "stopped by SIGTERM after epoch" in said
    stopped = newest(tmp_path)
    assert f"after epoch {stopped};" in said
    again = {"epochs": stopped + 3, "dropout": 0.5, "checkpoint": str(tmp_path), "resume": True}
    [resumed] = among_ranks(2, [partial(train_once, cache=str(cache), **again)])
    assert [one["epoch"] for one in resumed.epochs] == [stopped + 1, stopped + 2, stopped + 3]
    assert resumed.result["resumed_after"] == stopped


def test_the_launcher_starts_ranks_again(cache: Path, tmp_path: Path) -> None:
    """`graphprep train` is how most runs start, and it must survive what torchrun survives."""
    line = ["--epochs", "400", "--eval-every", "50", "--patience", "0", "--checkpoint-every", "20"]
    line += ["--checkpoint", str(tmp_path), "--restarts", "2"]
    process = ForkedProgram("trainer.launch", str(cache), "--device", "cpu", "--json", "-q", *line)
    try:
        wait_for("the first checkpoint", lambda: newest(tmp_path) > 0, process)
        os.kill(children_of(process.pid)[0], signal.SIGKILL)
        status, out, err = finish(process)
    finally:
        if process.poll() is None:
            for pid in [*children_of(process.pid), process.pid]:
                os.kill(pid, signal.SIGKILL)
            process.communicate(timeout=PATIENCE)
    assert status == 0, err
    result = json.loads(out.splitlines()[-1])
    assert (result["epochs"], result["resumed_after"] > 0) == (400, True)
