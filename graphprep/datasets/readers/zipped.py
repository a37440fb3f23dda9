"""The files of another reader inside one zip archive, which is how DGL publishes most of its datasets.

The members that the reader needs are copied to a folder beside the archive, under the names that the registry gives
them and no others; the reader reads there, and the folder is removed. What the reader has mapped stays readable. A
killed run leaves the folder, which is marked as unfinished by its name, and the next run begins with an empty one.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from graphprep.core.types import RawGraph
from graphprep.datasets.entry import DatasetEntry
from graphprep.datasets.formats.checks import file_of, reading
from graphprep.datasets.reader_options import ReaderOptions, options_of
from graphprep.errors import DatasetError
from graphprep.system.files.archive import COPY_BYTES, Archive
from graphprep.system.files.atomic import PARTIAL_PREFIX
from graphprep.system.files.scratch import NoRoomError, no_room, require_room
from graphprep.system.files.verify import FileCheck
from graphprep.system.home import NAME_PATTERN

FOLDER = f"{PARTIAL_PREFIX}unpacked"


class ZippedOptions(ReaderOptions):
    """What is in the archive and who reads it."""

    reader: str
    """another reader of this package"""
    members: tuple[str, ...] = Field(min_length=1)
    """the files that it reads; they may lie in a folder of the archive"""
    name: str | None = None
    """the dataset's name in the names of its files, where it is another than the registry's"""
    options: dict[str, Any] = Field(default_factory=dict)
    """the other reader's own"""

    @field_validator("members")
    @classmethod
    def _plain_names(cls, members: tuple[str, ...]) -> tuple[str, ...]:
        for member in members:
            if not NAME_PATTERN.fullmatch(member):
                raise ValueError(f"{member!r} is no plain file name")
        return members


def file_check(entry: DatasetEntry, name: str) -> FileCheck | None:  # noqa: ARG001
    """Reads all members to their ends and looks for those that are needed."""
    return partial(_check, options_of(entry, ZippedOptions).members)


def read(folder: Path, entry: DatasetEntry) -> RawGraph:
    """The graph, as the other reader reads it.

    Raises:
        DatasetError: a member is missing or damaged, or the reader refuses it.
        NoRoomError: the disk has no room for the members.
    """
    options = options_of(entry, ZippedOptions)
    path, place = file_of(folder, entry), folder / FOLDER
    with no_room(folder):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
    try:
        with reading(path), Archive(path) as archive:
            for member in options.members:
                _unpack(archive, member, place)
        return _read_unpacked(place, path, entry, options)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _check(members: tuple[str, ...], path: Path) -> None:
    with Archive(path) as archive:
        for member in members:
            archive.size(member)
        archive.check()


def _unpack(archive: Archive, member: str, place: Path) -> None:
    require_room(place, archive.size(member))
    with archive.open(member) as packed, (place / member).open("xb") as plain:
        while piece := packed.read(COPY_BYTES):
            with no_room(place):
                plain.write(piece)


def _read_unpacked(place: Path, path: Path, entry: DatasetEntry, options: ZippedOptions) -> RawGraph:
    from graphprep.datasets import readers
    from graphprep.datasets.entry import FileEntry

    inner = entry.model_copy(
        update={
            "name": options.name or entry.name,
            "source": options.reader,
            "options": options.options,
            "files": tuple(FileEntry(url=f"file:///{member}") for member in options.members),
        }
    )
    try:
        return readers.read(place, inner)
    except NoRoomError:
        raise
    except DatasetError as problem:
        raise DatasetError(str(problem).replace(f"{place}/", f"{path}, member ")) from problem
