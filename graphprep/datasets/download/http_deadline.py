"""An end for answers that never end: a deadline after which the connections of one client are shut.

A read timeout ends where a byte comes in time, so it bounds neither endless `100 Continue` answers nor headers, lengths
of pieces or trailers that drip. Their reads are loops inside the HTTP library, which only a socket that is shut ends.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

CONNECTED = (".connect_tcp.complete", ".start_tls.complete")
"""httpcore's events after which a request has another socket"""


class Deadline:
    """The time by which the present phase of a request has to end. For a client that one thread uses alone."""

    def __init__(self) -> None:
        self.is_over = False
        """whether connections were shut because the time had come"""
        self._sockets: set[socket.socket] = set()
        self._changed = threading.Condition()
        self._at: float | None = None

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """For a request's "trace" extension: notes each connection as it is made, and again as it turns to TLS."""
        if event.endswith(CONNECTED):
            with self._changed:
                self._sockets = {known for known in self._sockets if known.fileno() >= 0}
                self._sockets.add(info["return_value"].get_extra_info("socket"))
                if self.is_over:
                    self._shut()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Shut the client's connections after so many seconds, unless the block ends before or asks for more time."""
        self.is_over = False
        self.allow(seconds)
        watcher = threading.Thread(target=self._watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            with self._changed:
                self._at = None
                self._changed.notify()
            watcher.join()

    def allow(self, seconds: float) -> None:
        """Begin another phase, which may take so many seconds from now on."""
        with self._changed:
            before, self._at = self._at, time.monotonic() + seconds
            if before is not None and self._at < before:  # of more time the watcher learns when it wakes
                self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while self._at is not None:
                left = self._at - time.monotonic()
                if left <= 0:
                    self.is_over = True
                    self._shut()
                    return
                self._changed.wait(left)

    def _shut(self) -> None:
        shut(self._sockets)


def shut(sockets: set[socket.socket]) -> None:
    """End what other threads read from these sockets: their reads return at once."""
    for connection in sockets:
        # SSLSocket.shutdown would drop the TLS state under the thread that reads from it.
        try:
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
        except OSError:
            continue  # already closed
