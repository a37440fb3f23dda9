"""Readers of published datasets: each turns the files of one kind of source into a RawGraph.

A reader is a module with the function `read` of `Source`, and with a function `file_check` where the ending of a file's
name does not say how it is checked. To add one, write the module and name it in `READERS`; the contract tests then run
on it.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from graphprep.core.types import RawGraph
from graphprep.errors import DatasetError
from graphprep.system import memory
from graphprep.system.files.verify import FileCheck, RemoteFile

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


def file_check(entry: DatasetEntry, name: str) -> FileCheck | None:
    """A function that reads the file of `entry` called `name` to its end, and raises DatasetError if it is not whole.

    It is the reader's own, else that of the name's ending.
    """
    own = getattr(reader(entry.source), "file_check", None)
    if own is not None:
        return cast("FileCheck | None", own(entry, name))
    from graphprep.datasets.formats.arrays import check_npz, map_npy
    from graphprep.datasets.formats.json_file import load_json

    checks: dict[str, FileCheck] = {
        ".npz": check_npz,
        ".zip": check_npz,
        ".npy": partial(map_npy, kinds="biuf", shape=(None, None)),
        ".json": load_json,
    }
    return checks.get(Path(name).suffix)


def remote_files(entry: DatasetEntry) -> tuple[RemoteFile, ...]:
    """The files of `entry` for `graphprep.datasets.download.download.download`, each with its reader's check."""
    return tuple(
        RemoteFile(
            url=file.url,
            name=file.file_name,
            bytes=file.bytes,
            sha256=file.sha256,
            check=file_check(entry, file.file_name),
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
