"""What a slow rank costs `train --rebalance`, and what one rank more or fewer costs a run on a folder of caches.

A GCN trains on a block model, one thread a rank. In the first case two ranks train, and after some epochs rank 1 is
stopped for half of every 40 ms, so that it computes at half speed to the end, also after nodes have moved and the ranks
have been started again. Its share is ideal where both compute as long as each other: 4/3 of the seconds from before.

In the second case `graphprep rescale` lets a run on one rank go on with two, and the other way round, each with the
cache for its number of ranks. What that costs are the seconds between the last epoch before and the first one after
it, less those of an epoch, in epochs of the run that goes on.

Prints the figures, writes JSON with --out. Stores and caches lie in --folder, and are made once.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.command import graphprep

NAME = "sbm-ranks"
TRAINING = ["--device", "cpu", "--patience", "0", "--dropout", "0", "-q"]
PERIOD_S = 0.04
SLOW_FROM = 12
"""The epoch from which rank 1 is slow."""
LAST = 10
"""Epochs whose median counts."""
LOOK_S = 0.02


def caches_of(folder: Path, nodes: int, edges: int) -> Path:
    """The folder with the caches of one and of two parts."""
    home, caches = folder / "home", folder / "caches"
    os.environ["GRAPHPREP_HOME"] = str(home)
    if not caches.exists():
        sizes = ["--nodes", str(nodes), "--edges", str(edges), "--features", "128", "--classes", "16"]
        graphprep("generate", "sbm", "--name", NAME, *sizes, "-q")
        for parts in (1, 2):
            out = folder / f"making-{parts}"
            graphprep("partition", NAME, "--parts", str(parts), "--out", str(out), "--effort", "fast", "-q")
        caches.mkdir()
        for parts in (1, 2):
            (folder / f"making-{parts}").rename(caches / str(parts))
    return caches


def lines_of(run: Path) -> list[dict[str, Any]]:
    """The whole lines of a run's history so far."""
    try:
        text = (run / "history.jsonl").read_text()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def config_of(run: Path) -> str:
    """The options of a run so far, as text."""
    try:
        return (run / "config.toml").read_text()
    except FileNotFoundError:
        return ""


def ranks_of(run: Path, rank: int) -> list[int]:
    """The process of rank `rank` of the run that writes to `run`: the launcher starts them in order."""
    launched = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            of_parent = Path("/proc", parent, "cmdline").read_bytes()
            if b"trainer.launch" in of_parent and str(run).encode() in of_parent:
                launched.append(int(folder.name))
    return sorted(launched)[rank : rank + 1]


@contextmanager
def half_speed(run: Path, rank: int, from_epoch: int) -> Iterator[None]:
    """Stop a rank for half of the time from an epoch on."""
    ended = threading.Event()

    def slow() -> None:
        processes, looked = list[int](), 0.0
        while not ended.is_set():
            if len(lines_of(run)) < from_epoch:
                time.sleep(LOOK_S)
                continue
            if time.monotonic() - looked > 1 or not processes:
                processes, looked = ranks_of(run, rank), time.monotonic()
            for what in (signal.SIGSTOP, signal.SIGCONT):
                for process in processes:
                    with suppress(ProcessLookupError):
                        os.kill(process, what)
                time.sleep(PERIOD_S / 2)

    thread = threading.Thread(target=slow)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def training(cache: Path, run: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """`graphprep train` in the background, which has ended afterwards."""
    command = [sys.executable, "-m", "cli", "train", str(cache), "--output", str(run), *TRAINING, *words]
    with subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)


def rebalanced(cache: Path, run: Path, epochs: int, hidden: int) -> dict[str, Any]:
    """A rank becomes slow, and nodes move away from it."""
    words = ["--rebalance", "--epochs", str(epochs), "--hidden", str(hidden)]
    with half_speed(run, 1, SLOW_FROM), training(cache, run, *words) as process:
        made_at, moved_at, seen = None, None, list[float]()
        while process.poll() is None:
            seen += [time.monotonic()] * (len(lines_of(run)) - len(seen))
            if made_at is None and (run / "caches").exists():
                made_at = len(seen)
            if moved_at is None and f'cache = "{run}/caches/' in config_of(run):
                moved_at = len(seen)
            time.sleep(LOOK_S)
    if process.returncode or made_at is None or moved_at is None:
        raise SystemExit("the run failed, or its nodes were not moved")
    seconds = [later - earlier for earlier, later in pairwise(seen)]  # of epoch 2 and on
    before = statistics.median(seconds[2 : SLOW_FROM - 2])
    slow = statistics.median(seconds[SLOW_FROM : made_at - 1])
    after = statistics.median(seconds[-LAST:])
    return {
        "epoch_seconds_before": before,
        "epoch_seconds_slow": slow,
        "epoch_seconds_after": after,
        "to_ideal": after / (before * 4 / 3),
        "slow_epochs_until_making": made_at - SLOW_FROM,
        "slow_epochs_until_moved": moved_at - SLOW_FROM,
        "seconds_of_making": seen[moved_at - 1] - seen[made_at - 1],
        "seconds_without_an_epoch": seconds[moved_at - 1] - after,
        "epochs_that_the_move_cost": (seconds[moved_at - 1] - after) / after,
    }


def with_other_ranks(caches: Path, run: Path, before: int, after: int, hidden: int) -> dict[str, Any]:
    """A run goes on with another number of ranks while it trains."""
    checkpoints, epochs = run / "checkpoints", SLOW_FROM + LAST + 30
    words = ["--hidden", str(hidden), "--checkpoint", str(checkpoints), "--epochs", str(epochs)]
    seen, asking, first = list[float](), None, None
    with training(caches / str(before), run, *words) as process:
        while process.poll() is None:
            seen += [time.monotonic()] * (len(lines_of(run)) - len(seen))
            if asking is None and len(seen) >= SLOW_FROM:
                command = [sys.executable, "-m", "cli", "rescale", str(checkpoints), str(caches / str(after)), "-q"]
                asking = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            if first is None and f'cache = "{caches / str(after)}"' in config_of(run):
                first = len(seen)
            time.sleep(LOOK_S)
    if process.returncode or asking is None or asking.wait() or first is None:
        raise SystemExit("the run did not go on")
    epoch = statistics.median(later - earlier for earlier, later in pairwise(seen[-LAST:]))
    seconds = seen[first] - seen[first - 1] - epoch
    return {
        "ranks_before": before,
        "ranks_after": after,
        "epoch_seconds": epoch,
        "seconds": seconds,
        "epochs": seconds / epoch,
    }


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--edges", type=int, default=2_000_000)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=50, help="of the run whose rank becomes slow")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args(words)
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    caches = caches_of(folder, arguments.nodes, arguments.edges)
    for number in range(3):
        shutil.rmtree(folder / f"run-{number}", ignore_errors=True)
    found: dict[str, Any] = {
        "slow rank": rebalanced(caches / "2", folder / "run-0", arguments.epochs, arguments.hidden),
        "other ranks": [
            with_other_ranks(caches, folder / f"run-{number}", *ranks, arguments.hidden)
            for number, ranks in enumerate(((1, 2), (2, 1)), 1)
        ],
    }
    print(json.dumps(found, indent=1))
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
