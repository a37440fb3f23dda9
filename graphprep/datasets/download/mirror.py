"""Where a file comes from: its own URL, a mirror of it, or a path on this machine.

A mirror holds files under HOST/PATH of their own URLs: https://example.org/a/b.gz is MIRROR/example.org/a/b.gz. It is
a folder, or a server that serves such a folder, and what it gives is verified like everything else. A query belongs to
the name, as wget saves it (`download?id=1crms`): where it says which file is meant, there is no other way to tell them
apart. A folder may leave it away where it has no `id` (`IMDB_processed.zip?dl=1`).
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from urllib.parse import parse_qs, unquote, urlsplit

from graphprep.datasets.download.http_errors import shown
from graphprep.errors import UsageError


def origin(url: str, mirror: str | Path | None) -> str | Path:
    """Where to fetch `url` from: a URL, or a path on this machine.

    Raises:
        UsageError: `mirror` is neither a folder nor an http(s) or file URL; `url` climbs out of a mirror with `..`.
    """
    parts = urlsplit(url)
    if mirror is None:
        return _file_path(url) if parts.scheme == "file" else url
    if parts.scheme == "file":
        raise UsageError(f"{url} is a file on this machine; --mirror does not apply to it")
    host = parts.netloc.rpartition("@")[2]
    scheme = urlsplit(str(mirror)).scheme if "://" in str(mirror) else ""
    if ".." in PurePosixPath(unquote(parts.path)).parts:
        raise UsageError(f"{shown(url)} contains '..', which no mirror can follow")
    match scheme:
        case "http" | "https":
            query = f"?{parts.query}" if parts.query else ""
            return f"{str(mirror).rstrip('/')}/{host}{parts.path}{query}"
        case "" | "file":
            base = _file_path(str(mirror)) if scheme else Path(mirror).expanduser()
            plain = base / host / unquote(parts.path).lstrip("/")
            full = plain.with_name(f"{plain.name}?{parts.query.replace('/', '%2F')}") if parts.query else plain
            return full if full.exists() or "id" in parse_qs(parts.query) else plain
        case _:
            raise UsageError(f"--mirror takes a folder or an http, https or file URL, not {shown(str(mirror))}")


def _file_path(url: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        raise UsageError(f"{url} names a host; a file URL begins with file:/// and then the path")
    return Path(unquote(parts.path))
