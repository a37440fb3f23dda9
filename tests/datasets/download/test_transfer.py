"""One file over HTTP, from servers that cut, stall, change and lie."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphprep.datasets.download import transfer
from graphprep.datasets.download.download import download
from graphprep.datasets.download.http_client import RetryPolicy
from graphprep.datasets.download.http_errors import retry_after, shown
from graphprep.datasets.download.transfer import Transfer
from graphprep.errors import DownloadError
from graphprep.system.files.verify import RemoteFile
from tests.conftest import heed_interrupts
from tests.fault_server import LAST_MODIFIED, Fault, FaultServer, etag_of

BODY = random.Random(1).randbytes(300_000)
QUICK = RetryPolicy(first_delay=0.01, read_timeout=0.5, attempts=4)
HTML = b"<!DOCTYPE html>\n<html><body>Sign in</body></html>"


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


def fetch(url: str, folder: Path, policy: RetryPolicy = QUICK, **known: object) -> bytes:
    """Download one file called `f` and return what it holds."""
    (found,) = download([RemoteFile(url=url, name="f", **known)], folder, policy=policy)  # type: ignore[arg-type]
    assert [path.name for path in folder.iterdir() if path.name not in ("f", ".download.lock")] == []
    assert found.path == folder / "f"
    assert found.bytes == len(found.path.read_bytes())
    return found.path.read_bytes()


def left_over(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {".download.lock"}


def test_cut_body_is_resumed(server: FaultServer, tmp_path: Path) -> None:
    """A connection that breaks must not cost what has come, and the rest must be asked for conditionally."""
    url = server.add("/f", BODY, Fault(cut_at=100_000), Fault(cut_at=50_000))
    assert fetch(url, tmp_path) == BODY
    ranges = [(headers["Range"], headers["If-Range"]) for headers in server.asked("/f")]
    assert ranges == [(None, None), ("bytes=100000-", etag_of(BODY)), ("bytes=150000-", etag_of(BODY))]


def test_next_run_resumes(server: FaultServer, tmp_path: Path) -> None:
    """A run that gave up must leave what the next one can go on from, and say so."""
    url = server.add("/f", BODY, Fault(cut_at=100_000))
    with pytest.raises(DownloadError, match="run the same again to go on"):
        fetch(url, tmp_path, RetryPolicy(attempts=1))
    assert left_over(tmp_path) == {".partial-f", ".partial-f.resume"}
    assert fetch(url, tmp_path) == BODY
    assert server.asked("/f")[1]["Range"] == "bytes=100000-"


def test_file_that_changes_half_way_starts_again(server: FaultServer, tmp_path: Path) -> None:
    """Two versions of a file must never be glued together."""
    other = BODY[::-1]
    url = server.add("/f", BODY, Fault(cut_at=100_000), Fault(body=other))
    server.files["/f"] = other
    assert fetch(url, tmp_path) == other


def test_changed_file_behind_a_server_that_ignores_if_range(server: FaultServer, tmp_path: Path) -> None:
    """A 206 whose ETag is another one is the rest of another file."""
    url = server.add(
        "/f", BODY, Fault(cut_at=100_000), Fault(body=BODY[::-1], headers={"ETag": '"new"'}, etag=etag_of(BODY))
    )
    assert fetch(url, tmp_path) == BODY
    assert [headers["Range"] for headers in server.asked("/f")] == [None, "bytes=100000-", None]


def test_206_for_another_range_is_not_used(server: FaultServer, tmp_path: Path) -> None:
    """A proxy that answers with a range of its own must not shift the file by a byte."""
    url = server.add("/f", BODY, Fault(cut_at=100_000), Fault(wrong_range=True))
    assert fetch(url, tmp_path) == BODY


def test_206_that_does_not_say_the_whole_size(server: FaultServer, tmp_path: Path) -> None:
    """A proxy that caps a range and leaves the size open (`/*`) must not make the file end at its cap."""
    capped = {"Content-Range": "bytes 100000-199999/*"}
    url = server.add("/f", BODY, Fault(cut_at=100_000), Fault(body=BODY[:200_000], headers=capped, etag=etag_of(BODY)))
    assert fetch(url, tmp_path) == BODY
    assert [headers["Range"] for headers in server.asked("/f")] == [None, "bytes=100000-", "bytes=200000-"]


@pytest.mark.parametrize("size", ["9" * 5000, "300000" + "0" * 300, "-1", "", "3e5"])
def test_206_with_a_size_that_is_none(server: FaultServer, tmp_path: Path, size: str) -> None:
    """A header may hold any digits; Python refuses to read more than 4,300 of them, which must not end the fetch."""
    absurd = {"Content-Range": f"bytes 100000-299999/{size}"}
    url = server.add("/f", BODY, Fault(cut_at=100_000), Fault(headers=absurd))
    assert fetch(url, tmp_path) == BODY


def test_without_validator_starts_again(server: FaultServer, tmp_path: Path) -> None:
    """Nothing says that the file is still the same, so its rest is not asked for."""
    url = server.add("/f", BODY, Fault(cut_at=100_000, etag=None), Fault(etag=None))
    assert fetch(url, tmp_path) == BODY
    assert [headers["Range"] for headers in server.asked("/f")] == [None, None]


@pytest.mark.parametrize("etag", [None, 'W/"weak"'])
def test_last_modified_stands_in_for_a_strong_etag(server: FaultServer, tmp_path: Path, etag: str | None) -> None:
    """A weak ETag promises equal meaning, not equal bytes, and must not be used to join two answers."""
    good = Fault(etag=etag, last_modified=LAST_MODIFIED)
    url = server.add("/f", BODY, Fault(cut_at=100_000, etag=etag, last_modified=LAST_MODIFIED), good)
    assert fetch(url, tmp_path) == BODY
    assert server.asked("/f")[1]["If-Range"] == LAST_MODIFIED


def test_server_without_ranges(server: FaultServer, tmp_path: Path) -> None:
    """A 200 in answer to a Range is the whole file, not its rest."""
    url = server.add("/f", BODY, Fault(cut_at=100_000), Fault(ranges=False))
    assert fetch(url, tmp_path) == BODY


def test_whole_partial_needs_no_request(server: FaultServer, tmp_path: Path) -> None:
    """A kill between the last byte and the rename must not cost a second download."""
    url = server.url("/f")
    (tmp_path / ".partial-f").write_bytes(BODY)
    note = {"url": url, "validator": etag_of(BODY), "total": len(BODY)}
    (tmp_path / ".partial-f.resume").write_text(json.dumps(note))
    assert fetch(url, tmp_path) == BODY
    assert server.requests == []


def test_416_starts_again(server: FaultServer, tmp_path: Path) -> None:
    """A partial file that is longer than the server's must not end in an endless 416."""
    url = server.add("/f", BODY)
    (tmp_path / ".partial-f").write_bytes(BODY + b"more")
    (tmp_path / ".partial-f.resume").write_text(json.dumps({"url": url, "validator": etag_of(BODY), "total": None}))
    assert fetch(url, tmp_path) == BODY


@pytest.mark.parametrize("note", ["", "[]", '{"url": 1}', '{"url": "other", "validator": "x", "total": null}'])
def test_note_that_is_not_ours(server: FaultServer, tmp_path: Path, note: str) -> None:
    """A damaged note, or that of another URL, must not decide what is kept."""
    url = server.add("/f", BODY)
    (tmp_path / ".partial-f").write_bytes(b"x" * 1000)
    (tmp_path / ".partial-f.resume").write_text(note)
    assert fetch(url, tmp_path) == BODY


def test_damaged_partial_is_fetched_anew(server: FaultServer, tmp_path: Path) -> None:
    """A partial file that a power cut filled with zeros passes the lengths; the checksum must lead to a second try."""
    import hashlib

    url = server.add("/f", BODY)
    (tmp_path / ".partial-f").write_bytes(bytes(100_000))
    note = {"url": url, "validator": etag_of(BODY), "total": len(BODY)}
    (tmp_path / ".partial-f.resume").write_text(json.dumps(note))
    assert fetch(url, tmp_path, sha256=hashlib.sha256(BODY).hexdigest()) == BODY
    assert [headers["Range"] for headers in server.asked("/f")] == ["bytes=100000-", None]


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_passing_trouble_is_retried(server: FaultServer, tmp_path: Path, status: int) -> None:
    """A server that is busy for a moment must not end a run."""
    url = server.add("/f", BODY, Fault(status=status), Fault(status=status))
    assert fetch(url, tmp_path) == BODY


@pytest.mark.slow
def test_retry_after_is_honoured(server: FaultServer, tmp_path: Path) -> None:
    """A server that asks for a second's pause gets it, or it will ban us."""
    url = server.add("/f", BODY, Fault(status=429, headers={"Retry-After": "1"}))
    started = time.monotonic()
    assert fetch(url, tmp_path) == BODY
    assert time.monotonic() - started >= 1


def test_long_retry_after_is_an_error(server: FaultServer, tmp_path: Path) -> None:
    """A pause of an hour must be reported, neither slept through nor ignored."""
    url = server.add("/f", BODY, Fault(status=503, headers={"Retry-After": "3600"}))
    with pytest.raises(DownloadError, match="asks to be left alone for 3600 s"):
        fetch(url, tmp_path)
    assert len(server.requests) == 1


def test_retry_after_forms() -> None:
    """Retry-After may be a date; what is neither is ignored."""
    assert retry_after("7") == 7
    assert retry_after(None) is None
    assert retry_after("soon") is None
    later = retry_after(formatdate(time.time() + 100, usegmt=True))
    assert later is not None
    assert 95 < later <= 100
    assert retry_after(formatdate(0, usegmt=True)) == 0


@pytest.mark.parametrize(
    ("status", "words"), [(404, "does not exist"), (410, "does not exist"), (403, "may not be read"), (401, "login")]
)
def test_final_refusals(server: FaultServer, tmp_path: Path, status: int, words: str) -> None:
    """Asking again does not mend a 404; the error names the URL and what to do."""
    url = server.add("/f", BODY, Fault(status=status))
    with pytest.raises(DownloadError, match=words) as caught:
        fetch(url, tmp_path)
    assert url in str(caught.value)
    assert "--mirror" in str(caught.value)
    assert len(server.requests) == 1


def test_endless_trouble_ends(server: FaultServer, tmp_path: Path) -> None:
    """A server that never recovers must end in an error that counts the tries."""
    url = server.add("/f", BODY)
    server.always = Fault(status=500)
    with pytest.raises(DownloadError, match="answered 500, 4 times in a row"):
        fetch(url, tmp_path)


def test_body_that_is_always_cut_ends(server: FaultServer, tmp_path: Path) -> None:
    """Without a validator each try starts at zero; that must not count as progress."""
    url = server.add("/f", BODY)
    server.always = Fault(cut_at=200_000, etag=None)
    with pytest.raises(DownloadError, match="times in a row"):
        fetch(url, tmp_path)
    assert len(server.requests) <= QUICK.attempts + 1


def test_progress_resets_the_count_of_tries(server: FaultServer, tmp_path: Path) -> None:
    """A poor line that carries some of the file each time must get there, however often it breaks."""
    body = BODY * 4
    url = server.add("/f", body, *[Fault(cut_at=100_000)] * 11)
    assert fetch(url, tmp_path, RetryPolicy(attempts=2, first_delay=0.01)) == body


def test_stalled_server_ends(server: FaultServer, tmp_path: Path) -> None:
    """A server that falls silent in the middle must end in an error, not a hang."""
    url = server.add("/f", BODY)
    server.always = Fault(stall_at=1000)
    started = time.monotonic()
    with pytest.raises(DownloadError, match=r"sent nothing for 0\.2 s"):
        fetch(url, tmp_path, RetryPolicy(attempts=2, first_delay=0.01, read_timeout=0.2))
    assert time.monotonic() - started < 5


def test_stall_is_resumed(server: FaultServer, tmp_path: Path) -> None:
    """One stall must cost a pause and nothing else."""
    url = server.add("/f", BODY, Fault(stall_at=100_000))
    assert fetch(url, tmp_path) == BODY
    assert server.asked("/f")[1]["Range"] == "bytes=100000-"


def test_trickle_counts_as_stalled(server: FaultServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that sends a byte now and then never times out, and would take for ever."""
    url = server.add("/f", BODY)
    monkeypatch.setattr(transfer, "SLOW_WINDOW", 0.0)
    monkeypatch.setattr(transfer, "SLOW_RATE", 1e12)
    with pytest.raises(DownloadError, match="bytes came in"):
        fetch(url, tmp_path, RetryPolicy(attempts=1))


def test_redirects_are_followed(server: FaultServer, tmp_path: Path) -> None:
    """GitHub's raw URLs redirect to another host."""
    server.add("/there", BODY, Fault(cut_at=100_000))
    url = server.add("/f", b"", *[Fault(status=302, headers={"Location": "/there"})] * 2)
    assert fetch(url, tmp_path) == BODY
    assert server.asked("/there")[1]["Range"] == "bytes=100000-"


def test_redirect_loop(server: FaultServer, tmp_path: Path) -> None:
    """A circle of redirects is a wrong URL, not a reason to try again."""
    url = server.add("/f", b"")
    server.always = Fault(status=302, headers={"Location": "/f"})
    with pytest.raises(DownloadError, match="circle"):
        fetch(url, tmp_path)


def test_redirect_out_of_http(server: FaultServer, tmp_path: Path) -> None:
    """A server must not be able to point us at a local file."""
    url = server.add("/f", b"", Fault(status=302, headers={"Location": "file:///etc/passwd"}))
    with pytest.raises(DownloadError, match="not http"):
        fetch(url, tmp_path)


def test_large_file_of_wrong_size_is_refused_at_its_head(server: FaultServer, tmp_path: Path) -> None:
    """A file of another size is another file; gigabytes of it need not come first."""
    url = server.add("/f", bytes(2 << 20))
    with pytest.raises(DownloadError, match="offers 2,097,152 bytes where f has 5"):
        fetch(url, tmp_path, bytes=5)
    assert left_over(tmp_path) == set()


def test_endless_body_is_cut_off(server: FaultServer, tmp_path: Path) -> None:
    """A body without a length must not fill the disk."""
    url = server.add("/f", bytes(3 << 20), Fault(length=False))
    with pytest.raises(DownloadError, match="sends more than"):
        fetch(url, tmp_path, bytes=5)


def test_body_without_length(server: FaultServer, tmp_path: Path) -> None:
    """HTTP/1.0 servers end a body by closing the connection."""
    assert fetch(server.add("/f", BODY, Fault(length=False)), tmp_path) == BODY


def test_unasked_compression(server: FaultServer, tmp_path: Path) -> None:
    """A server that packs what was asked for as it is would leave gzip under the name of the text."""
    url = server.add("/f", BODY, Fault(headers={"Content-Encoding": "gzip"}))
    with pytest.raises(DownloadError, match="encoding 'gzip'"):
        fetch(url, tmp_path)


def test_gzip_file_labelled_as_encoding_stays_packed(server: FaultServer, tmp_path: Path) -> None:
    """Servers label .gz files with Content-Encoding: gzip; what is wanted is the file as it lies there."""
    import gzip

    packed = gzip.compress(b"0 1\n")
    url = server.add("/e.gz", packed, Fault(headers={"Content-Encoding": "gzip"}))
    (found,) = download([RemoteFile(url=url, name="e.gz")], tmp_path, policy=QUICK)
    assert found.path.read_bytes() == packed


def test_refused_connection(tmp_path: Path) -> None:
    """No server: an error that names the host, after few tries."""
    with FaultServer() as gone:
        url = gone.url("/f")
    with pytest.raises(DownloadError, match=r"no connection to 127\.0\.0\.1.*3 times in a row"):
        fetch(url, tmp_path)


def test_unknown_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No network and a misspelt host look alike; the error says both."""
    import socket

    def no_such_name(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", no_such_name)
    with pytest.raises(DownloadError, match=r"no network, or no host called data\.invalid"):
        fetch("http://data.invalid/f", tmp_path)


def test_loopback_is_not_sent_to_a_proxy(server: FaultServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror on this machine must work behind a company's proxy, which cannot reach it."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert fetch(server.add("/f", BODY), tmp_path) == BODY


def test_other_hosts_go_through_the_proxy(server: FaultServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy variables must be respected: there may be no other way out."""
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{server.port}")
    server.add("http://data.invalid/f", BODY)
    assert fetch("http://data.invalid/f", tmp_path) == BODY


def test_dead_proxy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the proxy is down, the error must not blame the data's host."""
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://user:word@127.0.0.1:9")
    with pytest.raises(DownloadError, match=r"data\.invalid through the proxy http://127\.0\.0\.1:9"):
        fetch("http://data.invalid/f", tmp_path)


def test_unusable_proxy(server: FaultServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy variable that httpx cannot use is the user's to mend, and no traceback."""
    monkeypatch.setenv("ALL_PROXY", "gopher://127.0.0.1:9")
    with pytest.raises(DownloadError, match="ALL_PROXY"):
        fetch(server.add("/f", BODY), tmp_path)


def test_unusable_certificates(server: FaultServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is a file of certificates that is not there."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    with pytest.raises(DownloadError, match="SSL_CERT_FILE"):
        fetch(server.add("/f", BODY), tmp_path)


def test_passwords_are_not_shown() -> None:
    """A URL with a password must not end up in a log."""
    assert shown("https://me:secret@host/a@b") == "https://host/a@b"
    assert shown("https://host/a@b") == "https://host/a@b"


@pytest.mark.slow
def test_interrupt_ends_at_once_and_keeps_what_came(server: FaultServer, tmp_path: Path) -> None:
    """Ctrl-C while a server is silent must not wait for its timeout, and the next run goes on."""
    url = server.add("/f", BODY, Fault(stall_at=100_000))
    script = (
        "import sys; from pathlib import Path; from graphprep.datasets.download.download import *\n"
        "from graphprep.datasets.download.http_client import *\n"
        f"download([RemoteFile(url={url!r}, name='f')], Path({str(tmp_path)!r}), policy=RetryPolicy(read_timeout=60))"
    )
    running = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, preexec_fn=heed_interrupts)
    try:
        assert server.stalled.wait(20)
        time.sleep(0.3)
        started = time.monotonic()
        os.kill(running.pid, signal.SIGINT)
        _, words = running.communicate(timeout=50)
        assert time.monotonic() - started < 30
        assert b"KeyboardInterrupt" in words
    finally:
        running.kill()
        running.wait()
    assert (tmp_path / ".partial-f").stat().st_size == 100_000
    assert fetch(url, tmp_path) == BODY
    assert server.asked("/f")[1]["Range"] == "bytes=100000-"


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    faults=st.lists(
        st.builds(
            Fault,
            cut_at=st.none() | st.integers(0, 5000),
            ranges=st.booleans(),
            etag=st.sampled_from(["", None, 'W/"x"']),
            last_modified=st.sampled_from([None, LAST_MODIFIED]),
            status=st.sampled_from([None, None, None, 500, 429]),
            wrong_range=st.booleans(),
            length=st.just(True),
        ),
        max_size=8,
    ),
    size=st.integers(1, 5000),
)
def test_any_run_of_faults_gives_the_file(
    tmp_path_factory: pytest.TempPathFactory, server: FaultServer, faults: list[Fault], size: int
) -> None:
    """Whatever a server does before it recovers, what gets the name is the file and nothing else."""
    folder = tmp_path_factory.mktemp("any")
    server.faults.clear()
    url = server.add("/f", BODY[:size], *faults)
    many = RetryPolicy(attempts=20, first_delay=0.0, read_timeout=2)
    before = threading.active_count()
    assert fetch(url, folder, many) == BODY[:size]
    assert threading.active_count() <= before + 2  # the server's own threads


ENDLESS = {
    "100 Continue": (Fault(before=b"HTTP/1.1 100 Continue\r\n\r\n" * 100, pause=0.002), "no end of its headers"),
    "header lines": (Fault(first=b"HTTP/1.1 200 OK\r\n", before=b"X-More: and more\r\n" * 1000), "broke"),
    "header that drips": (Fault(before=b"H", pause=0.02), "no end of its headers"),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_headers_without_end(kind: str, server: FaultServer, tmp_path: Path) -> None:
    """Guards against answers that never begin: bytes come in time, so no read timeout ended them."""
    fault, words = ENDLESS[kind]
    server.always = fault
    limit = 60 if kind == "header lines" else 0.3  # of lines there is one in bytes as well
    policy = replace(QUICK, attempts=2, read_timeout=30, headers_timeout=limit)
    with pytest.raises(DownloadError, match=f"{words}.* 2 times in a row"):
        fetch(server.url("/a"), tmp_path, policy)


def test_redirects_without_end(server: FaultServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against redirects to ever new places: they are followed so many times and no further."""
    for number in range(30):
        server.add(f"/{number}", b"", Fault(status=302, headers={"Location": f"/{number + 1}"}))
    monkeypatch.setattr(transfer, "MAX_REDIRECTS", 4)
    with pytest.raises(DownloadError, match="redirects more than 4 times"):
        fetch(server.url("/0"), tmp_path)
    assert len(server.requests) == 5


def test_redirect_whose_body_has_no_end(server: FaultServer, tmp_path: Path) -> None:
    """Guards against the body of a redirect, which was read to its end, and into memory, before the next request."""
    server.add("/b", b"data")
    server.add("/a", b"", Fault(status=302, headers={"Location": "/b"}, stall_at=1))
    assert fetch(server.url("/a"), tmp_path, replace(QUICK, read_timeout=30)) == b"data"
    assert server.stalled.is_set()


def test_length_of_a_piece_that_drips(server: FaultServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a chunked body whose first length has no end: nothing of the file comes, yet bytes do."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;"
    server.always = Fault(first=head, before=b"x", pause=0.02)
    monkeypatch.setattr(Transfer, "_time_for_a_piece", lambda self: 0.4)
    with pytest.raises(DownloadError, match=r"nothing of the file came in 0\.4 s"):
        fetch(server.url("/a"), tmp_path, replace(QUICK, attempts=1, read_timeout=30))
