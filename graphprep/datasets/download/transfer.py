"""One file over HTTP: resumed where it stopped, tried again where that helps, given up in a bounded time.

The body goes to a partial file as it comes. A note beside it keeps the server's validator (a strong ETag, else
Last-Modified), and a later attempt, in this run or the next, asks for the rest with Range and If-Range: the server
sends the rest only if the file is still the same. Without a validator, or when any answer contradicts the note, the
file starts again, since gluing two versions together is worse than fetching one twice.

What a second try can mend (`http_trouble` decides) is retried with growing, jittered pauses. An attempt that brought at
least 64 KiB more than any before does not count against the limit, so a poor line can carry a large file.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from graphprep.datasets.download import google_drive
from graphprep.datasets.download.http_client import Cancel, RetryPolicy
from graphprep.datasets.download.http_deadline import Deadline
from graphprep.datasets.download.http_errors import TryAgain, cannot_write, of_connection, of_status, shown
from graphprep.errors import DownloadError
from graphprep.system import progress
from graphprep.system.regular_file import regular_file
from graphprep.system.verify import RemoteFile

if TYPE_CHECKING:
    import httpx

RESUME_SUFFIX = ".resume"
PROGRESS_BYTES = 64 * 1024
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
    """Brings one file from `url` into `partial`. Used by one thread."""

    def __init__(
        self,
        client: httpx.Client,
        file: RemoteFile,
        url: str,
        partial: Path,
        *,
        patience: RetryPolicy,
        cancel: Cancel,
        deadline: Deadline,
        advance: Callable[[float], None],
    ) -> None:
        self.client, self.file, self.url, self.partial = client, file, url, partial
        self.note_path = partial.with_name(partial.name + RESUME_SUFFIX)
        self.patience, self.cancel, self.deadline, self.advance = patience, cancel, deadline, advance
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

    def run(self) -> None:
        """Fetch until the partial file is complete as far as the server's lengths tell.

        Raises:
            DownloadError: it cannot be had, or not in the tries that `patience` allows.
            Cancelled: `cancel` was used.
        """
        failures = 0
        while True:
            self.cancel.check()
            try:
                self._attempt()
                return
            except TryAgain as problem:
                size = _size(self.partial)
                failures = 1 if size >= self._farthest + PROGRESS_BYTES else failures + 1
                self._farthest = max(self._farthest, size)
                limit = self.patience.attempts if problem.connected else self.patience.attempts_to_connect
                if failures >= limit:
                    raise DownloadError(
                        f"{shown(self.url)} could not be fetched: {problem.reason}, {failures} times in a row; "
                        + self._advice(problem)
                    ) from problem
                pause = self._pause(failures) if problem.delay is None else problem.delay
                if pause:
                    progress.say(f"{self.file.name}: {problem.reason}; trying again in {pause:.1f} s")
                self.cancel.sleep(pause)

    def _pause(self, failures: int) -> float:
        longest = min(self.patience.max_delay, self.patience.first_delay * 2.0 ** (failures - 1))
        return longest * random.uniform(0.5, 1.0)

    def _advice(self, problem: TryAgain) -> str:
        if _size(self.partial) and _Note.load(self.note_path) is not None:
            return "what has come is kept, run the same again to go on"
        return "run the same again later" if problem.connected else "check the network, or give a folder as --mirror"

    def _attempt(self) -> None:
        import httpx

        offset, headers = self._resume_point()
        if headers is None:
            return
        answered = False
        try:
            with self.deadline.within(self.patience.headers_timeout), self._answer(headers) as response:
                answered = True
                self.deadline.allow(self._time_for_a_piece())
                self._receive(response, offset)
                self.cancel.check()  # a body without a length seems to end where its connection is cut
                if self.deadline.is_over:
                    raise TryAgain(self._overdue(answered))
        except httpx.TransportError as problem:
            self.cancel.check()  # a connection that we cut ourselves
            if self.deadline.is_over:
                raise TryAgain(self._overdue(answered)) from problem
            raise of_connection(self.url, problem, self.patience) from problem
        except httpx.InvalidURL as problem:
            raise DownloadError(f"{shown(self.url)} is no URL, or redirects to none: {problem}") from problem

    @contextmanager
    def _answer(self, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
        """The answer after all redirects, whose own bodies are not read: they may have no end either."""
        extensions = {"trace": self._trace}
        request = self.client.build_request("GET", self._address, headers=headers, extensions=extensions)
        seen: list[str] = []
        while True:
            seen.append(str(request.url))
            if len(seen) > self.patience.max_redirects + 1:
                how = "in a circle" if len(set(seen)) < len(seen) else f"more than {len(seen) - 2} times"
                raise DownloadError(f"{shown(self.url)} redirects {how}; the URL is wrong, try --mirror")
            with closing(self.client.send(request, stream=True)) as response:
                if response.next_request is None:
                    yield response
                    return
                request = response.next_request

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        self.deadline.trace(event, info)
        self.cancel.trace(event, info)

    def _overdue(self, answered: bool) -> str:
        if answered:
            return f"nothing of the file came in {self._time_for_a_piece():g} s, though the server kept sending"
        return f"the server's answer had no end of its headers within {self.patience.headers_timeout:g} s"

    def _time_for_a_piece(self) -> float:
        """Seconds in which some of a body has to come, be it ever so little; its rate is looked at then."""
        return self.patience.slow_window + self.patience.read_timeout

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

    def _receive(self, response: httpx.Response, offset: int) -> None:
        match response.status_code:
            case 206 if offset:
                total = self._checked_range(response, offset)
            case 416 if offset:
                self.discard()
                raise TryAgain("the server cannot go on where we stopped", delay=0)
            case 200 if google_drive.is_page(self.file.url, response):
                self._confirm(google_drive.page_of(response))
                raise TryAgain("Google Drive asked whether to download", delay=0)
            case 200:
                offset, total = 0, _content_length(response)
                self.discard()
            case _:
                raise of_status(self.url, response, self.patience)
        self._check_offer(response, offset, total)
        with self._opened(offset) as stream:
            if not offset:
                note = _Note.of(self.url, response.headers, total)
                if note is not None:
                    self.note_path.write_text(json.dumps(asdict(note)), encoding="utf-8")
            self._copy(response, stream, offset)
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
        found = re.fullmatch(r"bytes (\d{1,18})-\d+/(\d{1,18}|\*)", response.headers.get("content-range", "").strip())
        total = None if found is None or found[2] == "*" else int(found[2])
        continues = found is not None and int(found[1]) == offset
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

    @contextmanager
    def _opened(self, offset: int) -> Iterator[BinaryIO]:
        try:
            with self.partial.open("ab" if offset else "wb") as stream:
                yield stream
        except DownloadError:
            raise
        except OSError as problem:
            raise cannot_write(self.partial, problem) from problem

    def _copy(self, response: httpx.Response, stream: BinaryIO, offset: int) -> None:
        window_start, window_bytes = time.monotonic(), 0
        for piece in response.iter_raw():
            self.cancel.check()
            stream.write(piece)
            offset += len(piece)
            self._count(offset)
            if self.file.bytes is not None and offset > max(self.file.bytes, SMALL_BODY):
                raise DownloadError(
                    f"{shown(self.url)} sends more than the {self.file.bytes:,} bytes that {self.file.name} has: "
                    "it is another file or another version of it"
                )
            window_bytes += len(piece)
            self.deadline.allow(self._time_for_a_piece())
            elapsed = time.monotonic() - window_start
            if elapsed >= self.patience.slow_window:
                if window_bytes < self.patience.slow_rate * elapsed:
                    raise TryAgain(f"only {window_bytes:,} bytes came in {elapsed:.0f} s")
                window_start, window_bytes = time.monotonic(), 0

    def _count(self, position: int) -> None:
        self.advance(position - self._counted)
        self._counted = position


def _content_length(response: httpx.Response) -> int | None:
    header = response.headers.get("content-length", "")
    return int(header) if header.isdecimal() else None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
