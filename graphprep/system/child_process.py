"""Python processes that this one starts: they import nothing from the current folder, and they end with this process.

`python -m MODULE` puts the current folder before all others, so that a user's random.py or trainer.py would be executed
in place of what was meant. Children are started with `-P`, and with PYTHONSAFEPATH=1 for what they start themselves.

A child that calls `end_with_parent` first of all ends when this process is gone, also after kill -9: Linux sends it
SIGKILL, and elsewhere a thread waits for the end of a pipe that only this process holds open.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import site
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds `graphprep` and `trainer`."""
PARENT = "GRAPHPREP_PARENT"
"""Environment variable of a child: PID:DESCRIPTOR, of its parent and of the pipe's end that it reads."""
_PR_SET_PDEATHSIG = 1


def python_command(*words: str) -> list[str]:
    """The command line of a Python that does not import from the current folder: `-m MODULE ...` or `-c CODE ...`."""
    return [sys.executable, "-P", *words]


def child_settings(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Arguments for `subprocess.Popen` or `run` beside `python_command`.

    Args:
        environment: variables that the child gets in addition to this process's.

    Returns:
        `env` and `pass_fds`.
    """
    descriptor = _read_end()
    variables = {**os.environ, **(environment or {}), "PYTHONSAFEPATH": "1", PARENT: f"{os.getpid()}:{descriptor}"}
    # An empty entry, as in PYTHONPATH=$PYTHONPATH:/x where there was none, stands for the current folder.
    folders = [folder for folder in variables.pop("PYTHONPATH", "").split(os.pathsep) if folder]
    if not _found_by_site(ROOT) and str(ROOT) not in folders:
        folders.append(str(ROOT))
    if folders:
        variables["PYTHONPATH"] = os.pathsep.join(folders)
    return {"env": variables, "pass_fds": (descriptor,)}


@contextlib.contextmanager
def safe_path_for_children() -> Iterator[None]:
    """Keep Python processes that libraries start within the block from importing from the current folder."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("PYTHONSAFEPATH", None)
        else:
            os.environ["PYTHONSAFEPATH"] = before


def end_with_parent(*, started_otherwise: bool = False) -> None:
    """Let this process end when the one that started it is gone.

    Args:
        started_otherwise: whether to do so too where another program (torchrun) was the one that started it.
    """
    parent = os.environ.pop(PARENT, None)
    if parent is None and not started_otherwise:
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if parent is None:
        return
    number, _, descriptor = parent.partition(":")
    if os.getppid() != int(number):
        os._exit(128 + signal.SIGKILL)  # it was gone before this process could ask
    threading.Thread(target=_end_after, args=(int(descriptor),), daemon=True, name="end with parent").start()


def _end_after(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        if os.read(descriptor, 1) == b"":
            os._exit(128 + signal.SIGKILL)


@functools.cache
def _read_end() -> int:
    """The reading end of a pipe whose other end is open as long as this process is there."""
    reading, _writing = os.pipe()
    return reading


def _found_by_site(root: Path) -> bool:
    """Whether every Python of this installation looks for packages in `root`."""
    folders = [*site.getsitepackages(), site.getusersitepackages()]
    if str(root) in folders or str(root) in map(os.path.realpath, folders):
        return True
    for folder in map(Path, folders):
        for listed in folder.glob("*.pth"):
            with contextlib.suppress(OSError, UnicodeError):
                if str(root) in (os.path.realpath(line) for line in listed.read_text().splitlines()):
                    return True
    return False
