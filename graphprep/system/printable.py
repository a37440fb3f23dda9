"""Text from files, servers and names, made safe to print: control characters become escapes such as \\x1b.

A terminal takes ESC and its like as commands: to move the cursor, to rename the window, to hide what was printed. What
a person wrote may well contain line ends and tabs, so these stay. Marks that turn the direction of writing are escaped
too, since with them one name can look like another.
"""

from __future__ import annotations

import re

_UNSAFE = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")


def printable(text: str) -> str:
    """`text` without characters that a terminal obeys; each is written as Python would escape it."""
    return _UNSAFE.sub(lambda match: ascii(match[0])[1:-1], text)
