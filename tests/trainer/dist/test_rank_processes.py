"""Ranks as new interpreters; tests/trainer/test_launch.py has them as forks."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
from trainer.dist.rank_processes import RankProcesses

rank = '''
import os, sys
os.write(1, os.environ["TORCHELASTIC_RESTART_COUNT"].encode() + bytes([10]))  # in one piece, beside the other rank
sys.exit(int(os.environ["RANK"]))
'''
print(RankProcesses(["-c", rank], 2, restarts=1).run())
"""


@pytest.mark.slow
def test_ranks_that_are_interpreters_are_restarted_and_their_statuses_found() -> None:
    """So they are started where torch can use GPUs, and where a process cannot be forked."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    *attempts, failed = done.stdout.splitlines()
    assert failed == "{1: 1}"
    assert set(attempts) == {"0", "1"}
