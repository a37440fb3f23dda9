"""Google Drive's page that asks "download anyway?" in place of a file that is too large to be scanned for viruses.

The page has a form (in older pages a link) whose fields lead to the file; the token among them is made for each
request, so no URL written down beforehand always works. Other pages say that the file was fetched too often today, or
that it is not public: these end the download with their reason.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

from graphprep.errors import DownloadError

if TYPE_CHECKING:
    import httpx

HOSTS = ("drive.google.com", "drive.usercontent.google.com", "docs.google.com")
LONGEST_PAGE = 1 << 20
MOST_PAGES = 3
"""confirmations that one file may ask for; each costs a request"""
REASONS = (
    ("quota", "it was fetched too often today; try again tomorrow"),
    ("too many users", "it was fetched too often today; try again tomorrow"),
    ("sign in", "it is not public"),
    ("need access", "it is not public"),
    ("not found", "it is not there any more"),
)


def is_page(url: str, response: httpx.Response) -> bool:
    """Whether a successful answer for `url` is one of Google Drive's pages instead of the file."""
    return urlsplit(url).hostname in HOSTS and response.headers.get("content-type", "").startswith("text/html")


async def page_of(response: httpx.Response) -> str:
    """The page's text; what is longer than any such page is cut off."""
    text = bytearray()
    async for piece in response.aiter_raw():
        text += piece
        if len(text) > LONGEST_PAGE:
            break
    return text[:LONGEST_PAGE].decode("utf-8", "replace")


def confirmed(url: str, page: str) -> str:
    """The URL that the page's button leads to.

    Args:
        url: that was asked for, of Google Drive.
        page: its answer.

    Raises:
        DownloadError: the page has no such button, or it leads away from Google Drive.
    """
    button = _Button()
    button.feed(page)
    target = button.target()
    if target is None:
        words = re.sub(r"<[^>]*>", " ", page).lower()
        reason = next((reason for sign, reason in REASONS if sign in words), "it gives a page without a button")
        raise DownloadError(f"Google Drive does not hand out {url}: {reason}, or use --mirror")
    target = urljoin(url, target)
    parts = urlsplit(target)
    if parts.scheme != "https" or parts.hostname not in HOSTS:
        raise DownloadError(f"Google Drive's page for {url} leads to {target[:200]}, another host; use --mirror")
    file_id = dict(parse_qsl(urlsplit(url).query)).get("id")
    if file_id is not None and dict(parse_qsl(parts.query)).get("id", file_id) != file_id:
        raise DownloadError(f"Google Drive's page for {url} leads to another file; use --mirror")
    return target


class _Button(HTMLParser):
    """Finds the form with the id `download-form` and its hidden fields, or a link with `confirm=`."""

    def __init__(self) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self.link: str | None = None
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "form" and values.get("id") in ("download-form", "downloadForm"):
            self.action, self._inside = values.get("action", ""), True
        elif tag == "input" and self._inside and values.get("name"):
            self.fields[values["name"]] = values.get("value", "")
        elif tag == "a" and "confirm=" in values.get("href", ""):
            self.link = values["href"]

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False

    def target(self) -> str | None:
        if self.action is None:
            return self.link
        base, _, query = self.action.partition("?")
        return f"{base}?{urlencode({**dict(parse_qsl(query)), **self.fields})}"
