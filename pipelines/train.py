"""Start the trainer on this machine. It is a program of its own: nothing of it is imported here."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

from graphprep.home import require_cache

SIGNALS = (signal.SIGINT, signal.SIGTERM)


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
    return _run([sys.executable, "-m", "trainer.launch", str(require_cache(cache)), *options])


def trainer_help() -> int:
    """Let the trainer print its own options."""
    return _run([sys.executable, "-m", "trainer", "--help"])


def _run(command: Sequence[str]) -> int:
    with subprocess.Popen(command, start_new_session=True) as child:

        def pass_on(number: int, _frame: FrameType | None) -> None:
            child.send_signal(number)

        before = {number: signal.signal(number, pass_on) for number in SIGNALS}
        try:
            status = child.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    return 128 - status if status < 0 else status
