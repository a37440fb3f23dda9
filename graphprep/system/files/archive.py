"""Zip archives, read without unpacking: nothing is written under a name that the archive chose.

An archive is opened only if all its names stay below one folder and none is a link; one that has other names was made
to write elsewhere, and is refused whole. A member is found by its name or by the end of its path, since publishers put
a folder around the files or not. Reading goes through the sizes and the CRC-32 of the directory: a member that is cut,
changed, or longer than it says is an error, and so is one that unpacks to far more than data does (a zip bomb). What is
read whole must fit into memory by its size in the directory, and no more is unpacked at a time than is asked for, since
a directory may state any size.

A member that is an archive itself (.npz in .zip) must be read at any place; it is copied to a temporary file that has
no name, so that a killed run leaves nothing behind.
"""

from __future__ import annotations

import errno
import io
import shutil
import stat
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO, Self

from graphprep.errors import DatasetError
from graphprep.system import memory, progress
from graphprep.system.files.regular_file import regular_file
from graphprep.system.files.scratch import no_room, scratch_file
from graphprep.system.files.verify import HEAD_BYTES, substitute
from graphprep.system.files.window import Window

COPY_BYTES = 1 << 20
SMALL_MEMBER = 256 << 20
"""up to this size a member may be packed as tightly as it likes: zeros shrink a thousandfold"""
BOMB_RATIO = 200
"""above it, unpacked to packed; features and edges reach 20"""
PACKED_BYTES = 512
"""of LZMA, of which zipfile unpacks all that it has read: at most some 4 MB. Of bzip2 they are half a gigabyte"""
MOST_LETTERS = 300
"""of what a library says of damage, which may quote the file"""
ENCRYPTED = 0x1
LOCAL_HEADER = struct.Struct("<4s22xHH")
"""what comes before a member's bytes: a magic, and the lengths of two fields that follow"""


class Archive:
    """An open zip archive. Its errors are the ends of sentences that begin with the file."""

    def __init__(self, file: Path | IO[bytes]) -> None:
        """Open and check the directory.

        Raises:
            DatasetError: it is no zip archive, is cut short, or has names that lead out of it.
            OSError: it cannot be read.
        """
        if isinstance(file, Path):
            with regular_file(file).open("rb") as stream:
                if suspect := substitute(stream.read(HEAD_BYTES)):
                    raise DatasetError(suspect)
        self._path = file if isinstance(file, Path) else None
        with in_plain_words("it is no zip archive, or is cut short"):
            self._zip = zipfile.ZipFile(file)
        try:
            for info in self._zip.infolist():
                _require_harmless(info)
        except DatasetError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._zip.close()

    @property
    def names(self) -> tuple[str, ...]:
        """The members that are files."""
        return tuple(info.filename for info in self._zip.infolist() if not info.is_dir())

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """A member as a stream; what goes wrong with its bytes while the block runs is a DatasetError.

        Raises:
            DatasetError: there is none of that name, or several; it is damaged, encrypted, packed by bzip2, or a zip
                bomb.
        """
        info = self._found(name)
        if info.file_size > max(SMALL_MEMBER, BOMB_RATIO * info.compress_size):
            raise DatasetError(
                f"its member {info.filename} unpacks from {info.compress_size:,} to {info.file_size:,} bytes, "
                "more than data does"
            )
        if info.compress_type == zipfile.ZIP_BZIP2:
            raise DatasetError(
                f"its member {info.filename} is packed by bzip2, of which Python unpacks a byte to a megabyte at once; "
                "pack the archive anew with deflate"
            )
        with in_plain_words(f"its member {info.filename} is damaged"), self._zip.open(info) as stream:
            if info.compress_type == zipfile.ZIP_STORED:
                yield stream
                return
            piece = COPY_BYTES
            if info.compress_type != zipfile.ZIP_DEFLATED:
                piece = PACKED_BYTES
                stream.MIN_READ_SIZE = PACKED_BYTES  # type: ignore[attr-defined]  # zipfile reads no less at a time
            with io.BufferedReader(_Pieces(stream, piece), COPY_BYTES) as pieces:
                yield pieces

    def read(self, name: str, limit: int) -> bytes:
        """All bytes of a member that has at most `limit` and fits into memory.

        Raises:
            DatasetError: it has more, or is none that `open` takes.
        """
        if (size := self._found(name).file_size) > limit:
            raise DatasetError(f"its member {name} has {size:,} bytes, more than the {limit:,} that are read at once")
        memory.require_memory(size, f"its member {name}")
        with self.open(name) as stream:
            return stream.read()

    @contextmanager
    def copied(self, name: str, folder: Path) -> Iterator[IO[bytes]]:
        """A member as a file that can be read at any place: a nameless copy on the disk of `folder`."""
        with scratch_file(folder, self._found(name).file_size) as copy:
            with no_room(folder), self.open(name) as stream:
                shutil.copyfileobj(stream, copy, COPY_BYTES)
            copy.seek(0)
            yield copy

    @contextmanager
    def searchable(self, name: str, folder: Path) -> Iterator[IO[bytes]]:
        """A member as a file that can be read at any place: where it lies if it is not packed, else as `copied`."""
        info = self._found(name)
        if info.compress_type != zipfile.ZIP_STORED or self._path is None or info.flag_bits & ENCRYPTED:
            with self.copied(name, folder) as copy:
                yield copy
            return
        with in_plain_words(f"its member {info.filename} is damaged"), self._path.open("rb") as stream:
            stream.seek(info.header_offset)
            magic, name_bytes, extra_bytes = LOCAL_HEADER.unpack(stream.read(LOCAL_HEADER.size))
            start = info.header_offset + LOCAL_HEADER.size + name_bytes + extra_bytes
            if magic != b"PK\x03\x04" or start + info.file_size > self._path.stat().st_size:
                raise DatasetError(f"its member {info.filename} is not where its directory says")
        with io.BufferedReader(Window(self._path, start, info.file_size), COPY_BYTES) as window:
            yield window

    def size(self, name: str) -> int:
        """The bytes of a member when it is unpacked."""
        return self._found(name).file_size

    def __contains__(self, name: str) -> bool:
        """Whether there is a member of exactly this name."""
        return name in self.names

    def check(self) -> None:
        """Read every member to its end, which compares sizes and checksums.

        Raises:
            DatasetError: one is damaged.
        """
        total = sum(info.file_size for info in self._zip.infolist())
        with progress.task(
            f"checking {self._path.name if self._path else 'an archive'}", total=total, unit="B"
        ) as task:
            for name in self.names:
                with self.open(name) as stream:
                    while piece := stream.read(COPY_BYTES):
                        task.advance(len(piece))

    def _found(self, name: str) -> zipfile.ZipInfo:
        here = [info for info in self._zip.infolist() if not info.is_dir()]
        exact = [info for info in here if info.filename == name]
        members = exact or [info for info in here if info.filename.endswith(f"/{name}") and info.filename[:2] != "__"]
        if len(members) != 1:
            raise DatasetError(f"it has {'no' if not members else 'more than one'} member {name}")
        return members[0]


class _Pieces(io.RawIOBase):
    """A packed member, unpacked in pieces: zipfile's own `read()` unpacks all of it before it heeds the stated size."""

    def __init__(self, stream: IO[bytes], piece_bytes: int) -> None:
        self._stream, self._piece_bytes = stream, piece_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        piece = self._stream.read(min(len(buffer), self._piece_bytes))
        buffer[: len(piece)] = piece
        return len(piece)

    def tell(self) -> int:
        return self._stream.tell()

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self._stream.read(self._piece_bytes), b""))


@contextmanager
def in_plain_words(what: str) -> Iterator[None]:
    """Gives everything that goes wrong with damaged bytes one sentence: `what`, and the reason."""
    try:
        yield
    except DatasetError:
        raise
    except MemoryError as problem:
        raise DatasetError(f"{what} (it asks for more memory than there is)") from problem
    except OSError as problem:
        if problem.errno not in (None, errno.EINVAL):  # a full or broken disk, not a broken file
            raise
        raise DatasetError(f"{what} ({problem})") from problem
    except Exception as problem:  # zipfile, zlib, lzma, struct and NumPy each have errors of their own for damage
        words = str(problem) or type(problem).__name__
        raise DatasetError(f"{what} ({words[:MOST_LETTERS]})") from problem


def _require_harmless(info: zipfile.ZipInfo) -> None:
    name = info.filename
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if ".." in parts or name.startswith(("/", "\\")) or ":" in name.split("/")[0]:
        raise DatasetError(f"its member {name!r} would lie outside of its folder; the archive is not to be trusted")
    if stat.S_ISLNK(info.external_attr >> 16):
        raise DatasetError(f"its member {name!r} is a link; the archive is not to be trusted")
