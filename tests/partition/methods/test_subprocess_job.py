"""A native library may crash, hang, lie or run out of memory: the caller gets one sentence, and nothing stays."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from graphprep.errors import PartitionError
from graphprep.partition.candidates import assign
from graphprep.partition.methods import subprocess_job
from graphprep.partition.methods.base import NodeLoad, PartitionProblem
from graphprep.partition.request import PartitionRequest
from tests.graphs import random_edges
from tests.partition.problems import Case

NODES = 400
CHILD = """
import json, os, sys, time
from pathlib import Path
import numpy as np
from graphprep.partition.methods.worker import Parts, main

def run(task):
    what = task.request["what"]
    parts = np.arange(task.request["nodes"]) % task.request["parts"]
    print("words of the library", flush=True)
    if what == "shot":
        os.kill(os.getpid(), 9)
    if what == "crash":
        os.kill(os.getpid(), 11)
    if what == "memory":
        raise MemoryError
    if what == "exception":
        raise ValueError("weights of odd numbers")
    if what == "exit":
        os._exit(0)
    if what == "hang":
        time.sleep(600)
    if what == "short":
        parts = parts[:-1]
    if what == "range":
        parts[7] = 4
    if what == "negative part":
        parts[7] = -1
    if what == "empty":
        parts[parts == 2] = 1
    return Parts(parts, -3 if what == "negative cut" else 5)

main(run)
"""
FAULTS = {
    "shot": "Child was ended by SIGKILL, as the kernel does when memory runs out",
    "crash": "Child was ended by SIGSEGV",
    "memory": "Child failed: it ran out of memory",
    "exception": "Child failed: ValueError: weights of odd numbers",
    "exit": "Child ended without a result",
    "short": "Child returned 399 part numbers for 400 nodes",
    "range": "Child returned part numbers outside 0 .. 3",
    "negative part": "Child returned part numbers outside 0 .. 3",
    "negative cut": "Child returned a negative cut, -3",
    "empty": "Child left part 2 empty, which should have about 100 nodes",
}


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that misbehaves as it is asked to."""
    (tmp_path / "odd_library.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    return "odd_library"


def problem_in(scratch: Path, *, time_limit_s: float | None = None) -> PartitionProblem:
    """Four equal parts of NODES nodes."""
    clean = Case(random_edges(np.random.default_rng(0), NODES, 4 * NODES), NODES, np.ones(4)).clean
    scratch.mkdir(exist_ok=True)
    return PartitionProblem(
        graph=clean,
        shares_P=np.full(4, 0.25),
        loads=(NodeLoad(what="nodes", amount_N=np.ones(NODES, np.int64), limit=1.05),),
        imbalance=1.05,
        seed=0,
        scratch=scratch,
        time_limit_s=time_limit_s,
    )


def run(problem: PartitionProblem, module: str, what: str) -> NDArray[np.int32]:
    """What the child makes of it."""
    with subprocess_job.job(problem, title="Child", module=module, time_limit_s=60.0) as job:
        return job.run({"what": what, "nodes": NODES, "parts": 4}, problem)


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_is_one_sentence(what: str, child: str, tmp_path: Path) -> None:
    """Guards against crashes that take the run along, and against results that nobody looks at."""
    scratch = tmp_path / "scratch"
    with pytest.raises(PartitionError, match=re.escape(FAULTS[what]) + "$"):
        run(problem_in(scratch), child, what)
    assert list(scratch.iterdir()) == []


def test_a_good_child_is_believed_and_its_words_are_kept_apart(
    child: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Guards against a library's prints on standard output, which is a result's."""
    parts_N = run(problem_in(tmp_path / "scratch"), child, "good")
    assert parts_N.dtype == np.int32
    assert parts_N.tolist() == (np.arange(NODES) % 4).tolist()
    assert "words of the library" not in "".join(capfd.readouterr())


def test_a_late_child_is_ended(child: str, tmp_path: Path) -> None:
    """Guards against a library that never returns, and against a process that lives on after its time."""
    started = time.monotonic()
    with pytest.raises(PartitionError, match=r"Child was not done within 1 s and was ended$"):
        run(problem_in(tmp_path / "scratch", time_limit_s=1.0), child, "hang")
    assert time.monotonic() - started < 30


def test_an_interrupt_ends_the_child(child: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a partitioner that goes on for hours after Ctrl-C."""
    started: list[subprocess.Popen[bytes]] = []

    class Watched(subprocess.Popen[bytes]):
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, **kwargs)  # type: ignore[call-overload]
            started.append(self)

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess_job.subprocess, "Popen", Watched)
    monkeypatch.setattr(subprocess_job.time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(problem_in(tmp_path / "scratch"), child, "hang")
    assert started[0].returncode == -signal.SIGKILL


@pytest.mark.slow
def test_a_killed_caller_leaves_no_child(child: str, tmp_path: Path) -> None:
    """Guards against a METIS of many gigabytes that outlives the run which started it."""
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from tests.partition.methods.test_subprocess_job import problem_in, run\n"
        f"run(problem_in(Path({str(tmp_path / 'scratch')!r})), 'odd_library', 'hang')\n"
    )
    caller = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    children = Path(f"/proc/{caller.pid}/task/{caller.pid}/children")
    deadline = time.monotonic() + 60
    pid = 0
    while not pid and time.monotonic() < deadline:
        words = children.read_text().split()
        # The child is asked about only once it runs the library: its log then has words in it.
        logs = list((tmp_path / "scratch").glob(".partial-native-*/log")) if words else []
        pid = int(words[0]) if logs and logs[0].stat().st_size else 0
        time.sleep(0.02)
    caller.kill()
    caller.wait()
    assert pid
    while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
        assert time.monotonic() < deadline, "the child is still there"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["metis", "metis-balanced"])
def test_metis_without_memory_is_an_error(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a METIS that cannot allocate and looks like success, or takes the caller along."""
    case = Case(random_edges(np.random.default_rng(0), 100_000, 1_000_000), 100_000, np.ones(4))
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nulimit -v 260000\nexec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setattr(sys, "executable", str(wrapper))
    with pytest.raises(PartitionError, match=r"^METIS .* ran out of memory$"):
        assign(method, case.clean, shares_P=case.shares_P, request=PartitionRequest(), scratch=tmp_path)


def test_what_metis_cannot_take_is_reported(tmp_path: Path) -> None:
    """Guards against a child that dies by a signal, on columns out of range, and looks like success."""
    from graphprep.core.types import Csr
    from graphprep.partition.candidates import CANDIDATES

    broken = Csr(indptr=np.array([0, 1, 2, 3]), indices=np.array([9_999_999, -5, 0], np.int32), num_sources=3)
    problem = PartitionProblem(
        graph=broken,
        shares_P=np.full(2, 0.5),
        loads=(NodeLoad(what="nodes", amount_N=np.ones(3, np.int64), limit=1.05),),
        imbalance=1.05,
        seed=0,
        scratch=tmp_path,
    )
    with pytest.raises(PartitionError, match="METIS k-way"):
        CANDIDATES["metis"].partition(problem)
