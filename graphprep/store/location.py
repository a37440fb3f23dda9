"""The location of a store: a local path or an fsspec URL, what exists there, and its files.

Object stores cannot rename: a store is complete once its root attributes exist, which are written last. Writing one
removes everything with the URL as its prefix. So a store is written only where nothing exists, or a store, or an
incomplete store: a group without attributes.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from graphprep.errors import DatasetError, GraphprepError, UsageError
from graphprep.system import home
from graphprep.system.files.output_path import ZARR_JSON, checked_target, kind_of
from graphprep.system.files.regular_file import regular_file

ExistingKind = Literal["nothing", "store", "other"]
KIND = "store"


def store_place(out: Path | str | None, name: str) -> Path | str:
    """The path or URL of a store that is to be written.

    Args:
        out: the path or URL of --out; None for stores/NAME.zarr in GRAPHPREP_HOME.
        name: of the dataset.

    Raises:
        UsageError: nothing may be written there, or the URL cannot be used.
    """
    if out is None:
        return checked_target(home.store_path(name))
    if not home.is_url(str(out)):
        return checked_target(Path(out))
    url = str(out).rstrip("/")
    _, path = _file_system(url)
    if path.strip("/").count("/") < 1:
        raise UsageError(f"--out {out} is a whole bucket; give a URL below it, such as {url}/NAME")
    return url


def existing_kind(place: Path | str) -> ExistingKind:
    """What exists at the location of a store; "nothing" also for an empty folder and an incomplete store at a URL.

    Raises:
        DatasetError: a URL cannot be reached.
    """
    if isinstance(place, Path):
        if not place.exists() or (place.is_dir() and not any(place.iterdir())):
            return "nothing"
        return "store" if kind_of(place) == KIND else "other"
    with translate_remote_errors(place):
        file_system, path = _file_system(place)
        file_system.invalidate_cache()
        if not file_system.exists(f"{path}/{ZARR_JSON}"):
            return "other" if file_system.exists(path) and file_system.ls(path, detail=False) else "nothing"
        try:
            attributes = json.loads(file_system.cat_file(f"{path}/{ZARR_JSON}")).get("attributes", {})
        except (ValueError, AttributeError, RecursionError):
            return "other"
        if not attributes:
            return "nothing"
        return "store" if attributes.get("graphprep_kind") == KIND else "other"


def work_beside(place: Path | str, name: str) -> Path:
    """The local path next to which temporary files of a store are created, and whose lock is that of the store."""
    return place if isinstance(place, Path) else home.store_path(name)


@contextmanager
def translate_remote_errors(place: Path | str, *, unless: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Translate the errors of a remote file system into one sentence; local errors are not changed.

    Args:
        place: a path or URL.
        unless: exceptions that the caller handles itself.

    Raises:
        DatasetError: a URL cannot be read or written.
    """
    try:
        yield
    except GraphprepError:
        raise
    except unless:
        raise
    except Exception as problem:
        is_of_this_machine = isinstance(problem, MemoryError) or getattr(problem, "errno", None) == errno.ENOSPC
        if is_of_this_machine or not home.is_url(str(place)):
            raise
        reason = f"{type(problem).__name__}: {problem}".strip(": ")
        raise DatasetError(
            f"{place} cannot be reached ({reason}); check the address, the network and the credentials"
        ) from problem


def read_file(place: Path | str, name: str) -> bytes:
    """The content of a file of a store.

    Args:
        place: path or URL of the store.
        name: of the file, relative to the store, with / between folders.

    Raises:
        OSError: there is no such file.
        DatasetError: a URL cannot be reached.
    """
    if not home.is_url(str(place)):
        return regular_file(Path(place) / name).read_bytes()
    with translate_remote_errors(place, unless=(FileNotFoundError,)):
        file_system, path = _file_system(str(place))
        return bytes(file_system.cat_file(f"{path.rstrip('/')}/{name}"))


def write_file(place: Path | str, name: str, content: bytes) -> None:
    """Write a file of a store; arguments as for `read_file`.

    Raises:
        DatasetError: a URL cannot be written to.
    """
    if not home.is_url(str(place)):
        (Path(place) / name).write_bytes(content)
        return
    with translate_remote_errors(place):
        file_system, path = _file_system(str(place))
        file_system.pipe_file(f"{path.rstrip('/')}/{name}", content)


def can_list(place: Path | str) -> bool:
    """Whether the files there can be listed; a web server does not list them."""
    return not str(place).startswith(("http://", "https://"))


def files_below(place: Path | str) -> set[str]:
    """The names of all files of a store, as `read_file` takes them.

    Raises:
        DatasetError: a URL cannot be reached.
    """
    if not home.is_url(str(place)):
        found = (path for path in Path(place).rglob("*") if path.is_symlink() or not path.is_dir())
        return {path.relative_to(place).as_posix() for path in found}
    with translate_remote_errors(place):
        file_system, path = _file_system(str(place))
        file_system.invalidate_cache()
        folder = path.rstrip("/") + "/"
        return {str(name).removeprefix(folder) for name in file_system.find(path)}


def _file_system(url: str) -> tuple[Any, str]:
    """fsspec's file system of a URL, and the path in it.

    Raises:
        UsageError: the protocol is unknown, or its package is not installed.
    """
    from fsspec.core import url_to_fs

    try:
        file_system, path = url_to_fs(url)
    except ImportError as problem:
        raise UsageError(f"{url} cannot be used: {problem}; install the package that it names") from problem
    except ValueError as problem:
        raise UsageError(f"{url} cannot be used: {problem}; give a path, or a URL that fsspec knows") from problem
    return file_system, str(path)
