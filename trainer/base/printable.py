"""Text from files and names, made safe to print: control characters become escapes such as \\x1b.

A terminal takes ESC and its like as commands. Line ends and tabs stay; marks that turn the direction of writing do not.
"""

from __future__ import annotations

import logging
import re

_UNSAFE = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")


def printable(text: str) -> str:
    """`text` without characters that a terminal obeys; each is written as Python would escape it."""
    return _UNSAFE.sub(lambda found: ascii(found[0])[1:-1], text)


class PrintableFormatter(logging.Formatter):
    """Gives log lines, and tracebacks with them, through `printable`."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))
