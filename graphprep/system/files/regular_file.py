"""A file that is about to be read is a regular file, or a link to one; anything else is refused before it is opened.

To open a named pipe waits until somebody writes to it, and a device such as /dev/zero has no end. A pipe (`<(zcat x)`,
/dev/stdin) can be read once only, and most files here are read several times: checked, hashed, then parsed.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotRegularFileError(OSError):
    """A pipe, socket or device in place of a file; `strerror` says which and what to do."""


def regular_file(path: Path) -> Path:
    """`path`, which can be opened without a wait and has an end: `regular_file(path).read_bytes()`.

    Raises:
        NotRegularFileError: it is a pipe, a socket or a device, or a link to one.
        FileNotFoundError: it is not there; of a link, `strerror` names where it leads.
        OSError: it is a folder, or the operating system does not say what it is.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError as problem:
        if os.path.islink(path):
            words = f"it is a link to {os.readlink(path)}, which is not there"
            raise FileNotFoundError(errno.ENOENT, words, str(path)) from problem
        raise
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    for is_kind, kind in KINDS:
        if is_kind(mode):
            words = f"it is {kind}, not a regular file; write what it gives to a file and name that"
            raise NotRegularFileError(errno.EINVAL, words, str(path))
    return path
