"""`graphprep train CACHE --rebalance`: a run whose nodes move away from ranks that turn out slow.

A thread reads the history of the run as it grows. Where the last epochs show a rank that all others wait for, and other
parts would save more seconds than starting the ranks again takes, a process of low priority makes a cache with parts by
the measured speeds from the one before, while the run goes on. Once it is there and the ranks are still as unequal, the
run is asked to go on with it: its ranks finish their epoch, write a checkpoint and give way to others. No epoch is
lost, and the losses are those of one rank as before.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphprep.cache.read import PartitionCache, open_cache
from graphprep.errors import GraphprepError, UsageError
from graphprep.interop.rescale_request import request_cache
from graphprep.interop.training_run import CHECKPOINTS, history_lines, run_options
from graphprep.plan.measured_speeds import MeasuredSpeeds
from graphprep.report.formats import duration
from graphprep.system import progress
from graphprep.system.home import require_cache
from pipelines.repartition.rebalance import LINES, WORTH_MOVING, speeds_of_run
from pipelines.training.rebalance_process import RebalanceProcess
from pipelines.training.train import start_trainer
from pipelines.training.trainer_options import given_options

REBALANCE = "--rebalance"
CACHES = "caches"
"""the folder in that of the run with the caches that are made"""
FIRST_LINES = 3
"""Validated epochs whose medians decide whether a cache is made; once it is there, those of `LINES` decide."""
SECONDS_BETWEEN_LOOKS = 0.2
START_SECONDS = 5.0
"""of starting the ranks on another cache, until that has been measured"""
MAKING_SECONDS = 10.0
"""of making a cache, until that has been measured"""
_POLL = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether a run goes on with other parts."""

    speeds: MeasuredSpeeds
    saved_seconds: float
    """in the epochs that are left once a cache is made"""
    cost_seconds: float
    """of starting the ranks on it"""

    @property
    def is_worth_it(self) -> bool:
        return self.speeds.imbalance >= WORTH_MOVING and self.saved_seconds > self.cost_seconds


def decide(
    cache: PartitionCache,
    lines: Sequence[Mapping[str, Any]],
    *,
    count: int = LINES,
    last_epoch: int,
    cost_seconds: float,
    making_seconds: float = 0.0,
) -> Decision | None:
    """What the last lines of a run on a cache say; None while there are not so many beside the first, a slow one.

    Args:
        cache: that the run trains on.
        lines: of its history, those on this cache.
        count: of the lines whose medians decide.
        last_epoch: of the run.
        cost_seconds: of starting the ranks on another cache.
        making_seconds: of making it, in which the run goes on.

    Raises:
        TrainingError: they have no seconds by rank.
    """
    if len(lines) <= count:
        return None
    speeds = speeds_of_run(cache, lines, last=count)
    meanwhile = making_seconds / float(speeds.seconds_P.max())  # at most: an epoch takes longer than computing does
    epochs = max(0.0, last_epoch - int(lines[-1]["epoch"]) - meanwhile)
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
    checkpoints = Path(options.checkpoint or output / CHECKPOINTS)
    if options.checkpoint is None:
        words += ["--checkpoint", str(checkpoints)]
    watch = _Watch(open_cache(folder), output, checkpoints, last_epoch=options.values["epochs"])
    try:
        return start_trainer(str(folder), words, watcher=watch)
    finally:
        watch.end()


class _Watch:
    """Reads the history of a run beside it, makes caches, and asks the run to go on with them."""

    def __init__(self, cache: PartitionCache, output: Path, checkpoints: Path, *, last_epoch: int) -> None:
        self._cache, self._output, self._checkpoints, self._last_epoch = cache, output, checkpoints, last_epoch
        self._start_seconds, self._making_seconds = START_SECONDS, MAKING_SECONDS
        self._first_lines, self._made = FIRST_LINES, list[Path]()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Watch the run."""
        self._process = RebalanceProcess()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def is_signalled(self) -> None:
        """A person has asked for the end: no other parts are made."""
        self._ended.set()

    def end(self) -> None:
        """The process has ended."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._process.end()

    def _watch(self) -> None:
        begun_after = _last_epoch(self._lines())
        while not self._ended.wait(SECONDS_BETWEEN_LOOKS):
            try:
                found = self._decide(begun_after, self._first_lines, self._making_seconds)
                if found is None or not found.is_worth_it:
                    continue
                moved = self._move(found, begun_after)
            except GraphprepError as error:
                progress.warn(f"{REBALANCE} has no effect: {error}")
                return
            if moved:
                begun_after = self._wait_for_first_epoch()

    def _decide(self, begun_after: int, count: int, making_seconds: float) -> Decision | None:
        lines = [line for line in self._lines() if line["epoch"] > begun_after]
        return decide(
            self._cache,
            lines,
            count=count,
            last_epoch=self._last_epoch,
            cost_seconds=self._start_seconds,
            making_seconds=making_seconds,
        )

    def _move(self, found: Decision, begun_after: int) -> bool:
        """Make a cache while the run goes on, and let it go on with that; whether it does.

        Raises:
            GraphprepError: the cache cannot be made, or the run does not take it.
        """
        progress.say(
            f"the slowest rank computes {found.speeds.imbalance:.2f} times as long as with balanced parts; moving "
            f"nodes saves about {duration(found.saved_seconds)}, so a cache is made while the training goes on"
        )
        started, target = time.monotonic(), self._output / CACHES / str(len(self._made) + 1)
        made = self._process.make(self._cache.folder, found.speeds, target, is_cancelled=self._ended.is_set)
        if made is None:
            return False
        self._making_seconds = time.monotonic() - started
        while (now := self._decide(begun_after, LINES, 0.0)) is None:
            if self._ended.wait(SECONDS_BETWEEN_LOOKS):
                return False
        if not now.is_worth_it:
            progress.say("other parts no longer pay, so the training goes on with those that it has")
            shutil.rmtree(target)
            self._first_lines = LINES
            return False
        if not request_cache(self._checkpoints, target, is_cancelled=self._ended.is_set):
            return False
        made.say()
        progress.say(f"training goes on with {target}, made from {self._cache.folder}")
        self._cache = open_cache(target)
        self._made.append(target)
        return True

    def _wait_for_first_epoch(self) -> int:
        """Wait for the first line on the new cache; the epoch before it. Older caches that were made are removed."""
        started = time.monotonic()
        while not self._is_on(self._cache) and not self._ended.wait(_POLL):
            pass
        begun_after = _last_epoch(self._lines())
        while _last_epoch(self._lines()) <= begun_after and not self._ended.wait(_POLL):
            pass
        self._start_seconds = time.monotonic() - started
        for folder in self._made[:-1]:
            shutil.rmtree(folder, ignore_errors=True)
        return begun_after

    def _is_on(self, cache: PartitionCache) -> bool:
        """Whether the run has begun with a cache."""
        try:
            return Path(run_options(self._output)["cache"]).resolve() == cache.folder.resolve()
        except (GraphprepError, KeyError, TypeError):
            return False

    def _lines(self) -> list[dict[str, Any]]:
        """The whole lines so far."""
        try:
            return history_lines(self._output)
        except GraphprepError:
            return []  # a line that is being written; the next look finds it whole


def _last_epoch(lines: Sequence[Mapping[str, Any]]) -> int:
    return int(lines[-1]["epoch"]) if lines else 0
