"""A range of a file as a seekable file of its own, for members that an archive stores unpacked."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import IO

from graphprep.system.files.regular_file import regular_file


class Window(io.RawIOBase):
    """Bytes start .. start + size - 1 of a file, read-only."""

    def __init__(self, path: Path, start: int, size: int) -> None:
        self._file: IO[bytes] = regular_file(path).open("rb", buffering=0)
        self._start, self._size, self._position = start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError("a place before the beginning")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        count = max(0, min(len(buffer), self._size - self._position))
        self._file.seek(self._start + self._position)
        piece = self._file.read(count)
        buffer[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)

    def close(self) -> None:
        self._file.close()
        super().close()
