"""What the shell completes: names of datasets, stores, caches and topologies. Nothing here may fail or be slow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

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


def _stores() -> Iterable[str]:
    from graphprep.system.home import stores_here

    return stores_here()


def _caches() -> Iterable[str]:
    from graphprep.system.home import caches_here

    return caches_here()


def _presets() -> Iterable[str]:
    from graphprep.topology import preset_names

    return preset_names()


datasets, stores, caches = _beginning(_of_the_registry), _beginning(_stores), _beginning(_caches)
stores_and_caches, topologies = _beginning(lambda: [*_stores(), *_caches()]), _beginning(_presets)
