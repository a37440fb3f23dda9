"""Files from the network or a mirror into a folder; each gets its name only once it is whole and verified.

A few files are fetched at a time, one thread each: bodies are waited for, not computed, and a thread that is cut off
leaves a partial file that the next run resumes. The first failure, or Ctrl-C, stops all transfers at once. The folder
is locked meanwhile, so two processes that want the same files do not write into each other's.

    raw/cora/ind.cora.x                     whole and verified
    raw/cora/.partial-ind.cora.tx           still coming; .partial-ind.cora.tx.resume says which version it is of
    raw/cora/ind.cora.allx.bad              what came instead of the file, kept to be looked at
"""

from __future__ import annotations

import errno
import os
import queue
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from graphprep.datasets.download.http_client import Cancel, Cancelled, RetryPolicy, new_client
from graphprep.datasets.download.http_deadline import Deadline
from graphprep.datasets.download.http_errors import cannot_write, shown
from graphprep.datasets.download.mirror import origin
from graphprep.datasets.download.transfer import RESUME_SUFFIX, Transfer
from graphprep.errors import DatasetError, DownloadError, UsageError
from graphprep.system import progress
from graphprep.system.atomic import PARTIAL_PREFIX, fsync_folder, locked
from graphprep.system.regular_file import regular_file
from graphprep.system.verify import Fetched, RemoteFile, verify

if TYPE_CHECKING:
    import httpx

FILES_AT_ONCE = 4
COPY_BYTES = 1 << 20
LARGE = 1 << 28
"""bytes that are read in a second or so"""
SECONDS_TO_STOP = 1.0
"""How long cancelled threads are waited for; a connect can hold one longer, which then ends by itself."""


def download(
    files: Sequence[RemoteFile],
    folder: Path,
    *,
    mirror: str | Path | None = None,
    title: str | None = None,
    patience: RetryPolicy | None = None,
    at_once: int = FILES_AT_ONCE,
) -> tuple[Fetched, ...]:
    """Make sure that `folder` holds all of `files`, fetching those that are not there or not whole.

    Args:
        files: what to fetch and how to know it.
        folder: where to; made if need be.
        mirror: a folder or a URL to fetch from instead of the files' own hosts.
        title: what is being fetched, for people; the folder's name if not given.
        patience: timeouts and retries.
        at_once: files fetched at the same time.

    Returns:
        The files in the order given, with their sizes and checksums.

    Raises:
        DownloadError: a file cannot be had, or what came is not that file.
        UsageError: `mirror` is neither a folder nor an http(s) or file URL.
    """
    patience = patience or RetryPolicy()
    origins = {file.name: origin(file.url, mirror) for file in files}
    if len(origins) != len(files):
        raise UsageError("two files to download have the same name")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise cannot_write(folder, problem) from problem
    with locked(folder / "download", f"the files in {folder}"):
        _announce_check([folder / file.name for file in files])
        here = {file.name: found for file in files if (found := _already_there(file, folder)) is not None}
        missing = [file for file in files if file.name not in here]
        _require_sources(missing, origins)
        _require_space(missing, origins, folder)
        if missing:
            run = _Run(missing, origins, folder, patience)
            here |= run.fetch_all(title or folder.name, min(at_once, len(missing)))
    return tuple(here[file.name] for file in files)


def _announce_check(paths: Sequence[Path]) -> None:
    """Files that are there are read to their end, which for large ones takes a while."""
    size = sum(path.stat().st_size for path in paths if path.is_file())
    if size >= LARGE:
        progress.say(f"checking {progress.format_bytes(size)} that are here already")


def _already_there(file: RemoteFile, folder: Path) -> Fetched | None:
    path = folder / file.name
    if not path.exists():
        return None
    try:
        return Fetched(name=file.name, url=file.url, path=path, bytes=path.stat().st_size, sha256=verify(path, file))
    except DatasetError as problem:
        kept = _set_aside(path, path)
        progress.warn(f"{path} is not what it should be: {problem}. It is kept as {kept.name} and fetched again")
    except OSError as problem:
        raise DownloadError(
            f"{path} cannot be read ({problem.strerror}); remove it and run the same again"
        ) from problem
    return None


def _require_sources(missing: Sequence[RemoteFile], origins: dict[str, str | Path]) -> None:
    """All files that a local mirror lacks are found before anything is copied."""
    absent: list[str] = []
    for file in missing:
        path = origins[file.name]
        if isinstance(path, Path):
            try:
                regular_file(path)
            except OSError as problem:
                reason = "" if problem.errno == errno.ENOENT and not path.is_symlink() else f" ({problem.strerror})"
                absent.append(f"{path}{reason}")
    if absent:
        more = f" (and {len(absent) - 1} more files)" if len(absent) > 1 else ""
        raise DownloadError(
            f"the mirror has no file {absent[0]}{more}; put it there, or run without --mirror to use its own host"
        )


def _require_space(missing: Sequence[RemoteFile], origins: dict[str, str | Path], folder: Path) -> None:
    """Compare the free space with what is known to come; files of unknown size are compared as they begin."""
    need = 0
    for file in missing:
        partial = folder / (PARTIAL_PREFIX + file.name)
        have = partial.stat().st_size if partial.exists() else 0
        place = origins[file.name]
        size = place.stat().st_size if isinstance(place, Path) else file.bytes or 0
        need += max(0, size - have)
    free = shutil.disk_usage(folder).free
    if need > free:
        raise DownloadError(
            f"the files still need {progress.format_bytes(need)} but {folder} has {progress.format_bytes(free)} free; "
            "make room there or set GRAPHPREP_HOME to a larger disk"
        )


def _set_aside(path: Path, target: Path) -> Path:
    bad = target.with_name(f"{target.name}.bad")
    os.replace(path, bad)
    return bad


class _Run:
    """The threads of one call, and what they share."""

    def __init__(
        self, files: Sequence[RemoteFile], origins: dict[str, str | Path], folder: Path, patience: RetryPolicy
    ) -> None:
        self.files, self.origins, self.folder, self.patience = files, origins, folder, patience
        self.cancel = Cancel()
        self.waiting: queue.SimpleQueue[RemoteFile] = queue.SimpleQueue()
        self.outcomes: queue.SimpleQueue[Fetched | BaseException] = queue.SimpleQueue()

    def fetch_all(self, title: str, at_once: int) -> dict[str, Fetched]:
        """Start the threads, collect what they fetch, and stop them all at the first error."""
        sizes = [file.bytes for file in self.files]
        total = None if None in sizes else sum(size for size in sizes if size is not None)
        remote = any(isinstance(place, str) for place in self.origins.values())
        for file in self.files:
            self.waiting.put(file)
        done: dict[str, Fetched] = {}
        threads: list[threading.Thread] = []
        try:
            with progress.task(f"fetching {title}", total=total, unit="B") as task:
                advance = _shared(task)
                for number in range(at_once):
                    worker = threading.Thread(
                        target=self._work, args=(remote, advance), name=f"download-{number}", daemon=True
                    )
                    threads.append(worker)
                    worker.start()
                while len(done) < len(self.files):
                    outcome = self.outcomes.get()
                    if isinstance(outcome, BaseException):
                        raise outcome
                    done[outcome.name] = outcome
        finally:
            self.cancel.now()
            deadline = time.monotonic() + SECONDS_TO_STOP
            for worker in threads:
                worker.join(max(0.0, deadline - time.monotonic()))
        return done

    def _work(self, remote: bool, advance: Callable[[float], None]) -> None:
        """One thread, with a client of its own if anything is remote: file after file until none is left."""
        try:
            with new_client(self.patience) if remote else nullcontext() as client:
                self._fetch_waiting(client, advance)
        except BaseException as problem:  # noqa: BLE001 (raised again in the calling thread)
            self.outcomes.put(problem)

    def _fetch_waiting(self, client: httpx.Client | None, advance: Callable[[float], None]) -> None:
        deadline = Deadline()
        while True:
            try:
                file = self.waiting.get_nowait()
            except queue.Empty:
                return
            try:
                self.outcomes.put(self._fetch(client, deadline, file, advance))
            except Cancelled:
                return

    def _fetch(
        self, client: httpx.Client | None, deadline: Deadline, file: RemoteFile, advance: Callable[[float], None]
    ) -> Fetched:
        target, partial = self.folder / file.name, self.folder / (PARTIAL_PREFIX + file.name)
        place = self.origins[file.name]
        try:
            if isinstance(place, Path):
                self._copy(place, partial, advance)
                digest = self._verified(partial, file, place)
            else:
                assert client is not None
                transfer = Transfer(
                    client,
                    file,
                    place,
                    partial,
                    patience=self.patience,
                    cancel=self.cancel,
                    deadline=deadline,
                    advance=advance,
                )
                digest = self._received(transfer)
                transfer.note_path.unlink(missing_ok=True)
            with partial.open("rb") as stream:
                os.fsync(stream.fileno())
            os.replace(partial, target)
            fsync_folder(self.folder)
        except DownloadError:
            raise
        except OSError as problem:
            raise cannot_write(partial, problem) from problem
        return Fetched(name=file.name, url=file.url, path=target, bytes=target.stat().st_size, sha256=digest)

    def _received(self, transfer: Transfer) -> str:
        """Fetch and verify. A resumed file that fails is fetched once more from its start: the cut may be to blame."""
        transfer.run()
        if transfer.resumed:
            try:
                return verify(transfer.partial, transfer.file)
            except DatasetError as problem:
                progress.say(f"{transfer.file.name}: put together from two answers, {problem}; fetching it anew")
                transfer.discard()
                transfer.run()
        return self._verified(transfer.partial, transfer.file, transfer.url)

    def _verified(self, partial: Path, file: RemoteFile, place: str | Path) -> str:
        try:
            return verify(partial, file)
        except DatasetError as problem:
            bad = _set_aside(partial, self.folder / file.name)
            partial.with_name(partial.name + RESUME_SUFFIX).unlink(missing_ok=True)
            raise DownloadError(
                f"what {shown(str(place))} gave is not {file.name}: {problem}; it is kept as {bad}. "
                "Try again later or with --mirror"
            ) from problem

    def _copy(self, source: Path, partial: Path, advance: Callable[[float], None]) -> None:
        """From a folder that is a mirror."""
        try:
            reading = regular_file(source).open("rb")
        except OSError as problem:
            raise DownloadError(f"{source} cannot be read ({problem.strerror})") from problem
        partial.unlink(missing_ok=True)  # whatever it is: to open a pipe would wait for ever
        with reading, partial.open("wb") as writing:
            while piece := reading.read(COPY_BYTES):
                self.cancel.check()
                writing.write(piece)
                advance(len(piece))


def _shared(task: progress.Task) -> Callable[[float], None]:
    """`task.advance` for several threads."""
    lock = threading.Lock()

    def advance(amount: float) -> None:
        with lock:
            task.advance(amount)

    return advance
