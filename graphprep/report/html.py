"""The elements of a page: one self-contained file in light and dark, for wide and narrow windows and for paper.

Style and script lie beside this file and go into the page; the script does nothing but sort tables. Wide tables and
drawings scroll within themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from graphprep.report.cited import Html
from graphprep.system.printable import printable

Text = str | Html

LONG_TABLE = 24
"""Rows, beyond which a table scrolls within itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A table cell with more than its text."""

    text: Text
    share: float | None = None
    """From 0 to 1: a bar behind the text."""
    heat: float | None = None
    """From 0 to 1: how strongly the cell is coloured."""
    is_marked: bool = False
    """The row's cell that the eye should find first."""


def page(title: str, body: Iterable[Html]) -> str:
    """A whole document."""
    here = files("graphprep.report")
    style, script = (here.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(printable(title))}</title>\n<style>\n{style}</style></head>\n<body><main>\n"
        + "\n".join(body)
        + f"\n</main>\n<script>\n{script}</script></body></html>\n"
    )


def tag(name: str, *children: Text, **attributes: str) -> Html:
    """An element; text that is not Html is escaped. `class_` is the attribute `class`, `_` stands for `-`."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(printable(value))}"' for key, value in attributes.items()
    )
    return Html(f"<{name}{written}>{joined(*children)}</{name}>")


def joined(*children: Text) -> Html:
    """Pieces of text, one after another."""
    return Html("".join(child if isinstance(child, Html) else escape(printable(child)) for child in children))


def name(text: str) -> Html:
    """A name that a person or a file gave to something."""
    return tag("span", text, class_="name")


def header(title: Text, *notes: Text) -> Html:
    """The top of a page."""
    return tag("header", tag("h1", title), *(tag("p", note, class_="note") for note in notes))


def cards(figures: Sequence[tuple[Text, Text]]) -> Html:
    """Figures with what they are, the most important first."""
    items = (tag("li", tag("b", figure), tag("span", label)) for figure, label in figures)
    return tag("ul", *items, class_="cards")


def section(title: str, *parts: Html, note: Text = "") -> Html:
    """A heading and what stands below it."""
    told = (tag("p", note, class_="note"),) if note else ()
    return tag("section", tag("h2", title), *told, *parts)


def figure(drawing: Html, caption: Text, *, is_wide: bool = False) -> Html:
    """A drawing with what it shows; a wide one takes the whole width and scrolls where that is not there."""
    return tag(
        "figure",
        tag("div", drawing, class_="drawing"),
        tag("figcaption", caption),
        class_="wide" if is_wide else "plain",
    )


def figures(*drawings: Html) -> Html:
    """Drawings side by side where there is room."""
    return tag("div", *drawings, class_="figures")


def table(title: str, columns: Sequence[Text], rows: Sequence[Sequence[Text | Cell]], *, sorts: bool = True) -> Html:
    """A table with a caption; a click on a heading sorts by that column."""
    heads = (tag("th", tag("button", text, type="button") if sorts and text else text, scope="col") for text in columns)
    body = (tag("tr", *(_cell(cell, is_first=not position) for position, cell in enumerate(row))) for row in rows)
    whole = tag(
        "table",
        tag("caption", title),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *body),
        class_="sorts" if sorts else "fixed",
    )
    kind = "scroll tall" if len(rows) > LONG_TABLE else "scroll"
    return tag("div", whole, class_=kind, tabindex="0", role="region", aria_label=title)


def bullets(lines: Iterable[Text]) -> Html:
    """A list of sentences."""
    return tag("ul", *(tag("li", text) for text in lines), class_="told")


def _cell(cell: Text | Cell, *, is_first: bool) -> Html:
    element, attributes = ("th", {"scope": "row"}) if is_first else ("td", {})
    if not isinstance(cell, Cell):
        return tag(element, cell, **attributes)
    classes = [
        word
        for word, holds in (("bar", cell.share is not None), ("heat", cell.heat is not None), ("hot", cell.is_marked))
        if holds
    ]
    amount = cell.share if cell.share is not None else cell.heat
    if classes:
        attributes["class_"] = " ".join(classes)
    if amount is not None:
        attributes["style"] = f"--part: {amount:.3f}"
    return tag(element, cell.text, **attributes)
