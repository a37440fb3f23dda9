"""An HTTP server on 127.0.0.1 that serves bytes and misbehaves on demand."""

from __future__ import annotations

import hashlib
import threading
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

LAST_MODIFIED = "Wed, 21 Oct 2015 07:28:00 GMT"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """How one answer differs from a good one."""

    status: int | None = None
    """answer with this status and a short body"""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut_at: int | None = None
    """close the connection after so many bytes of the body"""
    stall_at: int | None = None
    """fall silent after so many bytes of the body, until the server closes"""
    ranges: bool = True
    """answer a Range"""
    wrong_range: bool = False
    """answer a Range with another one"""
    etag: str | None = ""
    """empty: the right one; None: no header"""
    last_modified: str | None = None
    length: bool = True
    """send Content-Length; without it the body ends where the connection does"""
    body: bytes | None = None
    """instead of the file"""
    first: bytes = b""
    before: bytes = b""
    """in place of an answer: `first`, then `before` again and again until the client leaves"""
    pause: float = 0.0
    """seconds after each time"""


@dataclass(frozen=True)
class Request:
    path: str
    headers: Message


class FaultServer:
    """Serves `files`; each request for a path takes the next of its `faults`, if there is one."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.faults: dict[str, deque[Fault]] = defaultdict(deque)
        self.always: Fault | None = None
        """the fault of requests that have none of their own"""
        self.requests: list[Request] = []
        self.closing = threading.Event()
        self.stalled = threading.Event()
        handler = type("Handler", (_Handler,), {"owner": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    @property
    def port(self) -> int:
        return int(self.http.server_address[1])

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def add(self, path: str, body: bytes, *faults: Fault) -> str:
        """Serve `body` at `path`; its first requests meet `faults`, one each. Returns the URL."""
        self.files[path] = body
        self.faults[path].extend(faults)
        return self.url(path)

    def asked(self, path: str) -> list[Message]:
        """The headers of all requests for `path`."""
        return [request.headers for request in self.requests if request.path == path]


def etag_of(body: bytes) -> str:
    return f'"{hashlib.sha1(body).hexdigest()[:12]}"'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: FaultServer

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        owner, path = self.owner, self.path
        owner.requests.append(Request(path, self.headers))
        waiting = owner.faults[path]
        fault = waiting.popleft() if waiting else owner.always or Fault()
        if fault.before:
            self._send_without_end(fault)
            return
        body = fault.body if fault.body is not None else owner.files.get(path)
        status = fault.status or (404 if body is None else 200)
        if status != 200:
            self._send(status, b"no\n", fault, {})
            return
        assert body is not None
        etag = etag_of(body) if fault.etag == "" else fault.etag
        headers = {"ETag": etag} if etag else {}
        if fault.last_modified:
            headers["Last-Modified"] = fault.last_modified
        start = self._start(fault, etag)
        if start is None:
            self._send(200, body, fault, headers)
        elif start >= len(body):
            self._send(416, b"", fault, {"Content-Range": f"bytes */{len(body)}"})
        else:
            start += fault.wrong_range
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
            self._send(206, body[start:], fault, headers)

    def _send_without_end(self, fault: Fault) -> None:
        self.close_connection = True
        try:
            self.wfile.write(fault.first)
            while not self.owner.closing.wait(fault.pause):
                self.wfile.write(fault.before)
        except OSError:
            return  # the client has left

    def _start(self, fault: Fault, etag: str | None) -> int | None:
        wanted, condition = self.headers.get("Range"), self.headers.get("If-Range")
        if wanted is None or not fault.ranges or condition not in (None, etag, fault.last_modified):
            return None
        return int(wanted.removeprefix("bytes=").rstrip("-"))

    def _send(self, status: int, body: bytes, fault: Fault, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        if fault.length:
            self.send_header("Content-Length", str(len(body)))
        for name, value in {**headers, **fault.headers}.items():
            self.send_header(name, value)
        self.close_connection = not fault.length or fault.cut_at is not None or fault.stall_at is not None
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        stops = [stop for stop in (fault.cut_at, fault.stall_at) if stop is not None]
        try:
            self.wfile.write(body[: min(stops, default=len(body))])
            self.wfile.flush()
        except OSError:
            return
        if fault.stall_at is not None:
            self.owner.stalled.set()
            self.owner.closing.wait(60)
