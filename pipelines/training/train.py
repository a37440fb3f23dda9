"""Start the trainer on this machine. It is a program of its own: nothing of it is imported here."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from graphprep.errors import CacheError, GraphprepError, TrainingError, UsageError
from graphprep.interop.training_run import (
    CHECKPOINTS,
    CONFIG,
    HISTORY,
    LOCK,
    PAGE,
    PAIRS,
    PREDICTIONS,
    RESULT,
    TrainingRun,
)
from graphprep.system.child_process import child_settings, python_command
from graphprep.system.files.atomic import PARTIAL_PREFIX, locked, publish_folder, sweep
from graphprep.system.files.output_path import checked_target
from graphprep.system.home import require_cache

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""That ask for the end; one that this process ignores, as SIGHUP under nohup, the trainer ignores too."""

PLACES = ("checkpoint", "save_embeddings", "save_weights", "tensorboard", "trace")
"""the options that name files and folders which the trainer writes"""
SECONDS_TO_END = 40.0
"""for the ranks to end; the trainer's own supervisor kills them before that"""


class Watcher(Protocol):
    """What follows a run of the trainer beside it."""

    def begin(self) -> None:
        """The trainer runs."""

    def is_signalled(self) -> None:
        """A person has asked for the end."""


def start_trainer(cache: str, options: Sequence[str], *, watcher: Watcher | None = None) -> int:
    """Run `python -m trainer.launch` until it ends, passing on the signals that ask it to stop.

    Args:
        cache: a path or NAME/LABEL.
        options: the trainer's own options, unread.
        watcher: of the run.

    Returns:
        The trainer's exit status; 128 and the number of the signal where this process got one that ends it.

    Raises:
        CacheError: there is no such cache.
    """
    return _run(python_command("-m", "trainer.launch", str(require_cache(cache)), *options), watcher)


def train_to_folder(
    cache: Path,
    output: Path,
    options: Mapping[str, Any],
    *,
    replace: bool = False,
    quiet: bool = False,
    resumed: Path | None = None,
) -> TrainingRun:
    """Train, and keep options, history, result, predictions and weights in a folder, whole or not at all.

    Args:
        cache: the folder of the cache.
        output: the folder to make.
        options: the trainer's, by name; None is left out.
        replace: whether a run that is there may be replaced.
        quiet: whether the trainer prints warnings only.
        resumed: a checkpoint, of which the new folder gets a copy, to go on from; the options have no other.

    Raises:
        UsageError: something else lies at `output`, or an option is wrong.
        CacheError, TrainingError: the trainer's own sentence. No rank runs any more then, also after an interruption.
    """
    if options.get("resume") and options.get("checkpoint") is None:
        raise UsageError("--resume needs --checkpoint, the folder with the checkpoints of the run to continue")
    target = checked_target(output, called="--output")
    with locked(target, f"the run {target}"):
        if target.exists():
            sweep(target)
        _require_replaceable(target, replace=replace)
        work = target.with_name(PARTIAL_PREFIX + target.name)
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        try:
            settings = {"output": work, "save_predictions": work / PREDICTIONS, "json": True, "quiet": quiet}
            if options.get("task") == "links":
                settings["save_pairs"] = work / PAIRS
            if options.get("checkpoint") is None:
                settings |= {"checkpoint": work / CHECKPOINTS, "checkpoint_minutes": 0}
            if resumed is not None:
                settings["resume"] = True
                (work / CHECKPOINTS).mkdir()
                shutil.copyfile(resumed, work / CHECKPOINTS / resumed.name)
            _train(cache, words_of({**options, **_moved(options, target, work), **settings}))
            for file in (*work.rglob(CONFIG), *work.rglob(LOCK)):
                if file.name == CONFIG:  # which starts the same run again
                    before, after = (json.dumps(str(folder), ensure_ascii=False)[1:-1] for folder in (work, target))
                    file.write_text(file.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")
                else:
                    file.unlink()
            publish_folder(work, target)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
    return TrainingRun(target)


def _require_replaceable(target: Path, *, replace: bool) -> None:
    """Refuse a folder in which other things lie than a run that may be replaced.

    Raises:
        UsageError: there are some.
    """
    names = {path.name for path in target.iterdir()} if target.exists() else set()
    if other := sorted(names - {CONFIG, RESULT, HISTORY, PREDICTIONS, PAIRS, CHECKPOINTS, PAGE, LOCK}):
        raise UsageError(f"--output {target} holds {other[0]}, which is no part of a run; give another folder")
    if names and not replace:
        raise UsageError(f"--output {target} holds a run; give --replace to replace it, or another folder")


def _moved(options: Mapping[str, Any], target: Path, work: Path) -> dict[str, Path]:
    """The options that name a place inside the folder of the run, as places in the folder where it is made.

    Raises:
        UsageError: the run is to be continued from checkpoints inside the folder, which is made anew.
    """
    named = {name: Path(options[name]).absolute() for name in PLACES if options.get(name) is not None}
    inside = {name: path.relative_to(target) for name, path in named.items() if path.is_relative_to(target)}
    if "checkpoint" in inside and options.get("resume"):
        raise UsageError(
            f"--checkpoint {options['checkpoint']} lies inside --output, which is made anew; give another --output"
        )
    for path in inside.values():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
    return {name: work / path for name, path in inside.items()}


def words_of(options: Mapping[str, Any]) -> list[str]:
    """Options as the trainer's command line has them."""
    words = []
    for name, value in options.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            words.append(f"--{flag}={value}")
    return words


def _train(cache: Path, options: Sequence[str]) -> None:
    """Run the trainer with --json; the lines that it prints for people go to this process's standard error.

    Raises:
        UsageError, CacheError, TrainingError: the trainer's own sentence.
    """
    last, interrupted = deque[str](maxlen=1), threading.Event()
    with subprocess.Popen(
        python_command("-m", "trainer.launch", str(cache), *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
        **child_settings(),
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        try:
            listener = threading.Thread(target=_forward, args=(child.stderr, last, interrupted), daemon=True)
            listener.start()
            _print_others(child.stdout)
            status = child.wait()
            listener.join()
        except BaseException:
            interrupted.set()
            _end(child)
            raise
    if status:
        raise _error_of(status, last.pop() if last else "")


def _forward(lines: Iterable[str], last: deque[str], interrupted: threading.Event) -> None:
    """Print lines, but for those that a process writes which is ended while it still imports."""
    for line in lines:
        last.append(line.rstrip())
        if sys.stderr is not None and not interrupted.is_set():
            print(last[-1], file=sys.stderr, flush=True)


def _print_others(lines: Iterable[str]) -> None:
    """Print what a user's own model prints between the JSON lines; epochs and result are in files of the run too."""
    for line in lines:
        try:
            json.loads(line)
        except ValueError:
            print(line, end="", flush=True)


def _end(child: subprocess.Popen[str]) -> None:
    """End all ranks at once, as Ctrl-C in a terminal would."""
    try:
        child.send_signal(signal.SIGINT)
        child.wait(SECONDS_TO_END)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        child.kill()  # the ranks end with it
        child.wait()


def _error_of(status: int, line: str) -> GraphprepError:
    """The error that the trainer's last line tells of."""
    sentence = re.sub(r"^(trainer|rank \d+|[\w.]+Error): ", "", line)
    kind: type[GraphprepError] = {UsageError.exit_status: UsageError, CacheError.exit_status: CacheError}.get(
        status, TrainingError
    )
    return kind(sentence or f"the trainer ended with the exit status {status}")


def trainer_help() -> int:
    """Let the trainer print its own options."""
    return _run(python_command("-m", "trainer", "--help"))


def _run(command: Sequence[str], watcher: Watcher | None = None) -> int:
    received: list[int] = []
    child: subprocess.Popen[bytes] | None = None

    def forward_signal(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        if watcher is not None:
            watcher.is_signalled()
        if child is not None:
            child.send_signal(number)

    handled = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, forward_signal) for number in handled}
    try:
        if not received:
            child = subprocess.Popen(command, start_new_session=True, **child_settings())
            for number in received:  # since the line before
                child.send_signal(number)
            if watcher is not None:
                watcher.begin()
        status = -received[0] if child is None else child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 128 - status if status < 0 else status
