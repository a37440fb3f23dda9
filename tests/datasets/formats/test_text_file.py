"""Blocks of whole lines, and files that are no text."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numcodecs.zstd import Zstd

from graphprep.datasets.formats import text_file
from graphprep.datasets.formats.text_file import line_blocks
from graphprep.errors import DatasetError

TEXT = b"".join(b"%d %d\n" % (number, number * 7919 % 1000) for number in range(20_000))


def written(folder: Path, data: bytes, name: str = "e.txt") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(
        st.binary(max_size=6).map(lambda line: line.translate(bytes.maketrans(b"\n\r\0", b"abc"))), min_size=1
    ),
    end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    last=st.booleans(),
    size=st.integers(1, 20),
)
def test_blocks_are_the_file(tmp_path: Path, lines: list[bytes], end: bytes, last: bool, size: int) -> None:
    """No byte may be lost where blocks meet, and each block's line number must be right, for all line ends."""
    data = b"1" + end.join(lines) + (end if last else b"")
    path = written(tmp_path, data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_file, "BLOCK_BYTES", size)
        blocks = list(line_blocks(path))
    assert b"".join(block for _, block in blocks) == data
    if end == b"\n":
        before = b""
        for number, block in blocks:
            assert number == before.count(b"\n") + 1
            before += block


def test_gzip_of_several_members(tmp_path: Path) -> None:
    """Files that were made with `cat a.gz b.gz` have more than one member."""
    path = written(tmp_path, gzip.compress(b"0 1\n") + gzip.compress(b"1 2\n"), "e.gz")
    assert b"".join(block for _, block in line_blocks(path)) == b"0 1\n1 2\n"


def test_gzip_under_another_name(tmp_path: Path) -> None:
    """Browsers unpack the name and not the file; what it is counts."""
    assert list(line_blocks(written(tmp_path, gzip.compress(b"0 1\n"), "e.txt"))) == [(1, b"0 1\n")]


def zstd(data: bytes) -> bytes:
    return bytes(Zstd(checksum=True).encode(data))


def test_zstd(tmp_path: Path) -> None:
    """Frames one after the other are one text, whatever the file is called; a cut or changed one is an error."""
    for name in ("e.txt.zst", "e.txt"):
        path = written(tmp_path, zstd(TEXT) + zstd(TEXT), name)
        assert b"".join(block for _, block in line_blocks(path)) == TEXT + TEXT
    whole = zstd(TEXT)
    for data, words in (
        (whole[:-1], "cut short: its zstd stream has no end"),
        (whole[: len(whole) // 2], "cut short"),
        (whole[:5], "cut short"),
        (whole[:1000] + b"\xff\0\xff" + whole[1003:], "damaged"),
        (whole + b"trailing", "damaged"),
        (b"0 1\n", "named .zst but is not zstd"),
        (zstd(b""), "it is empty"),
        (zstd(b"<html>"), "HTML page"),
    ):
        with pytest.raises(DatasetError, match=words):
            list(line_blocks(written(tmp_path, data, "e.zst")))


def test_byte_order_mark(tmp_path: Path) -> None:
    """Windows editors begin UTF-8 with a mark that is no part of the first id."""
    assert list(line_blocks(written(tmp_path, b"\xef\xbb\xbf0 1\n"))) == [(1, b"0 1\n")]


PACKED = gzip.compress(TEXT)


@pytest.mark.parametrize(
    ("data", "name", "words"),
    [
        (b"", "e.txt", "it is empty"),
        (gzip.compress(b""), "e.gz", "it is empty"),
        (PACKED[: len(PACKED) // 2], "e.gz", "cut short"),
        (PACKED[:-1], "e.gz", "cut short"),
        (PACKED[:5], "e.gz", "cut short"),
        (PACKED[:-8] + b"12345678", "e.gz", "damaged"),
        (PACKED[:2000] + b"\xff\0\xff" + PACKED[2003:], "e.gz", "damaged"),
        (PACKED + b"trailing", "e.gz", "damaged"),
        (b"\x1f\x8c" + PACKED[2:], "e.gz", "named .gz but is not gzip"),
        (b"0 1\n", "e.gz", "named .gz but is not gzip"),
        (b"version https://git-lfs.github.com/spec/v1\n", "e.gz", "Git-LFS pointer"),
        (b"<!doctype html><html>", "e.gz", "HTML page"),
        (gzip.compress(b"<html><body>"), "e.gz", "HTML page"),
        (b"PK\x03\x04....", "e.txt", "a zip archive"),
        (b"BZh91AY", "e.txt", "a bzip2 file"),
        (b"\xff\xfe0\x00 \x001\x00", "e.txt", "UTF-16"),
        (b"%%MatrixMarket matrix coordinate\n1 1 1\n", "e.txt", "MatrixMarket"),
        (b"\x93NUMPY\x01\x00", "e.txt", "NumPy"),
    ],
)
def test_files_that_are_no_text(tmp_path: Path, data: bytes, name: str, words: str) -> None:
    """Each must be one sentence that begins with the file and says what it is."""
    path = written(tmp_path, data, name)
    with pytest.raises(DatasetError, match=words) as caught:
        list(line_blocks(path))
    assert str(caught.value).startswith(str(path))


def test_real_pointer(test_data: Path) -> None:
    """A pointer that was saved under the name of the data."""
    with pytest.raises(DatasetError, match="Git-LFS pointer"):
        list(line_blocks(test_data / "malformed" / "lfs_pointer_edge.csv.gz"))


def test_endless_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A binary file without a line end must not be collected in memory to its last byte."""
    monkeypatch.setattr(text_file, "BLOCK_BYTES", 10)
    monkeypatch.setattr(text_file, "LONGEST_LINE", 100)
    with pytest.raises(DatasetError, match="line 2: no line ends"):
        list(line_blocks(written(tmp_path, b"1\n" + b"x" * 1000)))


def test_missing_and_folder(tmp_path: Path) -> None:
    """A name that is no file is an error with the name."""
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(DatasetError, match=f"{path} cannot be read"):
            list(line_blocks(path))
