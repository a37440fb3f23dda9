"""Pages taken apart for tests: the figures that they show, and the text that is none."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

WORDLESS = {"svg", "style", "script", "title"}
NAMED = "name"
SCALES = {
    "%": 0.01,
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "B": 1.0,
    "kB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "": 1.0,
}


class Page(HTMLParser):
    """`figures` holds (path, value, text) of every figure that is marked, `words` all other text but names."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.figures: list[tuple[str, Any, str]] = []
        self.words: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self._open: list[tuple[str, bool]] = []
        self._figure: tuple[str, Any] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag in ("meta", "link", "br"):
            return
        self._open.append((tag, tag in WORDLESS or found.get("class") == NAMED))
        if tag == "data":
            self._figure = (str(found["data-path"]), json.loads(str(found["value"])))
        if tag == "svg":
            self.images.append(found)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass
        if tag == "data":
            self._figure = None

    def handle_data(self, data: str) -> None:
        if any(quiet for _, quiet in self._open):
            return
        if self._figure is not None:
            self.figures.append((*self._figure, data))
        elif data.strip():
            self.words.append(data)


def at(document: Any, path: str) -> Any:
    """The value at a dotted path; keys may hold dots themselves."""
    if not path:
        return document
    if isinstance(document, list):
        head, _, rest = path.partition(".")
        return at(document[int(head)], rest)
    key = next(key for key in document if path == key or path.startswith(f"{key}."))
    return at(document[key], path[len(key) + 1 :])


def number_in(text: str) -> float:
    """The number that a person reads in a figure's text, in units of one."""
    found = re.fullmatch(r"(-?[\d,.]+(?:e[+-]?\d+)?)\s?([%A-Za-z]*)", text)
    assert found is not None, text
    return float(found[1].replace(",", "")) * SCALES[found[2]]
