"""Which format the first bytes of a file show, where its name does not say it.

Files of these formats lie around as .txt, .xml, .net or .gr, and as lists of edges they would be full of bad node ids.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from graphprep.datasets.formats.text_file import UTF8_MARK, first_bytes
from graphprep.errors import DatasetError

Beginning = Literal["graphml", "gexf", "gml", "pajek", "json", "dimacs"]
READ_BYTES = 4096
SIGNS: tuple[tuple[Beginning, re.Pattern[bytes]], ...] = (
    ("graphml", re.compile(rb"(?s:<(?:.*[<:])?graphml[\s>])")),
    ("gexf", re.compile(rb"(?s:<(?:.*[<:])?gexf[\s>])")),
    ("gml", re.compile(rb"(?:[^\[\]<{]*\n)?\s*graph\s*\[")),
    ("pajek", re.compile(rb"(?:%[^\n]*\n\s*)*\*(?:network|vertices)\b", re.IGNORECASE)),
    ("json", re.compile(rb"\{\s*\"|\[\s*[\[{]")),
    ("dimacs", re.compile(rb"(?:c(?:[ \t][^\n]*)?\r?\n\s*)*p[ \t]+\w+[ \t]+\d+[ \t]+\d+\s")),
)
"""what the first bytes match after blanks"""


def format_by_beginning(path: Path) -> Beginning | None:
    """The format that the first bytes show, after unpacking; None for any other, or if they cannot be read."""
    try:
        head = first_bytes(path, READ_BYTES).removeprefix(UTF8_MARK).lstrip()
    except DatasetError:  # which the reader of text will raise again, with what to do
        return None
    return next((format for format, sign in SIGNS if sign.match(head)), None)
