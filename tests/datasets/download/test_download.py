"""Many files into a folder: what is there already, what is set aside, mirrors, space, and stopping all at once."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from graphprep.datasets.download.download import download
from graphprep.datasets.download.http_client import RetryPolicy
from graphprep.errors import DatasetError, DownloadError, UsageError
from graphprep.system.files.verify import RemoteFile
from tests.fault_server import Fault, FaultServer

QUICK = RetryPolicy(first_delay=0.01, read_timeout=0.5, attempts=3)
HTML = b"\xef\xbb\xbf\n<!DOCTYPE html>\n<html><body>Sign in</body></html>"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 5033515\n"


class Space(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {".download.lock"}


def test_files_arrive_in_order_and_leave_nothing_behind(server: FaultServer, tmp_path: Path) -> None:
    """More files than threads: each must come once, verified, and no thread or partial file may stay."""
    bodies = {f"f{number}": bytes([number]) * (1000 * number) for number in range(1, 12)}
    files = [
        RemoteFile(url=server.add(f"/{name}", body), name=name, bytes=len(body), sha256=sha256(body))
        for name, body in bodies.items()
    ]
    found = download(files, tmp_path / "new" / "folder", policy=QUICK)
    assert [(each.name, each.bytes, each.sha256, each.url) for each in found] == [
        (file.name, file.bytes, file.sha256, file.url) for file in files
    ]
    assert all(each.path.read_bytes() == bodies[each.name] for each in found)
    assert names(tmp_path / "new" / "folder") == set(bodies)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("download-")]


def test_verified_file_is_not_fetched_again(server: FaultServer, tmp_path: Path) -> None:
    """A second run must not touch the network, whether the file is known by checksum or by its check."""
    known = RemoteFile(url=server.add("/a", b"data"), name="a", sha256=sha256(b"data"))
    checked = RemoteFile(url=server.add("/b", b"data"), name="b", check=lambda path: None)
    first = download([known, checked], tmp_path, policy=QUICK)
    asked = len(server.requests)
    assert download([known, checked], tmp_path, policy=QUICK) == first
    assert len(server.requests) == asked


@pytest.mark.parametrize("damaged", [b"datA", b"dat", b""])
def test_damaged_file_is_set_aside_and_fetched_again(
    server: FaultServer, tmp_path: Path, damaged: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """A flipped bit or a cut in a file that is there must be noticed, said and mended."""
    (tmp_path / "a").write_bytes(damaged)
    file = RemoteFile(url=server.add("/a", b"data"), name="a", sha256=sha256(b"data"))
    download([file], tmp_path, policy=QUICK)
    assert (tmp_path / "a").read_bytes() == b"data"
    assert (tmp_path / "a.bad").read_bytes() == damaged
    assert "not what it should be" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "words"), [(HTML, "an HTML page"), (POINTER, "a Git-LFS pointer"), (b"", "it is empty")]
)
@pytest.mark.parametrize("known", [{}, {"bytes": 7}, {"sha256": "0" * 64}])
def test_what_is_no_data_is_named(
    server: FaultServer, tmp_path: Path, body: bytes, words: str, known: dict[str, object]
) -> None:
    """A login page with status 200 must be called that, not `wrong checksum`, and must not get the file's name."""
    url = server.add("/a", body)
    with pytest.raises(DownloadError, match=words) as caught:
        download([RemoteFile(url=url, name="a", **known)], tmp_path, policy=QUICK)  # type: ignore[arg-type]
    assert url in str(caught.value)
    assert names(tmp_path) == {"a.bad"}
    assert (tmp_path / "a.bad").read_bytes() == body


@pytest.mark.parametrize(
    ("known", "words"),
    [({"bytes": 5}, "it has 4 bytes instead of 5"), ({"sha256": "0" * 64}, "its SHA-256 is 3a6eb079")],
)
def test_wrong_file(server: FaultServer, tmp_path: Path, known: dict[str, object], words: str) -> None:
    """Another version of a file must be an error that says what differs, with the file kept to be looked at."""
    with pytest.raises(DownloadError, match=words):
        download([RemoteFile(url=server.add("/a", b"data"), name="a", **known)], tmp_path, policy=QUICK)  # type: ignore[arg-type]
    assert names(tmp_path) == {"a.bad"}


def test_check_sees_the_file_before_it_has_its_name(server: FaultServer, tmp_path: Path) -> None:
    """A file that its reader cannot read must not be found under its name, not even for a moment."""
    seen: list[bool] = []

    def check(path: Path) -> None:
        seen.append((tmp_path / "a").exists())
        if path.read_bytes() != b"whole":
            raise DatasetError("it is cut short")

    with pytest.raises(DownloadError, match="it is cut short"):
        download([RemoteFile(url=server.add("/a", b"wh"), name="a", check=check)], tmp_path, policy=QUICK)
    assert names(tmp_path) == {"a.bad"}
    download([RemoteFile(url=server.add("/a", b"whole"), name="a", check=check)], tmp_path, policy=QUICK)
    assert seen == [False, False]
    assert (tmp_path / "a").read_bytes() == b"whole"


def test_first_error_stops_the_others(server: FaultServer, tmp_path: Path) -> None:
    """One missing file among silent servers must be reported at once, and no thread may stay behind."""
    slow = [RemoteFile(url=server.add(f"/{n}", b"x" * 9, Fault(stall_at=3)), name=f"{n}") for n in range(3)]
    missing = RemoteFile(url=server.url("/gone"), name="gone")
    started = time.monotonic()
    with pytest.raises(DownloadError, match="does not exist"):
        download([*slow, missing], tmp_path, policy=RetryPolicy(read_timeout=60))
    assert time.monotonic() - started < 30, "it waited for a silent server"
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("download-")]


@pytest.mark.slow
def test_server_that_never_answers_can_be_left(server: FaultServer, tmp_path: Path) -> None:
    """A server that takes the connection and says nothing, not even a status, must not keep a thread."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mute = RemoteFile(url=f"http://127.0.0.1:{silent.getsockname()[1]}/a", name="a")
        server.add("/gone", b"", Fault(status=500, headers={"Retry-After": "1"}), Fault(status=404))
        with pytest.raises(DownloadError, match="does not exist"):
            download([mute, RemoteFile(url=server.url("/gone"), name="gone")], tmp_path, policy=RetryPolicy())
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("download-")]


def test_download_from_a_running_event_loop(server: FaultServer, tmp_path: Path) -> None:
    """A notebook's cell runs in an event loop, which `asyncio.run` refuses."""

    async def cell() -> Path:
        return download([RemoteFile(url=server.add("/a", b"data"), name="a")], tmp_path, policy=QUICK)[0].path

    assert asyncio.run(cell()).read_bytes() == b"data"


def test_unforeseen_errors_reach_the_caller(server: FaultServer, tmp_path: Path) -> None:
    """A fault in a check, which runs in a thread, must not be lost and leave the caller waiting."""

    def check(path: Path) -> None:
        raise ZeroDivisionError(path.name)

    with pytest.raises(ZeroDivisionError):
        download([RemoteFile(url=server.add("/a", b"x"), name="a", check=check)], tmp_path, policy=QUICK)


def test_two_callers_share_the_work(server: FaultServer, tmp_path: Path) -> None:
    """Two processes that want the same files must not write into one partial file."""
    body = bytes(1_000_000)
    files = [RemoteFile(url=server.add(f"/{n}", body), name=f"{n}", sha256=sha256(body)) for n in range(3)]
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(download, files, tmp_path, policy=QUICK) for _ in range(2)]
        assert both[0].result() == both[1].result()
    assert len(server.requests) == 3


def test_space_is_checked_before_anything_is_asked_for(
    server: FaultServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that cannot hold the files must be known before hours of download, and partial files count as had."""
    files = [RemoteFile(url=server.add(f"/{n}", bytes(600)), name=f"{n}", bytes=600) for n in range(2)]
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Space(2000, 1000, 1000))
    with pytest.raises(DownloadError, match=r"still need 1\.2 kB but .* has 1\.0 kB free"):
        download(files, tmp_path, policy=QUICK)
    assert server.requests == []
    (tmp_path / ".partial-0").write_bytes(bytes(300))
    download(files, tmp_path, policy=QUICK)


def test_space_for_a_file_of_unknown_size(server: FaultServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the registry has no size, the server's Content-Length must be compared before the body comes."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Space(2000, 1000, 1000))
    with pytest.raises(DownloadError, match=r"a needs 2\.0 kB more"):
        download([RemoteFile(url=server.add("/a", bytes(2000)), name="a")], tmp_path, policy=QUICK)


def test_folder_that_cannot_be_written(server: FaultServer, tmp_path: Path) -> None:
    """A file in the place of the folder is the user's to move, and no traceback."""
    (tmp_path / "folder").write_text("in the way")
    with pytest.raises(DownloadError, match="cannot be written"):
        download([RemoteFile(url=server.add("/a", b"x"), name="a")], tmp_path / "folder", policy=QUICK)


def test_two_files_of_one_name(tmp_path: Path) -> None:
    """The second would replace the first."""
    with pytest.raises(UsageError, match="the same name"):
        download([RemoteFile(url="http://a/x", name="x"), RemoteFile(url="http://b/x", name="x")], tmp_path)


def mirrored(tmp_path: Path, body: bytes = b"data") -> Path:
    """A mirror folder with https://data.example/some/a%20b.gz in it."""
    path = tmp_path / "mirror" / "data.example" / "some" / "a b.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(body)
    return tmp_path / "mirror"


URL = "https://data.example/some/a%20b.gz"


@pytest.mark.parametrize("form", ["path", "text", "file URL"])
def test_mirror_folder(tmp_path: Path, form: str) -> None:
    """A folder must work as a mirror without any server, however it is written."""
    folder = mirrored(tmp_path)
    mirror = {"path": folder, "text": str(folder), "file URL": folder.as_uri()}[form]
    (found,) = download([RemoteFile(url=URL, name="ab.gz", sha256=sha256(b"data"))], tmp_path / "to", mirror=mirror)
    assert found.path.read_bytes() == b"data"
    assert found.url == URL
    assert names(tmp_path / "to") == {"ab.gz"}


def test_mirror_folder_is_verified(tmp_path: Path) -> None:
    """A mirror can hold a pointer or an old version as well as a server can."""
    folder = mirrored(tmp_path, POINTER)
    with pytest.raises(DownloadError, match="Git-LFS pointer") as caught:
        download([RemoteFile(url=URL, name="ab.gz")], tmp_path / "to", mirror=folder)
    assert str(folder / "data.example" / "some" / "a b.gz") in str(caught.value)
    assert names(tmp_path / "to") == {"ab.gz.bad"}


def test_mirror_folder_without_the_file(tmp_path: Path) -> None:
    """The error must name the path that was looked for, and nothing may be copied before all are found."""
    folder = mirrored(tmp_path)
    files = [RemoteFile(url=URL, name="ab.gz"), RemoteFile(url="https://data.example/c", name="c")]
    with pytest.raises(DownloadError) as caught:
        download(files, tmp_path / "to", mirror=folder)
    assert str(folder / "data.example" / "c") in str(caught.value)
    assert names(tmp_path / "to") == set()


def test_mirror_server(server: FaultServer, tmp_path: Path) -> None:
    """A server that serves such a folder is a mirror too, with everything that holds for servers."""
    server.add("/m/data.example/some/a%20b.gz", b"data", Fault(status=503))
    (found,) = download([RemoteFile(url=URL, name="x")], tmp_path, mirror=server.url("/m/"), policy=QUICK)
    assert found.path.read_bytes() == b"data"


def test_file_url_of_an_entry(tmp_path: Path) -> None:
    """A file URL is read from this machine, with the same verification."""
    (tmp_path / "a b").write_bytes(b"data")
    (found,) = download([RemoteFile(url=(tmp_path / "a b").as_uri(), name="x")], tmp_path / "to")
    assert found.path.read_bytes() == b"data"
