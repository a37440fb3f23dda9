"""An executor like one of other processes, for tests that are to be quick."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from graphprep.mapped_files import Parcel


@dataclass(frozen=True)
class Elsewhere:
    """Does the work here, but all that goes there and comes back is pickled on the way; see `Executor`."""

    is_elsewhere: bool = True

    def map(
        self,
        function: Callable[..., Any],
        pieces: Sequence[Any],
        *shared: object,
        needed: int,
    ) -> Iterator[Any]:
        sent = pickle.dumps(Parcel(shared).sent())
        for piece in pieces:
            there: Callable[..., Any] = pickle.loads(pickle.dumps(function))
            found = there(pickle.loads(pickle.dumps(piece)), *pickle.loads(sent).content)
            yield pickle.loads(pickle.dumps(found))
