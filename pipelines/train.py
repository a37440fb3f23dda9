"""Start the trainer on this machine. It is a program of its own: nothing of it is imported here."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from types import FrameType

from graphprep.system.child_process import child_settings, python_command
from graphprep.system.home import require_cache

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""That ask for the end; one that this process ignores, as SIGHUP under nohup, the trainer ignores too."""


def start_trainer(cache: str, options: Sequence[str]) -> int:
    """Run `python -m trainer.launch` until it ends, passing on the signals that ask it to stop.

    Args:
        cache: a path or NAME/LABEL.
        options: the trainer's own options, unread.

    Returns:
        The trainer's exit status.

    Raises:
        CacheError: there is no such cache.
    """
    return _run(python_command("-m", "trainer.launch", str(require_cache(cache)), *options))


def trainer_help() -> int:
    """Let the trainer print its own options."""
    return _run(python_command("-m", "trainer", "--help"))


def _run(command: Sequence[str]) -> int:
    received: list[int] = []
    child: subprocess.Popen[bytes] | None = None

    def forward_signal(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        if child is not None:
            child.send_signal(number)

    handled = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, forward_signal) for number in handled}
    try:
        if not received:
            child = subprocess.Popen(command, start_new_session=True, **child_settings())
            for number in received:  # since the line before
                child.send_signal(number)
        status = -received[0] if child is None else child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 128 - status if status < 0 else status
