"""`graphprep train CACHE --rebalance`: a run whose nodes move away from ranks that turn out slow.

A thread reads the history of the run as it grows. Where the last epochs show a rank that all others wait for, and other
parts would save more seconds than making them and starting again takes, the run is asked to stop as by SIGTERM: it
writes a checkpoint. Then a cache with parts by the measured speeds is made from the one before, and the run goes on
with it from the checkpoint. No epoch is lost, and the losses are those of one rank as before.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphprep.cache.read import PartitionCache, open_cache
from graphprep.errors import GraphprepError, UsageError
from graphprep.interop.training_run import CHECKPOINTS, history_lines
from graphprep.plan.measured_speeds import MeasuredSpeeds
from graphprep.report.formats import duration
from graphprep.system import progress
from graphprep.system.home import require_cache
from pipelines.partition import run_partition
from pipelines.rebalance import LINES, WORTH_MOVING, Rebalance, plan_rebalance, speeds_of_run
from pipelines.train import start_trainer
from pipelines.trainer_options import given_options

REBALANCE = "--rebalance"
CACHES = "caches"
"""the folder in that of the run with the caches that are made"""
SECONDS_BETWEEN_LOOKS = 0.5
STOPPED, TERMINATED = 8, 128 + signal.SIGTERM
"""the trainer's exit status after it has written a checkpoint because it was asked to stop"""
START_SECONDS = 10.0
"""of starting the ranks, until a run has shown what it takes"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether to stop a run for other parts."""

    speeds: MeasuredSpeeds
    saved_seconds: float
    """in the epochs that are left"""
    cost_seconds: float
    """of making a cache and starting again"""

    @property
    def is_worth_it(self) -> bool:
        return self.speeds.imbalance >= WORTH_MOVING and self.saved_seconds > self.cost_seconds


def decide(
    cache: PartitionCache, lines: Sequence[Mapping[str, Any]], *, last_epoch: int, cost_seconds: float
) -> Decision | None:
    """What the lines of a run on a cache say; None while they are fewer than `LINES`, the first of which starts slowly.

    Raises:
        TrainingError: they have no seconds by rank.
    """
    if len(lines) <= LINES:
        return None
    speeds = speeds_of_run(cache, lines)
    epochs = max(0, last_epoch - int(lines[-1]["epoch"]))
    return Decision(speeds=speeds, saved_seconds=epochs * speeds.gain_seconds, cost_seconds=cost_seconds)


def train_rebalanced(cache: str, words: Sequence[str]) -> int:
    """Train, and move nodes where that is worth it.

    Args:
        cache: a path or NAME/LABEL.
        words: the trainer's options without --rebalance.

    Returns:
        the exit status of the run.

    Raises:
        UsageError, CacheError: an option is wrong, or there is no such cache.
    """
    folder = require_cache(cache)
    options = given_options(folder, words)
    if options.output is None:
        raise UsageError(
            f"{REBALANCE} needs --output, the folder for history, checkpoints and the caches that it makes"
        )
    output, words = Path(options.output), list(words)
    if options.checkpoint is None:
        words += ["--checkpoint", str(output / CHECKPOINTS)]
    cost, number, made = START_SECONDS, 0, None
    while True:
        watch = _Watch(open_cache(folder), output, last_epoch=options.values["epochs"], cost_seconds=cost)
        status = start_trainer(str(folder), words, watcher=watch)
        watch.end()
        if status not in (STOPPED, TERMINATED) or watch.decision is None:
            return status
        started, before, number = time.monotonic(), folder, number + 1
        decision = watch.decision
        progress.say(
            f"the slowest rank computes {decision.speeds.imbalance:.2f} times as long as with balanced parts; moving "
            f"nodes saves about {duration(decision.saved_seconds)} and takes about {duration(decision.cost_seconds)}"
        )
        plan = plan_rebalance(watch.cache, decision.speeds, out=output / CACHES / str(number))
        outcome = run_partition(plan, replace_other=True)
        Rebalance.of(decision.speeds, watch.cache, outcome).say()
        folder = outcome.cache.folder
        if made is not None:
            shutil.rmtree(made)
        made = folder
        cost = time.monotonic() - started + watch.start_seconds
        if "--resume" not in words:
            words.append("--resume")
        progress.say(f"training goes on with {folder}, made from {before}")


class _Watch:
    """Reads the history of a run beside it, and asks it to stop once."""

    def __init__(self, cache: PartitionCache, output: Path, *, last_epoch: int, cost_seconds: float) -> None:
        self.cache, self._output = cache, output
        self._last_epoch, self._cost_seconds = last_epoch, cost_seconds
        self.decision: Decision | None = None
        """why the run was asked to stop; None if it was not"""
        self.start_seconds = START_SECONDS
        """of starting the ranks, until the first line"""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, process: subprocess.Popen[bytes]) -> None:
        """Watch the run of a process."""
        self._thread = threading.Thread(target=self._watch, args=(process,), daemon=True)
        self._thread.start()

    def is_signalled(self) -> None:
        """A person has asked for the end: there is no other run after this one."""
        self._ended.set()
        self.decision = None

    def end(self) -> None:
        """The process has ended."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        started, is_running = time.monotonic(), False
        begun_after = _last_epoch(self._lines())
        while not self._ended.wait(SECONDS_BETWEEN_LOOKS):
            lines = [line for line in self._lines() if line["epoch"] > begun_after]
            if lines and not is_running:
                is_running, self.start_seconds = True, time.monotonic() - started
            try:
                found = decide(self.cache, lines, last_epoch=self._last_epoch, cost_seconds=self._cost_seconds)
            except GraphprepError as error:
                progress.warn(f"{REBALANCE} has no effect: {error}")
                return
            if found is not None and found.is_worth_it and not self._ended.is_set():
                self.decision = found
                process.send_signal(signal.SIGTERM)
                return

    def _lines(self) -> list[dict[str, Any]]:
        """The whole lines so far."""
        try:
            return history_lines(self._output)
        except GraphprepError:
            return []  # a line that is being written; the next look finds it whole


def _last_epoch(lines: Sequence[Mapping[str, Any]]) -> int:
    return int(lines[-1]["epoch"]) if lines else 0
