"""Counts what makes the host wait for the simulated device, by the line of the trainer that causes it.

A GPU works after the call that starts the work. A call that needs its results makes the host wait until all work before
it is done, and the GPU then idles until the host has started more. The kinds:

    item            a number that Python reads: item, bool, int, float, equal
    to host         a copy to the host's memory
    from host       a copy from the host's memory that returns when it is done: without non_blocking, or not from pinned
                    memory
    size            a result whose size depends on the values: nonzero, a boolean mask as index, unique, bincount,
                    repeat_interleave without output_size
    sparse tensor   no wait: a sparse tensor is made, which has to be kept where it is used again

`torch.cuda.set_sync_debug_mode` reports the first four on a GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

Kind = Literal["item", "to host", "from host", "size", "sparse tensor"]

_ROOT = Path(__file__).parents[2]
_TRAINER, _OWN = f"{_ROOT / 'trainer'}/", f"{Path(__file__).parent}/"


class Wait(NamedTuple):
    """One of these calls."""

    kind: Kind
    file: str
    """Below the root of the checkout; `autograd` where no Python function is running."""
    line: int
    function: str
    """With its class; of comprehensions the function that they are in."""

    def __str__(self) -> str:
        return f"{self.kind} at {self.file}:{self.line} in {self.function}"


_logs: list[list[Wait]] = []


@contextmanager
def recorded() -> Iterator[list[Wait]]:
    """The calls within the block, of all threads, in their order."""
    log: list[Wait] = []
    _logs.append(log)
    try:
        yield log
    finally:
        _logs.remove(log)


def record(kind: Kind) -> None:
    """Record a call of the code that is running."""
    if _logs:
        wait = Wait(kind, *_call_site())
        for log in _logs:
            log.append(wait)


def _call_site() -> tuple[str, int, str]:
    """File, line and function of the innermost frame in trainer/; else of the innermost one that is not torch's."""
    frame, outside = sys._getframe(1), None
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_TRAINER) or (outside is None and file.startswith(str(_ROOT)) and "/torch/" not in file):
            own_helper = file.startswith(_OWN) and Path(file).name in ("waits.py", "device.py")
            if not own_helper:
                function = frame.f_code.co_qualname.partition(".<locals>.<")[0]
                site = file.removeprefix(f"{_ROOT}/"), frame.f_lineno, function
                if file.startswith(_TRAINER):
                    return site
                outside = site
        frame = frame.f_back
    return outside or ("autograd", 0, "")
