"""Ranks as processes that import nothing from the current folder, and that end with the process that started them.

`python -m trainer` puts the current folder before all others, so that a user's random.py would be executed in place of
Python's. Ranks are started with `-P`, and with PYTHONSAFEPATH=1 for what they start themselves. When their parent is
gone, also after kill -9, Linux sends them SIGKILL, and elsewhere a thread of theirs sees a pipe end that only it held.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

PARENT = "GRAPHPREP_PARENT"
"""Environment variable of a child: PID:DESCRIPTOR, of its parent and of the pipe's end that it reads."""
_PR_SET_PDEATHSIG = 1


def start_python(
    words: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start `python -u WORDS` as a child that calls `end_with_parent`.

    Args:
        words: `-m MODULE ...`.
        environment: variables that it gets in addition to this process's.
        descriptors: open files that it gets, under the same numbers.
    """
    descriptor = _read_end()
    variables = {**os.environ, **environment, "PYTHONSAFEPATH": "1", PARENT: f"{os.getpid()}:{descriptor}"}
    # An empty entry, as in PYTHONPATH=$PYTHONPATH:/x where there was none, stands for the current folder.
    folders = [folder for folder in variables.pop("PYTHONPATH", "").split(os.pathsep) if folder]
    root = str(Path(__file__).resolve().parents[2])
    if sys.path and sys.path[0] in ("", root) and root not in folders:
        folders.append(root)  # a copy that is not installed and was found in the current folder
    if folders:
        variables["PYTHONPATH"] = os.pathsep.join(folders)
    command = [sys.executable, "-P", "-u", *words]
    return subprocess.Popen(command, env=variables, pass_fds=(descriptor, *descriptors))


def end_with_parent(*, started_otherwise: bool = False) -> None:
    """End this process when the one that started it is gone.

    Args:
        started_otherwise: whether to do so too where another program (torchrun) was the one that started it.
    """
    parent = os.environ.pop(PARENT, None)
    if parent is None and not started_otherwise:
        return
    killed = _is_killed_with_parent()
    if parent is None:
        return
    number, _, descriptor = parent.partition(":")
    _require_parent(int(number))
    if not killed:
        threading.Thread(target=_end_after, args=(int(descriptor),), daemon=True, name="end with parent").start()


def end_with(parent: int) -> None:
    """End this process, a fork of process `parent`, when that one is gone; on Linux alone."""
    _is_killed_with_parent()
    _require_parent(parent)


def _is_killed_with_parent() -> bool:
    """Ask the kernel to kill this process when the one that started it ends; whether it will."""
    with contextlib.suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) == 0)
    return False


def _require_parent(number: int) -> None:
    if os.getppid() != number:
        os._exit(128 + signal.SIGKILL)  # it was gone before this process could ask


def forget_current_folder() -> None:
    """Remove the current folder, which `python -m` adds, from sys.path, unless this package itself is there."""
    here, root = os.getcwd(), str(Path(__file__).resolve().parents[2])
    if not sys.flags.safe_path and sys.path and sys.path[0] in ("", here) and os.path.realpath(here) != root:
        del sys.path[0]


def _end_after(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        if os.read(descriptor, 1) == b"":
            os._exit(128 + signal.SIGKILL)


@functools.cache
def _read_end() -> int:
    """The reading end of a pipe whose other end is open as long as this process lives."""
    reading, _writing = os.pipe()
    return reading


forget_pipe = _read_end.cache_clear
"""For a fork, whose children end with it, not with its parent."""
