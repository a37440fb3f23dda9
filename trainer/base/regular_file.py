"""A file that is about to be read is a regular file, or a link to one; anything else is refused before it is opened.

To open a named pipe waits until somebody writes to it, and a device such as /dev/zero has no end.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def regular_file(path: Path) -> Path:
    """`path`, which can be opened without a wait and has an end: `regular_file(path).read_bytes()`.

    Raises:
        OSError: it is a folder, pipe, socket or device, or is not there; `strerror` says which.
    """
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", str(path))
    return path
