"""Reading a store or a cache again when another process replaced it meanwhile, in place of calling it damaged.

A folder is replaced by two renames (`publish`): the old one is moved aside and removed, the new one takes its name. A
reader in between finds no folder, or files of both. So whoever fails looks whether the folder is still the one that it
began with, and begins again if it is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from graphprep.errors import GraphprepError
from graphprep.system import progress
from graphprep.system.files.atomic import REPLACED_PREFIX
from graphprep.system.files.output_path import ZARR_JSON

Result = TypeVar("Result")
Identity = tuple[int, ...] | None
TRIES = 5
WAIT_S, LONGEST_WAIT_S = 0.02, 2.0
"""between looks, and in all, for a folder whose old one has been moved aside"""


def read_again_if_replaced(folder: Callable[[], Path | None], read: Callable[[], Result]) -> Result:
    """What `read` gives; it is called again, up to TRIES times in all, if it failed while the folder was replaced.

    Args:
        folder: finds what `read` reads; None where that is no folder on a local disk, which is not replaced by renames.
        read: opens the folder anew each time.

    Raises:
        GraphprepError, OSError: what `read` raised while the folder stayed the same.
    """
    for left in reversed(range(TRIES)):
        place = folder()
        before = _identity(place)
        try:
            return read()
        except (GraphprepError, OSError):
            place = place or folder()
            if place is None or not left or (_identity_when_there(place) == before):
                raise
            progress.say(f"{place} was replaced while it was read; it is read again")
    raise AssertionError  # the last try returns or raises


def _identity(folder: Path | None) -> Identity:
    """Of a folder and of its root's metadata; None if there is none."""
    if folder is None:
        return None
    try:
        here, root = folder.stat(), (folder / ZARR_JSON).stat()
    except OSError:
        return None
    return (here.st_dev, here.st_ino, root.st_ino, root.st_mtime_ns)


def _identity_when_there(folder: Path) -> Identity:
    """The same, after waiting for a folder that is about to get its name."""
    aside = folder.with_name(REPLACED_PREFIX + folder.name)
    until = time.monotonic() + LONGEST_WAIT_S
    while not folder.exists() and aside.exists() and time.monotonic() < until:
        time.sleep(WAIT_S)
    return _identity(folder)
