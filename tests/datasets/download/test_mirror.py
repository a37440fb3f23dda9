"""Where files come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphprep.datasets.download.mirror import origin
from graphprep.errors import UsageError


def test_origin() -> None:
    """The mapping to a mirror is a promise to those who build one."""
    assert origin("https://h:81/a/b?c=d", "http://m/x/") == "http://m/x/h:81/a/b?c=d"
    assert origin("https://me:pw@h/a%20b", "/m") == Path("/m/h/a b")
    assert origin("https://h/a", None) == "https://h/a"
    assert origin("file:///a%20b", None) == Path("/a b")
    assert origin("https://h/a", "~/m") == Path.home() / "m" / "h" / "a"


@pytest.mark.parametrize(
    ("url", "mirror", "words"),
    [
        ("https://h/a", "s3://bucket", "not s3://bucket"),
        ("https://h/../../etc/passwd", "/m", r"'\.\.'"),
        ("https://h/%2e%2e/%2e%2e/etc/passwd", "/m", r"'\.\.'"),
        ("file://host/a", None, "names a host"),
        ("file:///a", "/m", "does not apply"),
    ],
)
def test_origin_refuses(url: str, mirror: str | None, words: str) -> None:
    """A mirror of an unknown kind, or a URL that climbs out of it, must be an error before anything starts."""
    with pytest.raises(UsageError, match=words):
        origin(url, mirror)


def test_queries_in_a_folder(tmp_path: Path) -> None:
    """All of Google Drive's files are called `download`: only the query tells them apart."""
    folder = tmp_path / "drive.usercontent.google.com"
    url = "https://drive.usercontent.google.com/download?id=1a&confirm=t"
    assert origin(url, tmp_path) == folder / "download?id=1a&confirm=t"
    folder.mkdir()
    (folder / "download").touch()
    assert origin(url, tmp_path) == folder / "download?id=1a&confirm=t"


def test_queries_that_say_nothing(tmp_path: Path) -> None:
    """`?dl=1` only asks for the file; both names are fine in a folder."""
    url = "https://www.dropbox.com/s/x/IMDB_processed.zip?dl=1"
    plain = tmp_path / "www.dropbox.com/s/x/IMDB_processed.zip"
    assert origin(url, tmp_path) == plain
    plain.parent.mkdir(parents=True)
    full = plain.with_name("IMDB_processed.zip?dl=1")
    full.touch()
    assert origin(url, tmp_path) == full
