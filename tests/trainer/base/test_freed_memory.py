"""Freed blocks are kept for the next tensor or given back, each case in a process of its own: a choice is for good."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

ROUNDS, MEGABYTES = 20, 80
PAGES = MEGABYTES * 2**20 // 4096
PROGRAM = """
import resource, sys, torch
from trainer.base import freed_memory

rounds, megabytes, choice = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
if choice:
    getattr(freed_memory, choice)()
torch.ones(megabytes * 2**18)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(rounds):
    torch.ones(megabytes * 2**18)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


HOLDS = """
import torch
from trainer.base.freed_memory import give_back_freed_memory, keep_freed_memory

def held():
    [line] = [line for line in open("/proc/self/status") if line.startswith("RssAnon:")]
    return int(line.split()[1]) // 1024

keep_freed_memory()
large, pin = torch.ones(80 * 2**18), torch.ones(2**18)
del large
before = held()
give_back_freed_memory()
print(before - held())
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library has no mallopt"),
]


def printed(program: str, *words: str) -> int:
    command = [sys.executable, "-c", program, *words]
    return int(subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout)


def pages_cleared(choice: str = "", megabytes: int = MEGABYTES) -> int:
    return printed(PROGRAM, str(ROUNDS), str(megabytes), choice)


def test_a_freed_block_serves_the_next_tensor() -> None:
    """Not the first few: an aligned block needs a little more room than the one that it follows has left."""
    assert pages_cleared() >= ROUNDS * PAGES, "the C library keeps such blocks by itself"
    assert pages_cleared("keep_freed_memory") < 0.6 * ROUNDS * PAGES


def test_a_large_block_goes_back_at_once() -> None:
    """Left alone, the C library may learn from the first large block to keep the next ones, which is time before
    memory; whether it does depends on what else lies in the heap."""
    pages = 16 * 2**20 // 4096
    assert pages_cleared("keep_freed_memory", megabytes=16) < 0.6 * ROUNDS * pages
    assert pages_cleared("give_back_large_blocks", megabytes=16) >= ROUNDS * pages


def test_what_is_free_between_others_goes_back_when_asked() -> None:
    """A tensor that lies above keeps the heap from shrinking by itself."""
    assert printed(HOLDS) > 70
