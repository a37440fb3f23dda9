"""Ranks as new interpreters; tests/trainer/test_launch.py has them as forks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
from trainer.dist.rank_processes import RankProcesses

rank = '''
import os, sys
os.write(1, os.environ["TORCHELASTIC_RESTART_COUNT"].encode() + bytes([10]))  # in one piece, beside the other rank
sys.exit(int(os.environ["RANK"]))
'''
print(RankProcesses(restarts=1).run(["-c", rank], 2))
"""

GIVE_WAY = """
from pathlib import Path

from trainer.dist.rank_processes import RankProcesses

rank = '''
import os, signal, sys, time
from pathlib import Path

def end(*_):
    time.sleep(0.2 * int(os.environ["RANK"]))  # a checkpoint takes one longer than the others
    sys.exit(8)

signal.signal(signal.SIGTERM, end)
Path(sys.argv[1], os.environ["RANK"]).touch()
time.sleep(60)
'''
wanted = [0, 1]
ranks = RankProcesses(restarts=0, must_give_way=lambda: len(list(Path({folder!r}).iterdir())) == len(wanted))
print(ranks.run(["-c", rank, {folder!r}], 2), ranks.gave_way)
wanted.clear()
print(ranks.run(["-c", "pass"], 3), ranks.gave_way)
"""


@pytest.mark.slow
def test_ranks_give_way_after_their_checkpoints(tmp_path: Path) -> None:
    """Guards against a second signal for a rank that still writes, and against a failure where there is none."""
    done = subprocess.run(
        [sys.executable, "-c", GIVE_WAY.replace("{folder!r}", repr(str(tmp_path)))],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["{} True", "{} False"]


@pytest.mark.slow
def test_ranks_that_are_interpreters_are_restarted_and_their_statuses_found() -> None:
    """So they are started where torch can use GPUs, and where a process cannot be forked."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    *attempts, failed = done.stdout.splitlines()
    assert failed == "{1: 1}"
    assert set(attempts) == {"0", "1"}
