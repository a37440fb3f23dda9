"""SIGTERM while training: finish the epoch, save a checkpoint, and end.

Schedulers send SIGTERM some time before they end a job, and torchrun passes it on to its ranks. It may reach some ranks
before others, so each only sets a flag, and all ranks get it in the all-reduce of the epoch.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from trainer.base.errors import LostPeerError


class StopRequest:
    """Whether this process got SIGTERM, between entering and leaving.

    The second signal ends the process as it does by default. So does a first one after which another rank was lost:
    torchrun, which sent it, is waiting for this process to end.
    """

    def __init__(self, *, listens: bool) -> None:
        """Prepare.

        Args:
            listens: False leaves the signal as it is.
        """
        # Only the main thread may set handlers.
        self._listens = listens and threading.current_thread() is threading.main_thread()
        self.is_requested = False
        self._before: Any = signal.SIG_DFL

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.is_requested = True
        signal.signal(number, signal.SIG_DFL)

    def __enter__(self) -> Self:
        if self._listens:
            self._before = signal.signal(signal.SIGTERM, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._listens:
            return
        signal.signal(signal.SIGTERM, self._before)
        if self.is_requested and kind is not None and issubclass(kind, LostPeerError):
            os.kill(os.getpid(), signal.SIGTERM)
