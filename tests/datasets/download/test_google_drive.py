"""Google Drive's pages in place of files: followed to the file, within limits, or an error with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphprep.datasets.download.download import download
from graphprep.datasets.download.google_drive import LONGEST_PAGE, confirmed
from graphprep.datasets.download.http_client import RetryPolicy
from graphprep.errors import DownloadError
from graphprep.system.files.verify import RemoteFile
from tests.fault_server import Fault, FaultServer

HOST = "drive.usercontent.google.com"
URL = f"https://{HOST}/download?id=1crm&confirm=t"
BODY = b"\x93NUMPY" + bytes(200_000)
PAGE = {"Content-Type": "text/html; charset=utf-8"}
QUICK = RetryPolicy(first_delay=0.01)


def form(action: str = f"https://{HOST}/download", **fields: str) -> str:
    values = {"id": "1crm", "export": "download", "confirm": "t", "uuid": "12ab-&", **fields}
    inputs = "".join(f'<input type="hidden" name="{name}" value="{value}">' for name, value in values.items())
    return (
        '<!DOCTYPE html><html><body><form action="/search"><input name="q" value="x"></form>'
        f'<form id="download-form" action="{action}" method="get"><input type="submit" value="Download anyway"/>'
        f"{inputs}</form></body></html>"
    )


def page(text: str) -> Fault:
    return Fault(body=text.encode(), headers=PAGE, etag=None)


def fetched(server: FaultServer, folder: Path, *, sha256: str | None = None) -> Path:
    files = [RemoteFile(url=URL, name="feats.npy", sha256=sha256)]
    return download(files, folder, mirror=server.url(""), policy=QUICK)[0].path


PATH = f"/{HOST}/download?id=1crm&confirm=t"
CONFIRMED = f"/{HOST}/download?id=1crm&export=download&confirm=t&uuid=12ab-%26"


def test_the_form_is_followed(tmp_path: Path) -> None:
    """Files above 100 MB come only after a form with a token that is made for each request."""
    with FaultServer() as server:
        server.add(PATH, BODY, page(form(uuid="12ab-&amp;")))
        server.add(CONFIRMED, BODY)
        assert fetched(server, tmp_path).read_bytes() == BODY
        assert [request.path for request in server.requests] == [PATH, CONFIRMED]
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".lock"] == ["feats.npy"]


def test_the_link_is_followed(tmp_path: Path) -> None:
    """Older pages have a link and no form."""
    with FaultServer() as server:
        server.add(PATH, BODY, page('<html><a href="/download?id=1crm&amp;confirm=Xy_1">Download anyway</a></html>'))
        server.add(f"/{HOST}/download?id=1crm&confirm=Xy_1", BODY)
        assert fetched(server, tmp_path).read_bytes() == BODY


def test_a_cut_body_is_resumed_where_the_form_leads(tmp_path: Path) -> None:
    """What has come must not be thrown away because the page comes again in the next run."""
    with FaultServer() as server:
        server.add(PATH, BODY, page(form(uuid="12ab-&amp;")), page(form(uuid="12ab-&amp;")))
        server.add(CONFIRMED, BODY, *[Fault(cut_at=100_000), Fault(status=404)])
        with pytest.raises(DownloadError):
            fetched(server, tmp_path)
        assert fetched(server, tmp_path).read_bytes() == BODY
        assert server.asked(CONFIRMED)[-1]["Range"] == "bytes=100000-"


def test_pages_without_end(tmp_path: Path) -> None:
    """A form that leads to a form, and so on, must not be followed for ever."""
    with FaultServer() as server:
        server.always = page(form())
        with pytest.raises(DownloadError, match="again and again"):
            fetched(server, tmp_path)
        assert len(server.requests) <= 5


def test_a_page_without_length_is_not_read_for_ever(tmp_path: Path) -> None:
    """A page is some kilobytes; what is longer is none."""
    with FaultServer() as server:
        server.add(PATH, BODY, page("<html>" + "x" * (3 * LONGEST_PAGE)))
        with pytest.raises(DownloadError, match="without a button"):
            fetched(server, tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<html>Sorry, too many users have viewed or downloaded this file recently.</html>", "too often today"),
        ("<html><title>Google Drive - <b>Quota</b> exceeded</title></html>", "too often today"),
        ("<html>You need access</html>", "not public"),
        ("<html></html>", "without a button"),
        ("<html>" + form(action="https://example.org/download"), "another host"),
        ("<html>" + form(action="http://drive.google.com/download"), "another host"),
        ("<html>" + form(id="2other"), "another file"),
        ('<html><a href="javascript:confirm=1">x</a>', "another host"),
    ],
)
def test_pages_that_lead_nowhere(text: str, words: str) -> None:
    """Each says why, and what to do; a page must not send us to another host or another file."""
    with pytest.raises(DownloadError, match=words) as caught:
        confirmed(URL, text)
    assert "--mirror" in str(caught.value)


def test_pages_of_other_hosts_are_no_forms(tmp_path: Path) -> None:
    """A login page of anyone else is an HTML page in place of the file, as before."""
    with FaultServer() as server:
        server.add("/h/a.npy", BODY, page(form()), page(form()))
        with pytest.raises(DownloadError, match="HTML page"):
            download([RemoteFile(url="https://h/a.npy", name="a.npy")], tmp_path, mirror=server.url(""), policy=QUICK)


def test_html_that_is_the_file(tmp_path: Path) -> None:
    """Google Drive names the type of what it sends: data is never text/html there, and is taken as it comes."""
    with FaultServer() as server:
        server.add(PATH, BODY, Fault(headers={"Content-Type": "application/octet-stream"}))
        assert fetched(server, tmp_path).read_bytes() == BODY
        assert len(server.requests) == 1
