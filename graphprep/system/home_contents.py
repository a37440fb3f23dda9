"""The contents of GRAPHPREP_HOME: raw downloads, stores, caches, and what runs that were cut short left behind.

    raw/NAME/               downloads                       .partial-FILE, FILE.bad, .partial-unpacked/, .replaced-NAME
    stores/NAME.zarr        stores                          .partial-NAME.zarr, -edges, -features, .replaced-NAME.zarr
    caches/NAME/LABEL/      caches                          .partial-KEY, .replaced-LABEL; in them .partial-WHAT
    notes/*.json            what stages were made from      notes of what is no more
    anywhere                                                .WHAT.lock of a holder that was killed

Everything says whose locks protect it: as long as one of them is held, a process works on it. Links are no part of
this, and folders of other names are left alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from graphprep.system import home
from graphprep.system.files.atomic import LOCK_SUFFIX, PARTIAL_PREFIX, REPLACED_PREFIX, lock_file
from graphprep.system.files.output_path import kind_of
from graphprep.system.files.regular_file import regular_file
from graphprep.system.home import NAME_PATTERN

Kind = Literal["raw", "store", "cache", "leftover"]
BAD = ".bad"
SAMPLING_TOPOLOGY = "sampling-topology"
"""the file in a cache that samplers map, which one of them makes"""
SCRATCH_ENDINGS = ("-edges", "-features")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A file or folder that could be removed by itself."""

    kind: Kind
    name: str
    """dataset, or dataset/label; of leftovers the path below GRAPHPREP_HOME"""
    path: Path
    bytes: int
    locks: tuple[Path, ...]
    """whose locks are held by the process that works on it"""


def contents() -> list[Item]:
    """All items, by room and name."""
    return [*_raw(), *_stores(), *_caches(), *_notes()]


def _raw() -> Iterator[Item]:
    for path in _listed(home.home() / "raw"):
        if path.name.startswith(REPLACED_PREFIX):
            yield _leftover(path, home.store_path(path.name.removeprefix(REPLACED_PREFIX)))
    for folder in _folders(home.home() / "raw"):
        locks = (folder / "download", home.store_path(folder.name))
        yield _item("raw", folder.name, folder, locks)
        for path in _listed(folder):
            if path.name.startswith(PARTIAL_PREFIX) or BAD in path.suffixes or _is_lock(path):
                yield _leftover(path, *locks)


def _stores() -> Iterator[Item]:
    folder = home.home() / "stores"
    for path in _listed(folder):
        name = path.name.removesuffix(".zarr")
        if name != path.name and NAME_PATTERN.fullmatch(name) and kind_of(path) in ("store", "event-store"):
            yield _item("store", name, path, (path, *_locks_of_caches(name)))
        elif path.name.startswith(PARTIAL_PREFIX):
            target = path.name.removeprefix(PARTIAL_PREFIX)
            for ending in SCRATCH_ENDINGS:
                target = target.removesuffix(ending)
            yield _leftover(path, folder / target)
        elif path.name.startswith(REPLACED_PREFIX):
            yield _leftover(path, folder / path.name.removeprefix(REPLACED_PREFIX))
        elif _is_lock(path):
            yield _leftover(path, _locked_by(path))


def _locks_of_caches(name: str) -> tuple[Path, ...]:
    """What is being made from a store."""
    return tuple(_locked_by(path) for path in _listed(home.home() / "caches" / name) if _is_lock(path))


def _caches() -> Iterator[Item]:
    for folder in _folders(home.home() / "caches"):
        for path in _listed(folder):
            if path.name.startswith(PARTIAL_PREFIX):
                yield _leftover(path, path)
            elif path.name.startswith(REPLACED_PREFIX):
                yield _leftover(path, folder / path.name.removeprefix(REPLACED_PREFIX))
            elif _is_lock(path):
                yield _leftover(path, _locked_by(path))
            elif kind_of(path) in ("cache", "events"):
                topology = path / SAMPLING_TOPOLOGY
                yield _item("cache", f"{folder.name}/{path.name}", path, (path, topology))
                for left in (topology.with_name(PARTIAL_PREFIX + topology.name), lock_file(topology)):
                    if left.is_file() and not left.is_symlink():
                        yield _leftover(left, topology)


def _notes() -> Iterator[Item]:
    for path in _listed(home.notes_folder()):
        if path.name.startswith(PARTIAL_PREFIX) or (path.suffix == ".json" and not _is_of_something(path)):
            yield _leftover(path)


def _is_of_something(note: Path) -> bool:
    """Whether what a note is about is still there."""
    try:
        return Path(json.loads(regular_file(note).read_bytes())["output"]).exists()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _is_lock(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(LOCK_SUFFIX) and path == lock_file(_locked_by(path))


def _locked_by(file: Path) -> Path:
    """What a lock's file is the lock of."""
    return file.with_name(file.name[1:].removesuffix(LOCK_SUFFIX))


def _folders(room: Path) -> Iterator[Path]:
    """The folders of a room that are named after datasets."""
    return (path for path in _listed(room) if path.is_dir() and NAME_PATTERN.fullmatch(path.name))


def _listed(folder: Path) -> list[Path]:
    """What lies in a folder, without links; nothing if it is a link itself or not there."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if not path.is_symlink())


def _item(kind: Kind, name: str, path: Path, locks: tuple[Path, ...]) -> Item:
    return Item(kind=kind, name=name, path=path, bytes=_size(path), locks=locks)


def _leftover(path: Path, *locks: Path) -> Item:
    return _item("leftover", str(path.relative_to(home.home())), path, locks)


def _size(path: Path) -> int:
    """Bytes of a file, or of all files below a folder; what vanishes meanwhile counts for nothing."""
    if not path.is_dir():
        return _bytes_of(path)
    return sum(_bytes_of(Path(root, name)) for root, _, names in os.walk(path) for name in names)


def _bytes_of(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
