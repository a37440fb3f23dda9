"""Paths of downloads, stores and caches: GRAPHPREP_HOME holds raw/NAME/, stores/NAME.zarr and caches/NAME/LABEL/."""

from __future__ import annotations

import os
import re
from pathlib import Path

from graphprep.errors import CacheError, DatasetError, UsageError, beginning
from graphprep.system.files.output_path import kind_of, require_short
from graphprep.system.nearest import nearest
from graphprep.system.progress import say

NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def home() -> Path:
    """GRAPHPREP_HOME, or the platform's user cache folder."""
    if path := os.environ.get("GRAPHPREP_HOME"):
        try:
            folder = Path(path).expanduser()
        except RuntimeError as error:
            raise UsageError(f"GRAPHPREP_HOME={path} names the home of an unknown user; give a folder") from error
        if folder.is_symlink() and not folder.exists():
            raise UsageError(
                f"GRAPHPREP_HOME={path} is a link to {folder.readlink()}, which is not there; give a folder"
            )
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"GRAPHPREP_HOME={path} is no folder but a file; give a folder")
        return folder
    import platformdirs

    return Path(platformdirs.user_cache_dir("graphprep"))


def checked_name(name: str, what: str) -> str:
    """`name` if it can be the name of a folder.

    Raises:
        UsageError: it is empty, starts with a dot, has a separator in it, or is very long.
    """
    if not NAME_PATTERN.fullmatch(name):
        raise UsageError(f"{what} {beginning(name)!r} cannot name a folder: use letters, digits, '.', '_' and '-'")
    require_short(name, what)
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
    """The store that a person means: a URL, a path, or the name of a dataset that has been fetched or imported.

    A plain name is that of a store in GRAPHPREP_HOME, and only without one a folder's; `./NAME` is always a folder.

    Raises:
        DatasetError: there is neither such a folder nor such a store.
    """
    if is_url(name_or_store):
        return name_or_store
    path = Path(name_or_store).expanduser()
    name = name_or_store.rstrip("/")
    if named_store(name_or_store):
        say_which(path, store_path(name))
        return store_path(name)
    if name_or_store and path.is_dir():
        return path
    if NAME_PATTERN.fullmatch(name):
        raise DatasetError(
            f"there is no store of {name!r} in {home() / 'stores'} and no folder of that name"
            f"{nearest(name, stores_here())}; run `graphprep fetch {name}` or `graphprep import` first"
        )
    raise DatasetError(f"{name_or_store} is not a folder; give a store's path or the name of a fetched dataset")


def named_store(text: str) -> bool:
    """Whether `text` is the plain name of a store in GRAPHPREP_HOME."""
    name = text.rstrip("/")
    return NAME_PATTERN.fullmatch(name) is not None and store_path(name).is_dir()


def find_cache(text: str) -> Path | None:
    """The cache that a person means by NAME/LABEL or by a path, or None if there is no such folder.

    NAME/LABEL is a cache in GRAPHPREP_HOME, and only without one a folder; `./NAME/LABEL` is always a folder.
    """
    path = Path(text).expanduser()
    name, _, label = text.rstrip("/").partition("/")
    if NAME_PATTERN.fullmatch(name) and NAME_PATTERN.fullmatch(label):
        named = cache_path(name, label)
        if named.is_dir():
            say_which(path, named)
            return named
    return path if text and path.is_dir() else None


def require_cache(text: str) -> Path:
    """`find_cache`, or an error.

    Raises:
        CacheError: there is no such folder.
    """
    cache = find_cache(text)
    if cache is None:
        raise CacheError(
            f"{text} is neither a folder nor NAME/LABEL of a cache in {home() / 'caches'}"
            f"{nearest_cache(text)}; run `graphprep partition` first"
        )
    return cache


def nearest_cache(text: str) -> str:
    """`nearest` for a cache's name; a dataset's name alone resembles its first cache."""
    names = caches_here()
    own = [name for name in names if name.startswith(f"{text.rstrip('/')}/")]
    return f" (did you mean {own[0]!r}?)" if own else nearest(text, names)


def say_which(requested: Path, named: Path) -> None:
    """Say that what is in GRAPHPREP_HOME is taken, where a folder of this name could be meant too."""
    if requested.is_dir() and kind_of(requested) is not None and not requested.samefile(named):
        say(f"{requested} is taken for {named}; give ./{requested} for the {kind_of(requested)} in the current folder")


def stores_here() -> list[str]:
    """The names of all stores in GRAPHPREP_HOME."""
    return sorted(path.name.removesuffix(".zarr") for path in (home() / "stores").glob("*.zarr"))


def caches_here() -> list[str]:
    """All caches in GRAPHPREP_HOME, as NAME/LABEL."""
    folders = sorted((home() / "caches").glob("*/*/"))
    return [f"{path.parent.name}/{path.name}" for path in folders if not path.name.startswith(".")]
