"""Zip archives: found, whole, and harmless, or refused in one sentence."""

from __future__ import annotations

import io
import shutil
import stat
import struct
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphprep.datasets.formats.arrays import Npz
from graphprep.errors import DatasetError
from graphprep.system.files import archive
from graphprep.system.files.archive import Archive
from graphprep.system.files.scratch import NoRoomError


def packed(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, data in members.items():
            made.writestr(name, data)
    return path


def test_members_are_found_below_a_folder(tmp_path: Path) -> None:
    """One publisher packs the folder, another its files; macOS adds shadows of both."""
    path = packed(tmp_path / "a.zip", {"x/a.txt": b"1", "x/b/c.txt": b"2", "__MACOSX/x/a.txt": b"3", "x/": b""})
    with Archive(path) as found:
        assert found.read("a.txt", 10) == b"1"
        assert found.read("b/c.txt", 10) == b"2"
        assert "x/" not in found.names
        with pytest.raises(DatasetError, match=r"no member d\.txt"):
            found.read("d.txt", 10)
        with pytest.raises(DatasetError, match="more than the 0"):
            found.read("a.txt", 0)


def test_two_that_could_be_meant(tmp_path: Path) -> None:
    """Which one is meant cannot be guessed, but an exact name is not in doubt."""
    with Archive(packed(tmp_path / "a.zip", {"x/a": b"1", "y/a": b"2"})) as found:
        with pytest.raises(DatasetError, match="more than one member a"):
            found.read("a", 10)
        assert found.read("x/a", 10) == b"1"


@pytest.mark.parametrize("name", ["../a", "x/../../a", "/etc/a", "\\a", "x\\..\\..\\a", "C:/a", "..", "c:a"])
def test_names_that_lead_outside(tmp_path: Path, name: str) -> None:
    """An archive with one such name is refused whole."""
    with pytest.raises(DatasetError, match="outside of its folder"):
        Archive(packed(tmp_path / "a.zip", {"good": b"1", name: b"2"}))


def test_links(tmp_path: Path) -> None:
    """A link, followed by a member below it, writes wherever the link leads."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as made:
        info = zipfile.ZipInfo("x")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        made.writestr(info, "/etc")
    with pytest.raises(DatasetError, match="is a link"):
        Archive(path)


def test_bombs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kilobytes that unpack to gigabytes must stop before they fill memory or disk."""
    monkeypatch.setattr(archive, "SMALL_MEMBER", 1 << 20)
    path = packed(tmp_path / "a.zip", {"zeros": bytes(4 << 20)})
    with Archive(path) as found:
        with pytest.raises(DatasetError, match="more than data does"), found.open("zeros"):
            pass
        with pytest.raises(DatasetError, match="more than data does"), found.copied("zeros", tmp_path):
            pass
        with pytest.raises(DatasetError, match="more than data does"):
            found.check()


def test_a_member_longer_than_it_says(tmp_path: Path) -> None:
    """The directory's size is a promise of whoever wrote it; no more than that is read."""
    path = packed(tmp_path / "a.zip", {"a": bytes(100_000)})
    data = bytearray(path.read_bytes())
    for magic, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", data, data.index(magic) + offset, 10)
    path.write_bytes(data)
    with Archive(path) as found, pytest.raises(DatasetError, match="its member a is damaged"):
        found.check()


def test_encrypted_members(tmp_path: Path) -> None:
    """Nobody is asked for a password."""
    path = packed(tmp_path / "a.zip", {"a": b"1"})
    data = bytearray(path.read_bytes())
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(magic) + offset] |= 1
    path.write_bytes(data)
    with Archive(path) as found, pytest.raises(DatasetError, match="encrypted"):
        found.check()


def test_an_inner_archive_is_read_at_any_place(tmp_path: Path) -> None:
    """A zip directory is at the end of a file, so an .npz cannot be read as it is unpacked."""
    inner = io.BytesIO()
    np.savez(inner, a=np.arange(5))
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        path = packed(tmp_path / "a.zip", {"d/b.npz": inner.getvalue()}, method)
        with Archive(path) as found, found.copied("b.npz", tmp_path) as copy, Archive(copy) as second:
            assert Npz(second).array("a", "i", (5,)).tolist() == [0, 1, 2, 3, 4]
            assert [file.name for file in tmp_path.iterdir()] == ["a.zip"]


def test_no_room_for_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Better said before the disk is full than when it is."""
    path = packed(tmp_path / "a.zip", {"a": b"1234"})
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(archive.shutil, "disk_usage", lambda _: usage._replace(free=3))
    with Archive(path) as found, pytest.raises(DatasetError, match="make room"), found.copied("a", tmp_path):
        pass


def test_a_full_disk_is_no_damaged_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person who is told that the file is damaged fetches it again, onto the same full disk."""
    path = packed(tmp_path / "a.zip", {"a": b"1234"})

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive.shutil, "copyfileobj", full)
    with Archive(path) as found, pytest.raises(NoRoomError, match="No space left"), found.copied("a", tmp_path):
        pass


@pytest.mark.parametrize(
    "data", [b"", b"PK\x05\x06" + bytes(17), b"<html>", b"\x1f\x8b\x08", b"PK\x03\x04 and no more"]
)
def test_no_archive(tmp_path: Path, data: bytes) -> None:
    """Something else under the name."""
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(DatasetError):
        Archive(tmp_path / "a.zip")
