"""Freed blocks are kept for the next tensor or given back, each case in a process of its own: a choice is for good."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from trainer import launch
from trainer.base.freed_memory import HUGE_PAGES

ROUNDS, MEGABYTES = 20, 80
PAGES = MEGABYTES * 2**20 // 4096
PROGRAM = """
import resource, sys, torch
from trainer.base import freed_memory

rounds, choice, *sizes = sys.argv[1:]
if choice:
    getattr(freed_memory, choice)()
for size in map(int, sizes):
    torch.ones(size * 2**18)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(int(rounds)):
        torch.ones(size * 2**18)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


HOLDS = """
import torch
from trainer.base.freed_memory import give_back_freed_memory, keep_freed_memory

def marked():
    size = marked = 0
    for line in open("/proc/self/smaps"):
        name, *values = line.split()
        if name == "Size:":
            size = int(values[0]) // 1024
        if name == "VmFlags:" and "hg" in values:
            marked += size
    return marked

def held():
    [line] = [line for line in open("/proc/self/status") if line.startswith("RssAnon:")]
    return int(line.split()[1]) // 1024

keep_freed_memory()
large, pin = torch.ones(80 * 2**18), torch.ones(2**18)
print(marked())
del large
before = held()
give_back_freed_memory()
print(before - held())
"""
"""Prints the megabytes that are marked for huge pages, and those that are given back."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library has no mallopt"),
]


def printed(program: str, *words: str, **environment: str) -> list[int]:
    command, variables = [sys.executable, "-c", program, *words], os.environ | environment
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120, env=variables)
    return [int(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def kept() -> dict[int, int]:
    """Pages that are cleared where freed memory is kept, by the size of blocks in megabytes."""
    sizes = (16, MEGABYTES)
    return dict(zip(sizes, printed(PROGRAM, str(ROUNDS), "keep_freed_memory", *map(str, sizes)), strict=True))


@pytest.fixture(scope="module")
def held() -> list[int]:
    return printed(HOLDS)


def asks_for_huge_pages() -> bool:
    """Whether this C library can ask the kernel for huge pages, and has to."""
    enabled = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    name, version = platform.libc_ver()
    is_new = name == "glibc" and tuple(map(int, version.split(".")[:2])) >= (2, 35)
    return is_new and enabled.exists() and "[madvise]" in enabled.read_text()


def test_a_freed_block_serves_the_next_tensor(kept: dict[int, int]) -> None:
    """Not the first few: an aligned block needs a little more room than the one that it follows has left."""
    [cleared] = printed(PROGRAM, str(ROUNDS), "", str(MEGABYTES))
    assert cleared >= ROUNDS * PAGES, "the C library keeps such blocks by itself"
    assert kept[MEGABYTES] < 0.6 * ROUNDS * PAGES


def test_a_large_block_goes_back_at_once(kept: dict[int, int]) -> None:
    """Left alone, the C library may learn from the first large block to keep the next ones, which is time before
    memory; whether it does depends on what else lies in the heap."""
    pages = 16 * 2**20 // 4096
    assert kept[16] < 0.6 * ROUNDS * pages
    assert printed(PROGRAM, str(ROUNDS), "give_back_large_blocks", "16")[0] >= ROUNDS * pages


def test_what_is_free_between_others_goes_back_when_asked(held: list[int]) -> None:
    """A tensor that lies above keeps the heap from shrinking by itself."""
    assert held[1] > 70


@pytest.mark.skipif(not asks_for_huge_pages(), reason="no glibc from 2.35 on, or a kernel that is not to be asked")
def test_the_heap_is_marked_for_huge_pages(held: list[int]) -> None:
    """A tunable of another name is ignored without a word."""
    name, value = HUGE_PAGES
    assert held[0] < 70
    assert printed(HOLDS, **{name: value})[0] >= 70


@pytest.mark.parametrize("saves_memory", [True, False])
def test_ranks_ask_for_huge_pages_unless_memory_matters_more(
    monkeypatch: pytest.MonkeyPatch, *, saves_memory: bool
) -> None:
    """What the user has set stays; a sequential exchange gives memory back, which the kernel would fill up again."""
    name, value = HUGE_PAGES
    for own in (None, "glibc.malloc.check=0"):
        monkeypatch.setattr(os, "environ", {} if own is None else {name: own})
        launch._prepare_environment(2, debug=False, saves_memory=saves_memory)
        assert os.environ.get(name) == (own or (None if saves_memory else value))
