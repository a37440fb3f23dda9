"""May a store or a cache be written here? Asked before any work, since what lies there may be somebody's own."""

from __future__ import annotations

import json
import os
from pathlib import Path

from graphprep.errors import UsageError, beginning
from graphprep.system.files.regular_file import regular_file

ZARR_JSON = "zarr.json"
LONGEST_NAME = 220
"""bytes in UTF-8: file systems take 255, of which `.partial-NAME.zarr-features` and the like need some"""


def checked_target(path: Path, *, called: str = "--out") -> Path:
    """The absolute path of a store, cache or export that is to be written.

    Args:
        path: as it was given.
        called: the option or argument that gave it.

    Raises:
        UsageError: the path is a file, a link, the current folder, has no name or a very long one, or lies in
            something that is no folder or in another store or cache.
    """
    if not str(path) or path.name in ("", ".", ".."):
        raise UsageError(f"{called} {str(path)!r} has no name of its own; give the path of a folder to make")
    require_short(path.name.removesuffix(".zarr"), called)
    target = path.expanduser().absolute()
    if target.is_symlink():
        raise UsageError(f"{called} {path} is a link; give the folder itself")
    try:
        if target.exists() and not target.is_dir():
            raise UsageError(f"{called} {path} is a file; give the path of a folder to make")
        for parent in target.parents:
            if parent.exists() and not parent.is_dir():
                raise UsageError(f"{called} {path} cannot be made: {parent} is no folder; give another path")
            if kind_of(parent) is not None:
                raise UsageError(
                    f"{called} {path} lies inside {parent}, which graphprep wrote; give a place outside of it"
                )
    except OSError as error:
        raise UsageError(f"{called} {path} cannot be a folder: {error.strerror}; give another path") from error
    if target == Path.cwd():
        raise UsageError(f"{called} {path} is the current folder; give a folder below it")
    return target


def checked_file(out: Path, *, replace: bool = True, called: str = "--out") -> Path:
    """The absolute path of a file that is to be written; `called` is the option that gave it.

    Raises:
        UsageError: the place is no file in a folder that exists, or there is a file that was not to be replaced.
    """
    if not out.name or out.is_dir() or not out.absolute().parent.is_dir():
        raise UsageError(f"{called} {str(out)!r} is no file in a folder that exists; give another path")
    if out.exists() and not replace:
        raise UsageError(f"{called} {out} exists already; give another path, or --replace")
    return out.absolute()


def require_short(name: str, what: str) -> None:
    """Make sure that the names of locks and of unfinished work, which are made of `name`, fit a file system.

    Args:
        name: of a file or folder, without its path.
        what: it is the name of, for the message.

    Raises:
        UsageError: it is longer than `LONGEST_NAME`.
    """
    if (size := len(os.fsencode(name))) > LONGEST_NAME:
        raise UsageError(
            f"{what}: the name {beginning(name)!r} has {size:,} bytes; give one of at most {LONGEST_NAME} bytes, since "
            "file systems take 255 and the names of locks and unfinished work are longer"
        )


def kind_of(folder: Path) -> str | None:
    """ "store", "cache", "event-store" or "events" (an event cache) for a folder that graphprep wrote, else None."""
    try:
        document = json.loads(regular_file(folder / ZARR_JSON).read_bytes())
        return str(document["attributes"]["graphprep_kind"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def may_replace(target: Path, kind: str) -> bool:
    """Whether a folder may be replaced by a new one of this kind: it is one already, or it is empty."""
    return not target.exists() or kind_of(target) == kind or not any(target.iterdir())
