"""Where things lie: GRAPHPREP_HOME holds raw/NAME/, stores/NAME.zarr and caches/NAME/LABEL/."""

from __future__ import annotations

import os
import re
from pathlib import Path

from graphprep.errors import CacheError, DatasetError, UsageError

NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def home() -> Path:
    """GRAPHPREP_HOME, or the platform's user cache folder."""
    if path := os.environ.get("GRAPHPREP_HOME"):
        try:
            folder = Path(path).expanduser()
        except RuntimeError as error:
            raise UsageError(f"GRAPHPREP_HOME={path} names the home of an unknown user; give a folder") from error
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"GRAPHPREP_HOME={path} is a file; give a folder")
        return folder
    import platformdirs

    return Path(platformdirs.user_cache_dir("graphprep"))


def checked_name(name: str, what: str) -> str:
    """`name` if it can be the name of a folder.

    Raises:
        UsageError: it is empty, starts with a dot, or has a separator in it.
    """
    if not NAME_PATTERN.fullmatch(name):
        raise UsageError(f"{what} {name!r} cannot name a folder: use letters, digits, '.', '_' and '-'")
    return name


def raw_folder(name: str) -> Path:
    """Where the files of dataset `name` are downloaded to."""
    return home() / "raw" / checked_name(name, "dataset")


def store_path(name: str) -> Path:
    """Where the graph store of dataset `name` lies."""
    return home() / "stores" / f"{checked_name(name, 'dataset')}.zarr"


def cache_path(name: str, label: str) -> Path:
    """Where the partition cache of dataset `name` for the topology called `label` lies."""
    return home() / "caches" / checked_name(name, "dataset") / checked_name(label, "topology")


def notes_folder() -> Path:
    """Where it is kept what finished stages of whole runs were made from."""
    return home() / "notes"


def is_url(text: str) -> bool:
    """Whether `text` is an fsspec URL rather than a path."""
    return "://" in text


def find_store(name_or_store: str) -> Path | str:
    """The store that a person means: a URL, a path, or the name of a dataset that has been fetched.

    Raises:
        DatasetError: there is neither such a folder nor such a store.
    """
    if is_url(name_or_store):
        return name_or_store
    given = Path(name_or_store).expanduser()
    if name_or_store and given.is_dir():
        return given
    name = name_or_store.rstrip("/")
    if NAME_PATTERN.fullmatch(name):
        named = store_path(name)
        if named.is_dir():
            return named
        raise DatasetError(
            f"there is no store of {name!r} in {home() / 'stores'} and no folder of that name; "
            f"run `graphprep fetch {name}` or `graphprep import` first"
        )
    raise DatasetError(f"{name_or_store} is not a folder; give a store's path or the name of a fetched dataset")


def find_cache(text: str) -> Path | None:
    """The cache that a person means by a path or by NAME/LABEL, or None if there is no such folder."""
    given = Path(text).expanduser()
    if text and given.is_dir():
        return given
    name, _, label = text.rstrip("/").partition("/")
    if NAME_PATTERN.fullmatch(name) and NAME_PATTERN.fullmatch(label):
        named = cache_path(name, label)
        if named.is_dir():
            return named
    return None


def require_cache(text: str) -> Path:
    """`find_cache`, or an error.

    Raises:
        CacheError: there is no such folder.
    """
    found = find_cache(text)
    if found is None:
        raise CacheError(
            f"{text} is neither a folder nor NAME/LABEL of a cache in {home() / 'caches'}; "
            "run `graphprep partition` first"
        )
    return found
