"""Text, or gzip or zstd of text, in blocks of whole lines.

Files that are something else are recognised by their first bytes and named: a Git-LFS pointer, an HTML page, another
kind of archive, a binary format. A packed stream is read to its end, so a cut or damaged one is found.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from graphprep.datasets.importing.edges.edge_lines import count_line_feeds
from graphprep.errors import DatasetError
from graphprep.system.files.regular_file import regular_file
from graphprep.system.files.verify import HEAD_BYTES, substitute

BLOCK_BYTES = 4 << 20
"""small enough for the last-level cache, large enough that a block's overhead is not seen"""
LONGEST_LINE = 64 << 20
UTF8_MARK = b"\xef\xbb\xbf"
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
PACKED = (".gz", ".zst")
"""endings of the names of packed files; the ending before them says what they hold"""
MATRIX_MARKET = b"%%MatrixMarket"
OTHER_KINDS = (
    (b"PK\x03\x04", "a zip archive"),
    (b"BZh", "a bzip2 file"),
    (b"\xfd7zXZ", "an xz file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"PAR1", "a Parquet file"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
    (MATRIX_MARKET, "a MatrixMarket file"),
)


def unpacked_name(path: Path) -> str:
    """The file's name in lower case, without the ending that says how it is packed."""
    name = path.name.lower()
    return name.removesuffix(next((ending for ending in PACKED if name.endswith(ending)), ""))


def line_blocks(path: Path, *, expected: bytes | None = None) -> Iterator[tuple[int, bytes]]:
    """Runs of whole lines, each with the number of its first line (from 1). Line ends are as in the file.

    Args:
        path: of the file.
        expected: the magic of `OTHER_KINDS` that this file is meant to have.

    Raises:
        DatasetError: the file cannot be read, is empty, of another kind, cut short or damaged; a line is endless.
    """
    line, rest, first = 1, b"", True
    with _opened(path, expected) as stream:
        while piece := stream.read(BLOCK_BYTES):
            if first:
                _require_text(path, piece[:HEAD_BYTES], expected)
                piece, first = piece.removeprefix(UTF8_MARK), False
            cut = piece.rfind(b"\n") + 1 or piece.rfind(b"\r", 0, -1) + 1
            if not cut:
                rest += piece
                if len(rest) > LONGEST_LINE:
                    raise DatasetError(f"{path}, line {line}: no line ends within {LONGEST_LINE:,} bytes")
                continue
            block, rest = b"".join((rest, memoryview(piece)[:cut])), piece[cut:]
            yield line, block
            line += _count_lines(block)
    if first:
        raise DatasetError(f"{path} cannot be used: it is empty")
    if rest:
        yield line, rest


def first_bytes(path: Path, count: int) -> bytes:
    """The first bytes of a file, unpacked if it is packed.

    Raises:
        DatasetError: as `line_blocks`.
    """
    with _opened(path, None) as stream:
        return stream.read(count)


def whole_text(path: Path, most_bytes: int) -> bytes | None:
    """All bytes of a file, unpacked if it is packed; None if there are more than `most_bytes`.

    Raises:
        DatasetError: as `line_blocks`.
    """
    with _opened(path, None) as stream:
        text = stream.read(most_bytes + 1)
    return None if len(text) > most_bytes else text


def lines_between(path: Path, start: int, stop: int) -> Iterator[bytes]:
    """The lines of a file that is not packed, and whose lines end in line feeds, that begin within a range of bytes.

    Args:
        path: of the file.
        start: of the range; a line that is under way there is the one before's.
        stop: its end; the last line may go beyond it.

    Returns:
        Blocks of whole lines.

    Raises:
        DatasetError: as `line_blocks`.
    """
    with _opened(path, None) as stream:
        at = start
        if start:
            stream.seek(start - 1)
            at += len(_line_end(path, stream)) - 1
        while at < stop and (block := stream.read(min(BLOCK_BYTES, stop - at))):
            if not block.endswith(b"\n"):
                block += _line_end(path, stream)
            yield block if at else block.removeprefix(UTF8_MARK)
            at += len(block)


def _line_end(path: Path, stream: BinaryIO) -> bytes:
    """What is left of a line, up to its line feed or the end of the file."""
    rest = stream.readline(LONGEST_LINE + 1)
    if len(rest) > LONGEST_LINE:
        raise DatasetError(f"{path} has no line feed within {LONGEST_LINE:,} bytes")
    return rest


def byte_ranges(path: Path, num_bytes: int) -> list[tuple[int, int]]:
    """Ranges for `lines_between`, of so many bytes each; none where a file is not for it.

    Raises:
        DatasetError: as `line_blocks`.
    """
    with _opened(path, None) as stream:
        if not isinstance(stream, BufferedReader):
            return []
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        if size > num_bytes and b"\n" not in stream.read(BLOCK_BYTES):
            return []
        return [(start, min(start + num_bytes, size)) for start in range(0, size, num_bytes)]


@contextmanager
def _opened(path: Path, expected: bytes | None) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked if it is packed; all that goes wrong with them is a DatasetError."""
    kind = "gzip"
    try:
        with regular_file(path).open("rb") as head_stream:
            head = head_stream.read(HEAD_BYTES)
        named = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix.lower())
        packed = "gzip" if head.startswith(GZIP_MAGIC) else "zstd" if head.startswith(ZSTD_MAGIC) else None
        if packed is None:
            _require_text(path, head, expected)
            if named is not None:
                raise DatasetError(
                    f"{path} is named {path.suffix} but is not {named}; fetch it again, or take {path.suffix} off if "
                    "it is plain text"
                )
        kind = packed or kind
        with _stream(path, packed) as stream:
            yield stream
    except EOFError as problem:
        raise DatasetError(f"{path} is cut short: its {kind} stream has no end; fetch it again") from problem
    except (gzip.BadGzipFile, zlib.error) as problem:
        raise DatasetError(f"{path} is damaged ({problem}); fetch it again") from problem
    except DatasetError:
        raise
    except OSError as problem:
        if problem.errno is None and kind == "zstd":  # Arrow's
            cut = "runcated" in str(problem)
            words = "is cut short: its zstd stream has no end" if cut else f"is damaged ({problem})"
            raise DatasetError(f"{path} {words}; fetch it again") from problem
        reason = problem.strerror or str(problem)
        raise DatasetError(f"{path} cannot be read ({reason})") from problem


def _stream(path: Path, packed: str | None) -> BinaryIO:
    if packed == "gzip":
        return cast(BinaryIO, gzip.open(path))
    if packed == "zstd":
        import pyarrow as pa

        return cast(BinaryIO, pa.input_stream(str(path), compression="zstd"))
    return path.open("rb")


def _require_text(path: Path, head: bytes, expected: bytes | None) -> None:
    if reason := substitute(head):
        raise DatasetError(f"{path} cannot be used: {reason}")
    for magic, kind in OTHER_KINDS:
        if magic != expected and head.startswith(magic):
            raise DatasetError(
                f"{path} is {kind}, not text with one entry a line; give it a name or a format that says so, or "
                "convert it first"
            )


def _count_lines(text: bytes) -> int:
    if b"\r" in text:
        return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")
    return int(count_line_feeds(np.frombuffer(text, np.uint8)))
