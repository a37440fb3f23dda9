"""An HTTP client for downloads: how long it waits, which proxies it uses, and how it is stopped from another thread.

Threads that wait for a silent server cannot be told to stop, but their sockets can be shut under them: the read then
returns at once with an error. That is what makes Ctrl-C, and the failure of another file, immediate.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphprep.datasets.download.http_deadline import CONNECTED, shut
from graphprep.errors import DownloadError

if TYPE_CHECKING:
    import httpx

LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long to wait for what. Times in seconds."""

    attempts: int = 6
    """tries without progress before giving up"""
    attempts_to_connect: int = 3
    """the same while no connection has been made at all"""
    first_delay: float = 1.0
    """doubled at each further try"""
    max_delay: float = 30.0
    max_retry_after: float = 120.0
    """a server that asks for a longer pause is not waited for"""
    connect_timeout: float = 10.0
    read_timeout: float = 30.0
    """longest silence"""
    headers_timeout: float = 60.0
    """from a request to the end of its answer's headers, over all redirects, interim answers and handshakes"""
    max_redirects: int = 10
    slow_window: float = 60.0
    slow_rate: float = 1000.0
    """bytes per second; a body that is slower than this over a whole window counts as stalled"""


class Cancelled(Exception):
    """This transfer was told to stop."""


class Cancel:
    """Stops transfers that run in other threads, also those that wait for a silent server."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()

    def now(self) -> None:
        with self._lock:
            self._event.set()
            shut(self._sockets)

    def check(self) -> None:
        if self._event.is_set():
            raise Cancelled

    def sleep(self, seconds: float) -> None:
        if self._event.wait(seconds):
            raise Cancelled

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """For a request's "trace" extension: notes each connection as it is made, and again as it turns to TLS."""
        if event.endswith(CONNECTED):
            connection = info["return_value"].get_extra_info("socket")
            with self._lock:
                self._sockets.add(connection)
            self.check()


def new_client(patience: RetryPolicy) -> httpx.Client:
    """An HTTP client for one thread that heeds the proxy variables of the environment. It follows no redirects.

    A loopback address is never sent to a proxy: it would be the proxy's own loopback.

    Raises:
        DownloadError: a variable for a proxy or for certificates names something that cannot be used.
    """
    import httpx

    from graphprep.version import __version__

    try:
        return httpx.Client(
            timeout=httpx.Timeout(patience.read_timeout, connect=patience.connect_timeout, pool=None),
            limits=httpx.Limits(max_connections=1),
            mounts={f"all://{'[::1]' if host == '::1' else host}": None for host in LOOPBACK},
            # Bytes as they lie on the server: a length can be compared and a range resumed.
            headers={"User-Agent": f"graphprep/{__version__}", "Accept-Encoding": "identity"},
        )
    except OSError as problem:  # ssl's errors are OSErrors
        raise DownloadError(f"the certificates in SSL_CERT_FILE or SSL_CERT_DIR cannot be read: {problem}") from problem
    except (ImportError, ValueError) as problem:
        raise DownloadError(f"the proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY cannot be used: {problem}") from problem
