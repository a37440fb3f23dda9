"""Files from the network or a mirror into a folder; each gets its name only once it is whole and verified.

A few files are fetched at a time, each by a task of one event loop in a thread of its own. The first failure, or
Ctrl-C, cancels all tasks at once, also those that wait for a silent server; a task that is cut off leaves a partial
file that the next run resumes. A pool of threads could not do that: a read cannot be cancelled from another thread. The
folder is locked meanwhile, so two processes that want the same files do not write into each other's.

    raw/cora/ind.cora.x                     whole and verified
    raw/cora/.partial-ind.cora.tx           still coming; .partial-ind.cora.tx.resume says which version it is of
    raw/cora/ind.cora.allx.bad              what came instead of the file, kept to be looked at
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from graphprep.datasets.download.http_client import RetryPolicy, new_client
from graphprep.datasets.download.http_errors import cannot_write, shown
from graphprep.datasets.download.mirror import origin
from graphprep.datasets.download.transfer import RESUME_SUFFIX, Transfer
from graphprep.errors import DatasetError, DownloadError, UsageError
from graphprep.system import progress
from graphprep.system.files.atomic import PARTIAL_PREFIX, fsync_path, locked
from graphprep.system.files.regular_file import regular_file
from graphprep.system.files.verify import Fetched, RemoteFile, verify

if TYPE_CHECKING:
    import httpx

FILES_AT_ONCE = 4
COPY_BYTES = 1 << 20
LARGE = 1 << 28
"""bytes that are read in a second or so"""
SECONDS_TO_STOP = 1.0
"""How long cancelled transfers are waited for; a disk that does not answer can hold one longer."""

Result = TypeVar("Result")


def download(
    files: Sequence[RemoteFile],
    folder: Path,
    *,
    mirror: str | Path | None = None,
    title: str | None = None,
    policy: RetryPolicy | None = None,
    at_once: int = FILES_AT_ONCE,
) -> tuple[Fetched, ...]:
    """Make sure that `folder` holds all of `files`, fetching those that are not there or not whole.

    Args:
        files: what to fetch and how to know it.
        folder: where to; made if need be.
        mirror: a folder or a URL to fetch from instead of the files' own hosts.
        title: what is being fetched, for people; the folder's name if not given.
        policy: timeouts and retries.
        at_once: files fetched at the same time.

    Returns:
        The files in the order given, with their sizes and checksums.

    Raises:
        DownloadError: a file cannot be had, or what came is not that file.
        UsageError: `mirror` is neither a folder nor an http(s) or file URL.
    """
    origins = {file.name: origin(file.url, mirror) for file in files}
    if len(origins) != len(files):
        raise UsageError("two files to download have the same name")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise cannot_write(folder, problem) from problem
    with locked(folder / "download", f"the files in {folder}"):
        _announce_check([folder / file.name for file in files])
        verified = [_already_there(file, folder) for file in files]
        here = {file.name: file for file in verified if file is not None}
        missing = [file for file in files if file.name not in here]
        _require_sources(missing, origins)
        _require_space(missing, origins, folder)
        if missing:
            sizes = [file.bytes for file in missing]
            total = None if None in sizes else sum(size for size in sizes if size is not None)
            with progress.task(f"fetching {title or folder.name}", total=total, unit="B") as task:
                run = _Download(origins, folder, policy or RetryPolicy(), task.advance)
                here |= {file.name: file for file in _in_event_loop(run.fetch_all(missing, at_once))}
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


def _in_event_loop(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`, from an event loop in a thread, as the calling thread may run one itself (a notebook).

    Ctrl-C cancels the work and waits a second at most; `asyncio.run` would wait for names that are still looked up.
    """
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    outcome: Future[Result] = Future()

    def run() -> None:
        try:
            result = loop.run_until_complete(task)
            loop.run_until_complete(loop.shutdown_default_executor())
            outcome.set_result(result)
        except BaseException as problem:  # noqa: BLE001 (raised again in the calling thread)
            outcome.set_exception(problem)
        finally:
            loop.close()

    thread = threading.Thread(target=run, name="download-loop", daemon=True)
    thread.start()
    try:
        return outcome.result()
    finally:
        with suppress(RuntimeError):  # it has ended meanwhile
            loop.call_soon_threadsafe(task.cancel)
        thread.join(SECONDS_TO_STOP)


@dataclass(frozen=True, slots=True)
class _Download:
    """The tasks of one call, and what they share."""

    origins: dict[str, str | Path]
    folder: Path
    policy: RetryPolicy
    advance: Callable[[float], None]

    async def fetch_all(self, files: Sequence[RemoteFile], at_once: int) -> list[Fetched]:
        """Fetch all, so many at a time. The first error cancels the others."""
        slots = asyncio.Semaphore(at_once)
        remote = any(isinstance(self.origins[file.name], str) for file in files)
        async with new_client(self.policy) if remote else nullcontext() as client:

            async def in_turn(file: RemoteFile) -> Fetched:
                async with slots:
                    return await self.fetch_one(client, file)

            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(in_turn(file)) for file in files]
            except BaseExceptionGroup as problems:
                first = problems.exceptions[0]
                raise first from first.__cause__
        return [task.result() for task in tasks]

    async def fetch_one(self, client: httpx.AsyncClient | None, file: RemoteFile) -> Fetched:
        """Fetch one file, and give it its name once it is verified and on the disk."""
        target, partial = self.folder / file.name, self.folder / (PARTIAL_PREFIX + file.name)
        place = self.origins[file.name]
        try:
            if isinstance(place, Path):
                await self._copy(place, partial)
                digest = await self._verified(partial, file, place)
            else:
                assert client is not None
                transfer = Transfer(client, file, place, partial, policy=self.policy, advance=self.advance)
                digest = await self._received(transfer)
                transfer.note_path.unlink(missing_ok=True)
            with partial.open("rb") as stream:
                await asyncio.to_thread(os.fsync, stream.fileno())
            os.replace(partial, target)
            fsync_path(self.folder)
        except DownloadError:  # an OSError too
            raise
        except OSError as problem:
            raise cannot_write(partial, problem) from problem
        return Fetched(name=file.name, url=file.url, path=target, bytes=target.stat().st_size, sha256=digest)

    async def _received(self, transfer: Transfer) -> str:
        """Fetch and verify. A resumed file that fails is fetched once more from its start: the cut may be to blame."""
        await transfer.run()
        if transfer.resumed:
            try:
                return await asyncio.to_thread(verify, transfer.partial, transfer.file)
            except DatasetError as problem:
                progress.say(f"{transfer.file.name}: put together from two answers, {problem}; fetching it anew")
                transfer.discard()
                await transfer.run()
        return await self._verified(transfer.partial, transfer.file, transfer.url)

    async def _verified(self, partial: Path, file: RemoteFile, place: str | Path) -> str:
        try:
            return await asyncio.to_thread(verify, partial, file)
        except DatasetError as problem:
            bad = _set_aside(partial, self.folder / file.name)
            partial.with_name(partial.name + RESUME_SUFFIX).unlink(missing_ok=True)
            raise DownloadError(
                f"what {shown(str(place))} gave is not {file.name}: {problem}; it is kept as {bad}. "
                "Try again later or with --mirror"
            ) from problem

    async def _copy(self, source: Path, partial: Path) -> None:
        """From a folder that is a mirror."""
        try:
            reading = regular_file(source).open("rb")
        except OSError as problem:
            raise DownloadError(f"{source} cannot be read ({problem.strerror})") from problem
        partial.unlink(missing_ok=True)  # whatever it is: to open a pipe would wait for ever
        with reading, partial.open("wb") as writing:
            while piece := reading.read(COPY_BYTES):
                writing.write(piece)
                self.advance(len(piece))
                await asyncio.sleep(0)
