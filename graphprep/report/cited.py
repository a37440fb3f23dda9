"""A figure of a summary that knows where it stands there, so that what a page shows can be checked against the JSON.

`Cited(summary)["quality"]["ranks"]` walks into a summary; `shown` gives HTML that carries the value and its path:

    <data value="457" data-path="quality.ranks.0.nodes">457</data>
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from html import escape
from typing import Any

from graphprep.system.printable import printable


class Html(str):
    """Text that is HTML already; all other text is escaped where it gets into a page."""

    __slots__ = ()


class Cited:
    """A value of a JSON document and the keys that lead to it."""

    def __init__(self, value: Any, path: tuple[str, ...] = ()) -> None:
        self.value, self.path = value, path

    def __getitem__(self, key: str | int) -> Cited:
        return Cited(self.value[key], (*self.path, str(key)))

    def get(self, key: str, default: Cited | None = None) -> Cited:
        """The entry of an object, or `default`, or nothing."""
        return self[key] if key in self.value else default or Cited(None)

    def __contains__(self, key: str) -> bool:
        return key in self.value

    def __bool__(self) -> bool:
        return bool(self.value)

    def __iter__(self) -> Iterator[Cited]:
        """The rows of a list."""
        return (self[position] for position in range(len(self.value)))

    def items(self) -> Iterator[tuple[str, Cited]]:
        """The entries of an object."""
        return ((key, self[key]) for key in self.value)

    def shown(self, text: Callable[[Any], str]) -> Html:
        """The value as `text` writes it, marked with itself and its path."""
        raw = escape(json.dumps(self.value).replace("\x7f", "\\u007f"))
        path = escape(printable(".".join(self.path)))
        return Html(f'<data value="{raw}" data-path="{path}">{escape(printable(text(self.value)))}</data>')


def count(value: float) -> str:
    """A whole number."""
    return f"{value:,.0f}"


def share(value: float) -> str:
    """A part of one, in per cent."""
    return f"{100 * value:.1f} %"


def three(value: float) -> str:
    """A number of size one."""
    return f"{value:.3f}"


def plain(value: float) -> str:
    """A number as short as it can be told."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
