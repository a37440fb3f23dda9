"""The known word that an unknown one resembles, for errors that end with a suggestion."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: object, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the known word that `word` resembles, else an empty string."""
    close = difflib.get_close_matches(str(word), list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
