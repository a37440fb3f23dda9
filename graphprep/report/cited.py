"""A value of a JSON document that knows its path there, so that what a page shows can be checked against the JSON.

`Cited(summary)["quality"]["ranks"]` walks into a summary; a number's HTML carries the value and its path:

    <data value="457" data-path="quality.ranks.0.nodes">457</data>
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from markupsafe import Markup

from graphprep.report.formats import Format
from graphprep.system.printable import printable


class Cited:
    """A value of a JSON document and the keys that lead to it."""

    def __init__(self, value: Any, path: tuple[str, ...] = ()) -> None:
        self.value, self.path = value, path

    def __getitem__(self, key: str | int) -> Cited:
        return Cited(self.value[key], (*self.path, str(key)))

    def get(self, keys: str) -> Cited:
        """The value at `keys`, several joined by dots; None where one of them is missing."""
        cited = self
        for key in keys.split("."):
            if isinstance(cited.value, dict) and key in cited.value:
                cited = cited[key]
            elif isinstance(cited.value, list) and cited.value:
                cited = cited[int(key)]
            else:
                return Cited(None)
        return cited

    def __contains__(self, key: object) -> bool:
        return key in self.value

    def __len__(self) -> int:
        return len(self.value or ())

    def __bool__(self) -> bool:
        return bool(self.value)

    def __iter__(self) -> Iterator[Cited]:
        """The entries of a list or of an object."""
        return (self[key] for key in (self.value if isinstance(self.value, dict) else range(len(self.value))))

    @property
    def last_key(self) -> str:
        """The key of this entry in the object that holds it."""
        return self.path[-1]

    @property
    def is_number(self) -> bool:
        return isinstance(self.value, (int, float)) and not isinstance(self.value, bool)

    def to_text(self, format_: Format = str) -> str:
        """The value as people read it: a number by `format_`, `-` for none."""
        if self.is_number:
            return format_(self.value)
        if isinstance(self.value, bool):
            return "yes" if self.value else "no"
        if isinstance(self.value, list):
            return ", ".join(self.value) or "-"
        return "-" if self.value is None else str(self.value)

    def to_html(self, format_: Format = str) -> Markup:
        """A number with its value and path; other text as a name, which may hold anything."""
        text = printable(self.to_text(format_))
        if not self.is_number:
            return Markup('<span class="name">{}</span>').format(text)
        path = printable(".".join(self.path))
        return Markup('<data value="{}" data-path="{}">{}</data>').format(json.dumps(self.value), path, text)

    def formatted(self, format_: Format) -> Cited:
        """The same value, which is shown by this format whatever that of its column."""
        return _Formatted(self.value, self.path, format_)

    def __html__(self) -> Markup:
        """What a template shows of a value that it gives to no filter."""
        return self.to_html()


class _Formatted(Cited):
    def __init__(self, value: Any, path: tuple[str, ...], format_: Format) -> None:
        super().__init__(value, path)
        self._format = format_

    def to_text(self, format_: Format = str) -> str:  # noqa: ARG002 - its own format counts
        return super().to_text(self._format)
