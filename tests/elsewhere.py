"""An executor like one of other processes, for tests that are to be quick."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from graphprep.system.payload import SharedPayload


class Elsewhere:
    """Does the work here, but all that goes there and comes back is pickled on the way; see `Executor`."""

    is_elsewhere = True

    def __init__(self, times: Callable[[Any], int] = lambda _: 1) -> None:
        """`times`: how often a piece is done, as a worker may be lost after its work."""
        self.times = times
        self.done: list[str] = []
        """the names of the functions, one for each time"""

    def map(self, function: Callable[..., Any], pieces: Sequence[Any], *shared: object, needed: int) -> Iterator[Any]:
        assert needed > 0
        sent = pickle.dumps(SharedPayload(shared))
        for piece in pieces:
            found = None
            for _ in range(self.times(piece)):
                there: Callable[..., Any] = pickle.loads(pickle.dumps(function))
                found = there(pickle.loads(pickle.dumps(piece)), *pickle.loads(sent).content)
                self.done.append(function.__name__)
            yield pickle.loads(pickle.dumps(found))
