"""What the shell completes: names of datasets, stores, caches and topologies. Nothing here may fail or be slow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import click

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def _beginning(names: Callable[[], Iterable[str]]) -> Completer:
    """Complete with those names that begin with what is typed; an error gives no names."""

    def complete(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        found: list[str] = []
        with contextlib.suppress(Exception):
            found += [name for name in names() if name.startswith(typed)]
        return found

    return complete


def _of_the_registry() -> Iterable[str]:
    from graphprep.datasets.registry import load_registry

    return load_registry()


def _stores() -> Iterator[str]:
    from graphprep.system.home import home

    return (path.stem for path in sorted((home() / "stores").glob("*.zarr")))


def _caches() -> Iterator[str]:
    from graphprep.system.home import home

    folders = sorted((home() / "caches").glob("*/*/"))
    return (f"{path.parent.name}/{path.name}" for path in folders if not path.name.startswith("."))


def _stores_and_caches() -> Iterator[str]:
    yield from _stores()
    yield from _caches()


def _presets() -> Iterable[str]:
    from graphprep.topology import preset_names

    return preset_names()


datasets, stores, caches = _beginning(_of_the_registry), _beginning(_stores), _beginning(_caches)
stores_and_caches, topologies = _beginning(_stores_and_caches), _beginning(_presets)
