"""Whole programs: the launcher, torchrun, ranks that fail, and a Python that has torch and nothing else."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphprep.errors import TrainingError
from graphprep.interop.rescale_request import request_cache
from graphprep.interop.training_run import history_lines, run_options
from tests.forks import ForkedProgram
from tests.trainer.handmade_cache import make_cache, random_graph
from tests.trainer.rank_group import free_port

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PLAIN = ["--epochs", "3", "--hidden", "4", "--device", "cpu"]
FOREVER = ["--epochs", "100000000", "--patience", "0", "--hidden", "4", "--device", "cpu", "--json", "-q"]
PATIENCE = 120
"""Seconds that a test waits for a process before it fails; nothing here takes long on an idle machine."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_cache(tmp_path_factory.mktemp("launch") / "cache", random_graph(), np.arange(60) % 2, 2)


def start(*command: str, **environment: str) -> subprocess.Popen[str]:
    """Start a Python program in the repository's root, free of the test runner's own variables."""
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str] | ForkedProgram) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@contextmanager
def running(module: str, *arguments: str) -> Iterator[ForkedProgram]:
    """A program that has printed its first line; whatever the test does, nothing of it is left."""
    process = ForkedProgram(module, *arguments)
    try:
        assert process.stdout.readline().startswith('{"epoch": ')
        yield process
    finally:
        for pid in [*children_of(process.pid), process.pid] if process.poll() is None else []:
            os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE)


def newest_epoch(run: Path) -> int:
    """The last epoch in the history of a run so far; 0 while its line is being written."""
    try:
        return int(history_lines(run)[-1]["epoch"])
    except (TrainingError, IndexError):
        return 0


def test_a_run_goes_on_with_another_number_of_ranks(cache: Path, tmp_path: Path) -> None:
    """Guards against a run that ends, forgets an epoch or learns something else when other ranks take it over."""
    three = make_cache(tmp_path / "three", random_graph(), np.arange(60) % 3, 3)
    other = make_cache(tmp_path / "other", random_graph(seed=5, num_nodes=50), np.arange(50) % 3, 3)
    run, checkpoints = tmp_path / "run", tmp_path / "checkpoints"
    words = [*FOREVER, "--dropout", "0"]
    places = ["--output", str(run), "--checkpoint", str(checkpoints)]
    with running("trainer.launch", str(cache), *words, *places) as process:
        with pytest.raises(TrainingError, match="is of another graph than the run's cache"):
            request_cache(checkpoints, other)
        with pytest.raises(TrainingError, match="is not a partition cache"):
            request_cache(checkpoints, tmp_path)
        assert len(children_of(process.pid)) == 2
        assert request_cache(checkpoints, three)
        deadline = time.monotonic() + PATIENCE
        while run_options(run)["cache"] != str(three) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(children_of(process.pid)) == 3
        begun = newest_epoch(run)
        while newest_epoch(run) < begun + 3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE) == 128 + signal.SIGTERM
        assert f"trainer: 2 rank(s) on {cache} give way to 3 on {three}" in process.stderr.read()
    lines = history_lines(run)
    assert [line["epoch"] for line in lines] == list(range(1, len(lines) + 1))
    losses = [line["loss"] for line in lines[: begun + 3]]
    status, out, err = finish(ForkedProgram("trainer.launch", str(cache), *words, "--epochs", str(begun + 3)))
    assert status == 0, err
    np.testing.assert_allclose(losses, [json.loads(line)["loss"] for line in out.splitlines()[:-1]], rtol=1e-4)


def test_two_runs_side_by_side(cache: Path) -> None:
    """Runs that share a port join each other's group or fail; runs that share a seed must not differ."""
    processes = [start("-m", "trainer.launch", str(cache), *PLAIN, "--json") for _ in range(2)]
    outputs = []
    for process in processes:
        status, out, err = finish(process)
        assert status == 0, err
        outputs.append([json.loads(line) for line in out.splitlines()])
        assert all(line.startswith("rank 0: ") for line in err.splitlines()), err
    losses = [[line["loss"] for line in lines[:-1]] for lines in outputs]
    assert len(losses[0]) == 3
    assert losses[0] == losses[1]
    assert outputs[0][-1]["ranks"] == 2
    assert 0 <= outputs[0][-1]["test_accuracy"] <= 1


def test_a_failing_rank_has_the_only_word(tmp_path: Path) -> None:
    """torchrun's page of traceback hides the sentence, and a rank that lost its peer blames the network."""
    cache = make_cache(tmp_path / "cache", random_graph(), np.arange(60) % 2, 2)
    payload = cache / "parts/1/nodes/node/x/c/0/0"
    payload.write_bytes(payload.read_bytes()[:-4])
    status, out, err = finish(ForkedProgram("trainer.launch", str(cache), *PLAIN))
    assert (status, out) == (6, "")
    [line] = err.strip().splitlines()
    assert line.startswith("rank 1: ")
    assert "parts/1/nodes/node/x/c/0/0 has " in line


def test_a_launch_that_cannot_work_starts_no_rank(cache: Path, tmp_path: Path) -> None:
    """What the launcher can see by itself must not be said by every rank, seconds later."""
    for arguments, expected in (([str(cache), "--lr", "x"], 2), ([str(tmp_path / "none")], 6)):
        started = time.monotonic()
        status, _, err = finish(start("-m", "trainer.launch", *arguments))
        assert status == expected
        assert len(err.strip().splitlines()) == 1
        assert err.startswith("trainer: ")
        assert time.monotonic() - started < 30


def test_interrupt_leaves_no_child(cache: Path) -> None:
    """Ranks that outlive Ctrl-C hold GPUs and ports until somebody finds them."""
    with running("trainer.launch", str(cache), *FOREVER) as process:
        ranks = children_of(process.pid)
        assert len(ranks) == 2
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE) == 128 + signal.SIGINT
        assert not any(is_running(rank) for rank in ranks)
        assert process.stderr.read() == ""


def test_a_killed_rank_is_named(cache: Path) -> None:
    """A rank that the kernel kills for its memory can say nothing; its peers must end, and somebody must say it."""
    with running("trainer.launch", str(cache), *FOREVER) as process:
        ranks = children_of(process.pid)
        os.kill(ranks[1], signal.SIGKILL)
        assert process.wait(timeout=PATIENCE) == 128 + signal.SIGKILL
        assert not any(is_running(rank) for rank in ranks)
        [line] = process.stderr.read().strip().splitlines()
        assert re.match(r"trainer: rank [01] was ended by SIGKILL", line)


def test_torchrun_with_the_wrong_number_of_ranks(cache: Path, tmp_path: Path) -> None:
    """Ranks that find the number wrong after they met wait for those that are not coming."""
    three = make_cache(tmp_path / "three", random_graph(), np.arange(60) % 3, 3)
    started = time.monotonic()
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "trainer", str(three)]
    status, out, err = finish(start(*command))
    assert status != 0
    assert out == ""
    assert re.search(r"exitcode\s*: 7 ", err)
    said = [line for line in err.splitlines() if line.startswith("rank ")]
    assert said == [
        f"rank 0: {three} has 3 parts and this run 2 ranks; "
        f"start it with torchrun --nproc-per-node 3 -m trainer {three}, or partition for 2"
    ]
    assert time.monotonic() - started < 60
    # The same without a supervisor: rank 1 says nothing, waits for nobody, and has the same status.
    alone = ForkedProgram("trainer", str(three), **rank_variables(1, free_port()))
    assert finish(alone) == (7, "", "")


def test_torch_is_all_it_needs(cache: Path, tmp_path: Path) -> None:
    """One import of numpy, and the trainer does not start on a machine that has just torch."""
    library = tmp_path / "library"
    library.mkdir()
    (library / "trainer").symlink_to(ROOT / "trainer")
    for folder in torch_and_its_own():
        (library / folder.name).symlink_to(folder)
    assert not (library / "numpy").exists()
    port = free_port()
    processes = [
        start("-S", "-m", "trainer", str(cache), *PLAIN, "--json", "--norm", "batch", **rank_variables(rank, port),
              PYTHONPATH=str(library))
        for rank in range(2)
    ]  # fmt: skip
    for rank, process in enumerate(processes):
        status, out, err = finish(process)
        assert status == 0, err
        assert len(out.splitlines()) == (4 if rank == 0 else 0)
        assert all(line.startswith("rank 0: ") for line in err.splitlines()), err
    absent = start("-S", "-c", "import trainer, torch\ntry: import numpy\nexcept ImportError: print('absent')",
                   PYTHONPATH=str(library))  # fmt: skip
    assert finish(absent)[1] == "absent\n"


@pytest.mark.parametrize(
    ("local_rank", "timed_out", "seconds"), [(0, False, 30.0), (1, False, 30.0), (0, True, 0.0), (1, True, 2.0)]
)
def test_the_first_rank_says_at_once_that_others_are_silent(
    monkeypatch: pytest.MonkeyPatch, local_rank: int, timed_out: bool, seconds: float
) -> None:
    """A cable that stays down leaves nobody to say so but the ranks at its ends, and no supervisor to end them."""
    from trainer import __main__ as program
    from trainer.base.errors import LostPeerError
    from trainer.dist.rank_info import RankInfo

    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    error = LostPeerError("could not exchange rows")
    error.timed_out = timed_out
    program._print_error(
        error, RankInfo(rank=2, world=4, local_rank=local_rank, local_world=2, is_supervised=True), debug=False
    )
    assert sum(slept) == seconds


@pytest.mark.parametrize("policy", ["none", "variation:0.1"])
def test_a_silent_rank_is_given_up(cache: Path, policy: str) -> None:
    """A rank that hangs in a driver keeps its connections open, so only the timeout tells; also where ranks only wait
    to hear whether it will send."""
    port = free_port()
    stale = ["--staleness", policy, "--staleness-grad", policy]
    processes = [
        ForkedProgram("trainer", str(cache), *FOREVER, *stale, "--timeout", "3", **rank_variables(rank, port))
        for rank in range(2)
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


def test_a_rank_that_stalls_for_less_than_the_timeout_is_waited_for(cache: Path) -> None:
    """A rank that swaps for a while must not cost the run; nobody may take its silence for rows that are not coming."""
    arguments = [str(cache), "--epochs", "60", "--patience", "0", "--hidden", "4", "--device", "cpu"]
    stale = ["--staleness", "adaptive:1", "--staleness-grad", "variation:0.5", "--json", "-q", "--timeout", "60"]
    port = free_port()
    processes = [ForkedProgram("trainer", *arguments, *stale, **rank_variables(rank, port)) for rank in range(2)]
    try:
        assert processes[0].stdout.readline().startswith("{")
        processes[1].send_signal(signal.SIGSTOP)
        time.sleep(2)
        assert processes[0].poll() is None
        processes[1].send_signal(signal.SIGCONT)
        for process in processes:
            status, _, err = finish(process)
            assert (status, err) == (0, "")
    finally:
        for process in processes:
            process.kill()
            process.communicate(timeout=PATIENCE)


def rank_variables(rank: int, port: int) -> dict[str, str]:
    """What torchrun would tell rank `rank` of two."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def torch_and_its_own() -> list[Path]:
    """The folders and modules of torch and of what its distribution requires, and what those require."""
    wanted, found = ["torch"], dict[str, Any]()
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        try:
            found[name] = distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        needs = [requirement for requirement in distribution.requires or [] if "extra ==" not in requirement]
        wanted += [re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0] for requirement in needs]
    assert "numpy" not in found
    site = Path(sysconfig.get_path("purelib"))
    names = {
        file.parts[0]
        for distribution in found.values()
        for file in distribution.files or []
        if not file.parts[0].startswith(("..", "__")) and not file.parts[0].endswith(".pth")
    }
    return [site / name for name in sorted(names) if (site / name).exists()]
