"""One run at a time in a folder, since two runs that write to one folder remove each other's files.

The lock is the kernel's (flock), so it ends with the process that holds it, also after kill -9. On a shared file system
with locks (NFS 4, Lustre with -o flock) it works between machines, too.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from trainer.base.errors import TrainingError
from trainer.config.options import Options

log = logging.getLogger("trainer")

LOCK = ".lock"
_LOCKED_BY_ANOTHER = (errno.EWOULDBLOCK, errno.EACCES)


@contextlib.contextmanager
def folders_locked(options: Options) -> Iterator[None]:
    """Lock the folders that a run writes to until the block ends. One rank of a run has to.

    Args:
        options: their `checkpoint`, `output` and `trace` folders, which are made where they are not there.

    Raises:
        TrainingError: another run has locked one of them, or it cannot be made or written to.
    """
    seen: set[str] = set()
    with contextlib.ExitStack() as stack:
        for flag, folder in (
            ("--checkpoint", options.checkpoint),
            ("--output", options.output),
            ("--trace", options.trace),
        ):
            if folder is not None and (where := os.path.realpath(folder)) not in seen:
                seen.add(where)
                stack.enter_context(_locked(flag, Path(folder)))
        yield


@contextlib.contextmanager
def _locked(flag: str, folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise TrainingError(f"{flag} {folder} cannot be written to ({error.strerror}); give another") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _LOCKED_BY_ANOTHER:
                holder = os.read(descriptor, 200).decode(errors="replace").strip() or "unknown process"
                raise TrainingError(
                    f"another run ({holder}) writes to {flag} {folder}; wait for its end, or give another folder"
                ) from error
            log.warning("%s has no file locks (%s): let no other run write there", folder, error.strerror)
        else:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        yield
    finally:
        os.close(descriptor)
