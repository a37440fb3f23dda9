"""Say once that loops are being compiled: the first run of some work on a machine waits for it, later ones do not.

numba keeps what it has compiled beside the modules, or where NUMBA_CACHE_DIR says.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from graphprep.system import progress

SECONDS_BEFORE_A_LINE = 1.0
_watched = False


def watch() -> None:
    """Say it as soon as numba, if it is imported, has compiled for a second. Calls after the first do nothing."""
    global _watched
    if _watched or "numba" not in sys.modules:
        return
    _watched = True
    from numba.core import event

    event.register("numba:compile", _notice(event.Listener))  # type: ignore[no-untyped-call]


def _notice(listener: type[Any]) -> Any:
    class Notice(listener):  # type: ignore[misc]
        """Adds up the time of compilations; one may start others, which are within its time."""

        seconds = 0.0
        depth = 0
        started = 0.0
        is_said = False

        def on_start(self, event: Any) -> None:  # noqa: ARG002
            if self.depth == 0:
                self.started = time.monotonic()
            self.depth += 1
            self._say()

        def on_end(self, event: Any) -> None:  # noqa: ARG002
            self.depth -= 1
            if self.depth == 0:
                self.seconds += time.monotonic() - self.started
            self._say()

        def _say(self) -> None:
            running = time.monotonic() - self.started if self.depth else 0.0
            if not self.is_said and self.seconds + running > SECONDS_BEFORE_A_LINE:
                self.is_said = True
                progress.say("compiling loops for this machine; later runs find them compiled")

    return Notice()
