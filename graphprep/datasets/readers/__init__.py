"""Readers: the files of one kind of source -> a RawGraph. One reader a file, loaded when it is needed.

A reader is a module with the two functions of `Source`. To add one, write the module and name it in `READERS`; the
contract tests then run on it.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from graphprep.core.types import RawGraph
from graphprep.errors import DatasetError
from graphprep.system import memory
from graphprep.system.verify import FileCheck, RemoteFile

if TYPE_CHECKING:
    from graphprep.datasets.entry import DatasetEntry

READERS = (
    "aminer",
    "digits",
    "edge_list",
    "fraud",
    "geom_gcn",
    "gnn_benchmark",
    "graphsaint",
    "heterophilous",
    "karate",
    "magnn",
    "musae",
    "ogb",
    "planetoid",
    "ppi",
    "reddit",
    "wikics",
    "zipped",
)
"""Modules of this package, by the name that `source` has in the registry."""


class Source(Protocol):
    """What a reader module offers."""

    def file_check(self, entry: DatasetEntry, name: str) -> FileCheck | None:
        """A function that reads the file of `entry` called `name` to its end; it raises DatasetError, as the end of a
        sentence, if the file is not whole."""
        ...

    def read(self, folder: Path, entry: DatasetEntry) -> RawGraph:
        """The graph of `entry`, whose files lie verified in `folder`.

        Raises:
            DatasetError: a file is not what it should be, or the files contradict each other.
        """
        ...


def reader(name: str) -> Source:
    """The reader called `name`.

    Raises:
        DatasetError: there is none.
    """
    if name not in READERS:
        raise DatasetError(f"no reader is called {name!r}; there are {', '.join(READERS)}")
    return cast(Source, importlib.import_module(f"graphprep.datasets.readers.{name}"))


def remote_files(entry: DatasetEntry) -> tuple[RemoteFile, ...]:
    """The files of `entry` for `graphprep.datasets.download.download.download`, each with its reader's check."""
    source = reader(entry.source)
    return tuple(
        RemoteFile(
            url=file.url,
            name=file.file_name,
            bytes=file.bytes,
            sha256=file.sha256,
            check=source.file_check(entry, file.file_name),
        )
        for file in entry.files
    )


def read(folder: Path, entry: DatasetEntry, *, memory_limit: int | None = None) -> RawGraph:
    """The graph of `entry` from its files in `folder`, by the reader that it names; the notes say its protocol.

    Args:
        folder: of the files.
        entry: that lists them.
        memory_limit: bytes that the process may use; an array that is read whole and takes more is an error. None for
            what is available.

    Raises:
        DatasetError: as `Source.read`.
    """
    with memory.limited(memory_limit):
        raw = reader(entry.source).read(folder, entry)
    return replace(raw, notes={"protocol": entry.protocol, **raw.notes})
