"""An HTTP client for downloads: how often it tries, how long it waits, and which proxies it uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphprep.errors import DownloadError

if TYPE_CHECKING:
    import httpx

LOOPBACK = ("localhost", "127.0.0.1", "::1")
CONNECT_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often to try, and how long to wait for an answer. Times in seconds."""

    attempts: int = 6
    """tries without progress before giving up; at most 3 while no connection has been made at all"""
    first_delay: float = 1.0
    """before the second try; doubled at each further one, up to half a minute"""
    read_timeout: float = 30.0
    """longest silence"""
    headers_timeout: float = 60.0
    """from a request to the end of its answer's headers, over all redirects, interim answers and handshakes"""


def new_client(policy: RetryPolicy) -> httpx.AsyncClient:
    """An HTTP client that heeds the proxy variables of the environment. It follows no redirects.

    A loopback address is never sent to a proxy: it would be the proxy's own loopback.

    Raises:
        DownloadError: a variable for a proxy or for certificates names something that cannot be used.
    """
    import httpx

    from graphprep.version import __version__

    try:
        return httpx.AsyncClient(
            timeout=httpx.Timeout(policy.read_timeout, connect=CONNECT_TIMEOUT, pool=None),
            mounts={f"all://{'[::1]' if host == '::1' else host}": None for host in LOOPBACK},
            # Bytes as they lie on the server: a length can be compared and a range resumed.
            headers={"User-Agent": f"graphprep/{__version__}", "Accept-Encoding": "identity"},
        )
    except OSError as problem:  # ssl's errors are OSErrors
        raise DownloadError(f"the certificates in SSL_CERT_FILE or SSL_CERT_DIR cannot be read: {problem}") from problem
    except (ImportError, ValueError) as problem:
        raise DownloadError(f"the proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY cannot be used: {problem}") from problem
