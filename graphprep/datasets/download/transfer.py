"""One file over HTTP: resumed where it stopped, tried again where that helps, given up in a bounded time.

The body goes to a partial file as it comes. A note beside it keeps the server's validator (a strong ETag, else
Last-Modified), and a later attempt, in this run or the next, asks for the rest with Range and If-Range: the server
sends the rest only if the file is still the same. Without a validator, or when any answer contradicts the note, the
file starts again, since gluing two versions together is worse than fetching one twice.

What a second try can mend (`http_errors` decides) is retried with growing, jittered pauses. An attempt that brought at
least 64 KiB more than any before does not count against the limit, so a poor line can carry a large file. Libraries for
retries count tries, not bytes, so the loop is our own; so are redirects, whose bodies httpx would read to their end.

A read timeout ends where a byte comes in time, so it bounds neither endless `100 Continue` answers nor headers, lengths
of pieces or trailers that drip. One `asyncio.timeout` a try does: over the headers first, then over each piece.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import shutil
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from graphprep.datasets.download import google_drive
from graphprep.datasets.download.http_client import RetryPolicy
from graphprep.datasets.download.http_errors import TryAgain, of_connection, of_status, shown
from graphprep.errors import DownloadError
from graphprep.system import progress
from graphprep.system.files.regular_file import regular_file
from graphprep.system.files.verify import RemoteFile

if TYPE_CHECKING:
    import httpx

RESUME_SUFFIX = ".resume"
ATTEMPTS_TO_CONNECT = 3
MAX_DELAY = 30.0
MAX_REDIRECTS = 10
PROGRESS_BYTES = 64 * 1024
SLOW_WINDOW = 60.0
SLOW_RATE = 1000.0
"""bytes per second; a body that is slower than this over a whole window counts as stalled"""
SMALL_BODY = 1 << 20
"""A body of the wrong size is still fetched up to here: what it is says more than its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    """What is kept beside a partial file, so that it can be resumed."""

    url: str
    validator: str
    """for If-Range"""
    total: int | None

    @classmethod
    def of(cls, url: str, headers: Mapping[str, str], total: int | None) -> Self | None:
        etag = headers.get("etag", "")
        validator = etag if etag.startswith('"') else headers.get("last-modified", "")
        return cls(url=url, validator=validator, total=total) if validator else None

    @classmethod
    def load(cls, path: Path) -> Self | None:
        try:
            note = cls(**json.loads(regular_file(path).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, RecursionError):
            return None
        readable = isinstance(note.validator, str) and note.validator.isascii() and note.validator.isprintable()
        return note if readable and isinstance(note.total, int | None) else None

    def contradicted_by(self, headers: Mapping[str, str], total: int | None) -> bool:
        """Whether an answer comes from another version of the file. What it does not say contradicts nothing."""
        header = "etag" if self.validator.startswith('"') else "last-modified"
        return headers.get(header, self.validator) != self.validator or (
            self.total is not None and total is not None and total != self.total
        )


class Transfer:
    """Brings one file from `url` into `partial`."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        file: RemoteFile,
        url: str,
        partial: Path,
        *,
        policy: RetryPolicy,
        advance: Callable[[float], None],
    ) -> None:
        self.client, self.file, self.url, self.partial = client, file, url, partial
        self.note_path = partial.with_name(partial.name + RESUME_SUFFIX)
        self.policy, self.advance = policy, advance
        self.resumed = False
        """whether the partial file was made by more than one answer"""
        self._address = url
        """what is asked for: `url`, or where Google Drive's page leads"""
        self._pages = 0
        self._counted = 0
        self._farthest = 0

    def discard(self) -> None:
        """Forget what has come."""
        self.partial.unlink(missing_ok=True)
        self.note_path.unlink(missing_ok=True)
        self.resumed = False
        self._count(0)

    async def run(self) -> None:
        """Fetch until the partial file is complete as far as the server's lengths tell.

        Raises:
            DownloadError: it cannot be had, or not in the tries that `policy` allows.
            OSError: the partial file cannot be written.
        """
        failures = 0
        while True:
            try:
                return await self._attempt()
            except TryAgain as problem:
                size = _size(self.partial)
                failures = 1 if size >= self._farthest + PROGRESS_BYTES else failures + 1
                self._farthest = max(self._farthest, size)
                if failures >= (self.policy.attempts if problem.connected else ATTEMPTS_TO_CONNECT):
                    raise DownloadError(
                        f"{shown(self.url)} could not be fetched: {problem.reason}, {failures} times in a row; "
                        + self._advice(problem)
                    ) from problem
                pause = self._pause(failures) if problem.delay is None else problem.delay
                if pause:
                    progress.say(f"{self.file.name}: {problem.reason}; trying again in {pause:.1f} s")
                await asyncio.sleep(pause)

    def _pause(self, failures: int) -> float:
        return min(MAX_DELAY, self.policy.first_delay * 2.0 ** (failures - 1)) * random.uniform(0.5, 1.0)

    def _advice(self, problem: TryAgain) -> str:
        if _size(self.partial) and _Note.load(self.note_path) is not None:
            return "what has come is kept, run the same again to go on"
        return "run the same again later" if problem.connected else "check the network, or give a folder as --mirror"

    async def _attempt(self) -> None:
        import httpx

        offset, headers = self._resume_point()
        if headers is None:
            return
        overdue = f"the server's answer had no end of its headers within {self.policy.headers_timeout:g} s"
        try:
            async with asyncio.timeout(self.policy.headers_timeout) as deadline, self._answer(headers) as response:
                seconds = self._time_for_a_piece()
                overdue = f"nothing of the file came in {seconds:g} s, though the server kept sending"
                _extend(deadline, seconds)
                await self._receive(response, offset, deadline)
        except TimeoutError as problem:
            if not deadline.expired():
                raise
            raise TryAgain(overdue) from problem
        except httpx.TransportError as problem:
            raise of_connection(self.url, problem, self.policy) from problem
        except httpx.InvalidURL as problem:
            raise DownloadError(f"{shown(self.url)} is no URL, or redirects to none: {problem}") from problem

    @asynccontextmanager
    async def _answer(self, headers: Mapping[str, str]) -> AsyncIterator[httpx.Response]:
        """The answer after all redirects, whose own bodies are not read: they may have no end either."""
        request = self.client.build_request("GET", self._address, headers=headers)
        seen: list[str] = []
        while True:
            seen.append(str(request.url))
            if len(seen) > MAX_REDIRECTS + 1:
                how = "in a circle" if len(set(seen)) < len(seen) else f"more than {len(seen) - 2} times"
                raise DownloadError(f"{shown(self.url)} redirects {how}; the URL is wrong, try --mirror")
            async with aclosing(await self.client.send(request, stream=True)) as response:
                if response.next_request is None:
                    yield response
                    return
                request = response.next_request

    def _time_for_a_piece(self) -> float:
        """Seconds in which some of a body has to come, however little; then its rate is compared with SLOW_RATE."""
        return SLOW_WINDOW + self.policy.read_timeout

    def _resume_point(self) -> tuple[int, dict[str, str] | None]:
        """The offset to go on from and the headers to ask with; None for headers if all is there already."""
        note, offset = _Note.load(self.note_path), _size(self.partial)
        if not offset or note is None or note.url != self.url or (note.total is not None and offset > note.total):
            self.discard()
            return 0, {}
        self.resumed = True
        self._count(offset)
        if offset == note.total:
            return offset, None
        return offset, {"Range": f"bytes={offset}-", "If-Range": note.validator}

    async def _receive(self, response: httpx.Response, offset: int, deadline: asyncio.Timeout) -> None:
        match response.status_code:
            case 206 if offset:
                total = self._checked_range(response, offset)
            case 416 if offset:
                self.discard()
                raise TryAgain("the server cannot go on where we stopped", delay=0)
            case 200 if google_drive.is_page(self.file.url, response):
                self._confirm(await google_drive.page_of(response))
                raise TryAgain("Google Drive asked whether to download", delay=0)
            case 200:
                offset, total = 0, _content_length(response)
                self.discard()
            case _:
                raise of_status(self.url, response)
        self._check_offer(response, offset, total)
        with self.partial.open("ab" if offset else "wb") as stream:
            if not offset:
                note = _Note.of(self.url, response.headers, total)
                if note is not None:
                    self.note_path.write_text(json.dumps(asdict(note)), encoding="utf-8")
            await self._copy(response, stream, offset, deadline)
        received = _size(self.partial)
        if total is not None and received != total:
            raise TryAgain(f"the body ended at {received:,} of {total:,} bytes")

    def _confirm(self, page: str) -> None:
        """Go on where Google Drive's page leads; through the mirror, if one is used."""
        self._pages += 1
        if self._pages > google_drive.MOST_PAGES:
            raise DownloadError(
                f"{shown(self.url)}: Google Drive asks again and again whether to download; use --mirror"
            )
        target = google_drive.confirmed(self.file.url, page)
        mirror = self.url.removesuffix(self.file.url.partition("://")[2])
        self._address = target if self.url == self.file.url else mirror + target.partition("://")[2]

    def _checked_range(self, response: httpx.Response, offset: int) -> int | None:
        """The whole file's size, after making sure that this answer continues what we have."""
        note = _Note.load(self.note_path)
        span = re.fullmatch(r"bytes (\d{1,18})-\d+/(\d{1,18}|\*)", response.headers.get("content-range", "").strip())
        total = None if span is None or span[2] == "*" else int(span[2])
        continues = span is not None and int(span[1]) == offset
        if not continues or note is None or note.contradicted_by(response.headers, total):
            self.discard()
            raise TryAgain("the file changed on the server", delay=0)
        return note.total if total is None else total

    def _check_offer(self, response: httpx.Response, offset: int, total: int | None) -> None:
        encoding = response.headers.get("content-encoding", "identity").lower()
        if encoding != "identity" and not self.file.name.endswith((".gz", ".tgz")):
            raise DownloadError(
                f"{shown(self.url)} came with the encoding {encoding!r}, which was not asked for; try --mirror"
            )
        if total is None:
            return
        if self.file.bytes is not None and total != self.file.bytes and total > SMALL_BODY:
            raise DownloadError(
                f"{shown(self.url)} offers {total:,} bytes where {self.file.name} has {self.file.bytes:,}: "
                "it is another file or another version of it"
            )
        free = shutil.disk_usage(self.partial.parent).free
        if total - offset > free:
            raise DownloadError(
                f"{self.file.name} needs {progress.format_bytes(total - offset)} more but {self.partial.parent} has "
                f"{progress.format_bytes(free)} free; make room there or set GRAPHPREP_HOME to a larger disk"
            )

    async def _copy(self, response: httpx.Response, stream: BinaryIO, offset: int, deadline: asyncio.Timeout) -> None:
        window_start, window_bytes = time.monotonic(), 0
        async for piece in response.aiter_raw():
            stream.write(piece)
            offset += len(piece)
            self._count(offset)
            if self.file.bytes is not None and offset > max(self.file.bytes, SMALL_BODY):
                raise DownloadError(
                    f"{shown(self.url)} sends more than the {self.file.bytes:,} bytes that {self.file.name} has: "
                    "it is another file or another version of it"
                )
            window_bytes += len(piece)
            _extend(deadline, self._time_for_a_piece())
            elapsed = time.monotonic() - window_start
            if elapsed >= SLOW_WINDOW:
                if window_bytes < SLOW_RATE * elapsed:
                    raise TryAgain(f"only {window_bytes:,} bytes came in {elapsed:.0f} s")
                window_start, window_bytes = time.monotonic(), 0

    def _count(self, position: int) -> None:
        self.advance(position - self._counted)
        self._counted = position


def _extend(deadline: asyncio.Timeout, seconds: float) -> None:
    deadline.reschedule(asyncio.get_running_loop().time() + seconds)


def _content_length(response: httpx.Response) -> int | None:
    header = response.headers.get("content-length", "")
    return int(header) if header.isdecimal() else None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
