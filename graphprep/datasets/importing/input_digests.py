"""The checksums of a user's files, computed in a thread while the files are read.

A store's key covers the content of its inputs. Where there is a store already, its key has to be compared before
anything is read; where there is none, the checksums are not waited for before the store is written.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType

from graphprep.errors import DatasetError
from graphprep.system import progress
from graphprep.system.files.regular_file import regular_file
from graphprep.system.files.version import FileVersion, require_version, version_of

BYTES_AT_A_TIME = 1 << 22


class InputDigests:
    """A context in which the files are read once from front to back by a thread of its own; leaving it ends that."""

    def __init__(self, files: Sequence[tuple[str, Path]]) -> None:
        """`files`: each with its role."""
        self._files = files
        self._left = threading.Event()
        self._pool = ThreadPoolExecutor(1, "input-digests")
        self._future: Future[list[dict[str, object]]] | None = None
        self._versions: list[FileVersion] = []

    def __enter__(self) -> InputDigests:
        self._versions = [version_of(path) for _, path in self._files]
        self._future = self._pool.submit(lambda: [self._digest(role, path) for role, path in self._files])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        self._pool.shutdown()

    def result(self) -> list[dict[str, object]]:
        """Every file as it was found: role, name, bytes, sha256; waits for what is not done.

        Raises:
            DatasetError: one cannot be read, or has changed since the context was entered.
        """
        if self._future is None:
            raise RuntimeError("the context has not been entered")
        if not self._future.done():
            with progress.task("checking input files"):
                wait([self._future])
        digests = self._future.result()
        for (_, path), version in zip(self._files, self._versions, strict=True):
            require_version(path, version)
        return digests

    def _digest(self, role: str, path: Path) -> dict[str, object]:
        digest, count = hashlib.sha256(), 0
        piece = memoryview(bytearray(BYTES_AT_A_TIME))
        try:
            with regular_file(path).open("rb", buffering=0) as stream:
                while not self._left.is_set() and (read := stream.readinto(piece)):
                    digest.update(piece[:read])
                    count += read
        except OSError as problem:
            raise DatasetError(f"{path} cannot be read ({problem.strerror})") from problem
        return {"role": role, "name": path.name, "bytes": count, "sha256": digest.hexdigest()}
