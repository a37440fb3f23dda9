"""The error tree: every error a user can cause, one sentence each, with its exit status.

Each class is also a built-in type, so that library users may catch what they already know.
A message says what is wrong, where, and what to do about it.
"""

from __future__ import annotations

import errno
import os


class GraphprepError(Exception):
    """Base of all errors that this package raises on purpose."""

    exit_status = 1

    def __str__(self) -> str:
        # KeyError quotes its argument and OSError prints its errno; a user wants the sentence.
        return " ".join(str(arg) for arg in self.args)


class UsageError(GraphprepError, ValueError):
    """Options that do not go together or name nothing."""

    exit_status = 2


class DatasetError(GraphprepError, ValueError):
    """A dataset, a file of it, or a graph store is not what it should be."""

    exit_status = 3


class UnknownDatasetError(DatasetError, KeyError):
    """A name that the registry does not list."""


class DownloadError(DatasetError, ConnectionError):
    """A file could not be fetched, or what came is not the file."""


class TopologyError(GraphprepError, ValueError):
    """A topology or another configuration file is wrong."""

    exit_status = 4


class PipelineError(GraphprepError, ValueError):
    """A pipeline's file is wrong."""

    exit_status = 4


class PartitionError(GraphprepError, RuntimeError):
    """A graph cannot be partitioned as asked."""

    exit_status = 5


class CacheError(GraphprepError, OSError):
    """A partition cache is damaged, unfinished, or of another kind."""

    exit_status = 6


class TrainingError(GraphprepError, RuntimeError):
    """Training could not start or did not finish."""

    exit_status = 7


def beginning(name: str) -> str:
    """A name for a message: all of it, or its first 40 letters."""
    return name if len(name) <= 60 else f"{name[:40]}..."


def operating_system_sentence(error: OSError) -> str:
    """What the operating system refused, where, and what to do."""
    where = f" at {error.filename}" if error.filename else ""
    if error.errno == errno.ENOSPC or "Not enough free space" in str(error):
        return f"the disk is full{where}; free some space and run the same command again"
    if error.errno == errno.ENAMETOOLONG:
        name = max(os.fsdecode(error.filename or "").split("/"), key=len)
        return f"the name {beginning(name)!r}, of {len(os.fsencode(name)):,} bytes, is too long for a file; shorten it"
    if error.errno in (errno.ENOTDIR, errno.ENOENT, errno.EEXIST):
        return f"{error.strerror}{where}; check GRAPHPREP_HOME and the paths that were given"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"no permission{where}; set GRAPHPREP_HOME or --out to a folder that you may write to"
    return f"the operating system says: {error.strerror or error}{where}"
