"""Large blocks are kept for the next tensor. Each case has a process of its own: the choice holds to its end."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

ROUNDS, MEGABYTES = 20, 80
PAGES = MEGABYTES * 2**20 // 4096
PROGRAM = """
import resource, sys, torch
from trainer.freed_memory import keep_freed_memory

rounds, megabytes, keep = map(int, sys.argv[1:])
if keep:
    keep_freed_memory()
torch.ones(megabytes * 2**18)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(rounds):
    torch.ones(megabytes * 2**18)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def pages_cleared(*, keep: bool) -> int:
    words = [sys.executable, "-c", PROGRAM, str(ROUNDS), str(MEGABYTES), str(int(keep))]
    return int(subprocess.run(words, check=True, capture_output=True, text=True, timeout=120).stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library has no mallopt")
def test_a_freed_block_serves_the_next_tensor() -> None:
    """Not the first few: an aligned block needs a little more room than the one that it follows has left."""
    assert pages_cleared(keep=False) >= ROUNDS * PAGES, "the C library keeps such blocks by itself"
    assert pages_cleared(keep=True) < 0.6 * ROUNDS * PAGES
