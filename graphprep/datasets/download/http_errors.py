"""Failures over HTTP: which are tried again, and the message of each.

A second try can mend no or a broken connection, a stall, 408, 425, 429 and 5xx. It cannot mend a 404, a 403, or a
certificate that is not trusted.
"""

from __future__ import annotations

import email.utils
import errno
import os
import re
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import getproxies, proxy_bypass

from graphprep.datasets.download.http_client import CONNECT_TIMEOUT, LOOPBACK, RetryPolicy
from graphprep.errors import DownloadError

if TYPE_CHECKING:
    import httpx

RETRIED_STATUSES = frozenset({408, 425, 429})
MAX_RETRY_AFTER = 120.0
"""seconds; a server that asks for a longer pause is not waited for"""


class TryAgain(Exception):
    """An attempt failed in a way that another may not."""

    def __init__(self, reason: str, *, delay: float | None = None, connected: bool = True) -> None:
        super().__init__(reason)
        self.reason, self.delay, self.connected = reason, delay, connected


def of_status(url: str, response: httpx.Response) -> DownloadError | TryAgain:
    """The error for a status that is no success."""
    url, status = shown(url), response.status_code
    if status in RETRIED_STATUSES or status >= 500:
        pause = retry_after(response.headers.get("retry-after"))
        if pause is not None and pause > MAX_RETRY_AFTER:
            return DownloadError(
                f"{url} answered {status} and asks to be left alone for {pause:.0f} s; run the same again later"
            )
        return TryAgain(f"the server answered {status}", delay=pause)
    match status:
        case 404 | 410:
            return DownloadError(
                f"{url} does not exist (status {status}): the file has moved; try --mirror with a place that has it"
            )
        case 401 | 403:
            return DownloadError(
                f"{url} may not be read (status {status}): the server or a proxy wants a login; "
                "try --mirror with a place that you may read"
            )
        case 407:
            return DownloadError(f"{url}: the proxy wants a login; put it into HTTPS_PROXY (http://user:word@host)")
        case _:
            return DownloadError(f"{url} answered with status {status}, which is not a file; try --mirror")


def of_connection(url: str, problem: httpx.TransportError, policy: RetryPolicy) -> DownloadError | TryAgain:
    """Whether a connection's failure is worth another try, and its name in plain words."""
    import httpx

    host = _peer(problem.request.url)
    causes = list(_causes(problem))
    if isinstance(problem, httpx.UnsupportedProtocol):
        return DownloadError(f"{shown(url)} redirects to something that is not http: {problem}")
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return DownloadError(
            f"the certificate of {host} cannot be verified ({causes[-1]}); "
            "if a proxy inspects the traffic, point SSL_CERT_FILE at its certificate"
        )
    if isinstance(problem, httpx.ProxyError):
        return TryAgain(f"the proxy refused ({problem})", connected=False)
    lookup = next((cause for cause in causes if isinstance(cause, socket.gaierror)), None)
    if lookup is not None:
        return TryAgain(f"there is no network, or no host called {host} ({lookup.strerror})", connected=False)
    if isinstance(problem, httpx.ConnectTimeout):
        return TryAgain(f"no connection to {host} within {CONNECT_TIMEOUT:g} s", connected=False)
    if isinstance(problem, httpx.ConnectError):
        return TryAgain(f"no connection to {host} ({causes[-1]})", connected=False)
    if isinstance(problem, httpx.TimeoutException):
        return TryAgain(f"{host} sent nothing for {policy.read_timeout:g} s")
    return TryAgain(f"the connection to {host} broke ({problem or type(problem).__name__})")


def retry_after(header: str | None) -> float | None:
    """Seconds that a Retry-After header asks for, in either of its forms; None if there is none."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        when = email.utils.parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, when.timestamp() - time.time())


def shown(url: str) -> str:
    """`url` for a message, without a user's name and password."""
    return re.sub(r"(?<=://)[^/@]*@", "", url)


def _peer(url: httpx.URL) -> str:
    """The host that a request went to, and the proxy where it went through one."""
    proxy = getproxies().get(url.scheme)
    direct = proxy is None or url.host in LOOPBACK or proxy_bypass(url.host)
    return url.host if proxy is None or direct else f"{url.host} through the proxy {shown(proxy)}"


def cannot_write(path: Path, problem: OSError) -> DownloadError:
    """The error for a failed write."""
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return DownloadError(f"the disk of {path.parent} is full; make room there and run the same again to go on")
    return DownloadError(f"{path} cannot be written ({os.strerror(problem.errno or 0)})")


def _causes(problem: BaseException) -> Iterator[BaseException]:
    """The chain of errors from `problem` to the first one."""
    link: BaseException | None = problem
    while link is not None:
        yield link
        link = link.__cause__ or link.__context__
