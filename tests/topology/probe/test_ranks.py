"""Whole probes: ranks that measure each other through gloo, and ranks that fail."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from graphprep.topology import Topology
from tests.forks import ForkedProgram
from tests.trainer.rank_group import free_port

pytestmark = pytest.mark.slow

TINY = ["--backend", "gloo", "--seconds", "1", "--sizes", "1000,20000,100000"]
PATIENCE = 180
"""Seconds that a test waits for a process before it fails; nothing here takes long on an idle machine."""


def start(*words: str | Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *map(str, words)],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def probe(*words: str, **environment: str) -> ForkedProgram:
    """A rank of which another program is the supervisor."""
    return ForkedProgram("graphprep.topology.probe", *words, **environment)


def finish(process: subprocess.Popen[str] | ForkedProgram) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def rank_variables(rank: int, world: int, port: int) -> dict[str, str]:
    """What torchrun would tell a rank."""
    names = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": world, "MASTER_PORT": port}
    return {name: str(value) for name, value in names.items()} | {"MASTER_ADDR": "127.0.0.1"}


def test_three_ranks_measure_each_other(tmp_path: Path) -> None:
    """Guards against a probe that never ends, and a file that `topology show` refuses or that joins other ranks."""
    path = tmp_path / "measured.yaml"
    status, out, err = finish(start("-m", "cli", "topology", "probe", "--out", path, "--nproc", "3", *TINY))
    assert status == 0, err
    assert out == ""
    assert "pairs alone, 1,000 bytes" in err
    assert err.splitlines()[-1] == f"wrote {path}"
    topology = Topology.from_file(path)
    assert topology.name == "measured"
    assert [(rank.name, rank.host, rank.device) for rank in topology.ranks] == [
        (f"m0.cpu{rank}", socket.gethostname(), rank) for rank in range(3)
    ]
    assert all(0 < link.gbytes_per_s < 1000 for link in topology.links)
    shown = finish(start("-m", "cli", "topology", "show", path))
    assert shown[0] == 0, shown[2]
    assert Topology.from_text(shown[1]) == topology
    comment = path.read_text().splitlines()[0]
    assert comment.startswith("# Measured by `graphprep topology probe`: ")
    assert comment.endswith("gloo between CPUs.")


def test_ranks_of_several_machines_need_no_command_line_tool(tmp_path: Path) -> None:
    """Guards against a probe under torchrun that writes a file for every rank, or none."""
    port, path = free_port(), tmp_path / "two.yaml"
    words = ["--out", str(path), "--name", "pair", "-q", *TINY]
    for status, out, err in map(finish, [probe(*words, **rank_variables(rank, 2, port)) for rank in range(2)]):
        assert (status, out, err) == (0, "", "")
    topology = Topology.from_file(path)
    assert (topology.name, topology.num_ranks) == ("pair", 2)
    assert [link.type for link in topology.links] == ["direct"]


def test_a_killed_rank_ends_all_with_one_sentence(tmp_path: Path) -> None:
    """Guards against ranks that wait for one that is gone, and a page of torchrun's in place of a sentence."""
    words = ["--nproc", "2", "--backend", "gloo", "--seconds", "600"]
    process = start("-m", "cli", "topology", "probe", "--out", tmp_path / "x.yaml", *words)
    try:
        assert process.stderr is not None
        while not process.stderr.readline().startswith("pairs alone"):
            assert process.poll() is None
        ranks = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
        assert len(ranks) == 2
        os.kill(ranks[1], signal.SIGKILL)
        status, out, err = finish(process)
    finally:
        process.kill()
    said = [line for line in err.splitlines() if not line.startswith("pairs alone")]
    assert (status, out) == (4, "")
    assert len(said) == 1, err
    assert said[0].startswith("graphprep: error: rank ")
    assert "was ended by SIGKILL" in said[0]
    assert not any(Path(f"/proc/{rank}").exists() for rank in ranks)
    assert list(tmp_path.iterdir()) == []


def test_a_rank_that_fails_has_the_only_word(tmp_path: Path) -> None:
    """Guards against every rank saying the same, or torchrun's traceback around it."""
    words = ["--nproc", "2", "--backend", "nccl"]
    status, out, err = finish(start("-m", "cli", "topology", "probe", "--out", tmp_path / "x.yaml", *words))
    if status == 0:
        pytest.skip("this machine has two GPUs")
    assert (status, out) == (4, "")
    [line] = err.splitlines()
    assert line.startswith("graphprep: error: --backend nccl needs a GPU for each of the 2 ranks here, and torch sees ")


def test_a_lost_rank_is_given_up(tmp_path: Path) -> None:
    """Guards against a rank without a supervisor that waits for ever for one that died."""
    port = free_port()
    words = [
        "--out",
        str(tmp_path / "x.yaml"),
        "--backend",
        "gloo",
        "--timeout",
        "3",
        "--seconds",
        "600",
    ]
    processes = [probe(*words, **rank_variables(rank, 2, port)) for rank in range(2)]
    try:
        while not processes[0].stderr.readline().startswith("pairs alone"):
            assert processes[0].poll() is None
        processes[1].kill()
        begun = time.monotonic()
        status, _, err = finish(processes[0])
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert status == 4
    assert time.monotonic() - begun < 60
    said = [line for line in err.splitlines() if line.startswith("graphprep: error: ")]
    assert len(said) == 1, err
    assert "with the other ranks" in said[0]
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "status", "expected"),
    [
        (["--nproc", "1"], 2, "--nproc 1 must be 2 to 1,024"),
        (["--nproc", "100000"], 2, "--nproc 100000 must be 2 to 1,024"),
        (["--nproc", "2", "--seconds", "0"], 2, "--seconds 0"),
        (["--nproc", "2", "--sizes", "7"], 2, "--sizes 7"),
        (["--nproc", "2", "--name", "a/b"], 2, "cannot name a cache's folder"),
        (["--nproc", "2", "--backend", "mpi"], 2, "mpi"),
    ],
)
def test_wrong_use_starts_no_rank(tmp_path: Path, words: list[str], status: int, expected: str) -> None:
    """Guards against mistakes that are only found by every rank, seconds later."""
    found, out, err = finish(start("-m", "cli", "topology", "probe", "--out", tmp_path / "x.yaml", *words))
    assert (found, out) == (status, "")
    [line] = err.splitlines()
    assert expected in line


def test_a_file_that_is_there_is_not_replaced_unasked(tmp_path: Path) -> None:
    """Guards against a hand-made topology that a probe writes over."""
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\n")
    words = ["--nproc", "2", *TINY]
    status, _, err = finish(start("-m", "cli", "topology", "probe", "--out", path, *words))
    assert status == 2
    assert "exists already; give another path, or --replace" in err
    assert path.read_text() == "name: mine\n"


def test_importing_the_probe_does_not_import_torch() -> None:
    """Guards against a command line that takes seconds to answer."""
    code = (
        "import sys, graphprep.topology.probe.launch, graphprep.topology.probe.run; assert 'torch' not in sys.modules"
    )
    assert finish(start("-c", code)) == (0, "", "")
