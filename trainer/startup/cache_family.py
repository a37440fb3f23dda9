"""A folder of caches of one graph in different numbers of parts, of which a run takes that for its number of ranks.

So the same command goes on when torchrun has fewer machines left, or gets more: `--nnodes 1:4` starts all ranks again
with another number, and they resume from the checkpoint on the cache for as many. No torch here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from trainer.base.errors import CacheError, OptionError
from trainer.config.options import Options
from trainer.data.manifest import is_finished


def with_cache_for(options: Options, ranks: int | None) -> tuple[Options, str | None]:
    """The options with the cache for a number of ranks, where they name a folder of caches.

    Args:
        options: of the run.
        ranks: how many there are; None where as many are started as the cache has parts.

    Returns:
        the options, unchanged where they name one cache; and what is to be said of the choice, None for nothing.

    Raises:
        CacheError: no cache of the folder is for so many ranks, or two are.
        OptionError: it has several and the number of ranks does not decide.
    """
    folder = Path(options.cache)
    if is_finished(folder) or not folder.is_dir():
        return options, None
    by_parts: dict[int, list[Path]] = {}
    for cache, parts in _caches_in(folder):
        by_parts.setdefault(parts, []).append(cache)
    if not by_parts:
        return options, None
    known = ", ".join(f"{parts} ({found[0].name})" for parts, found in sorted(by_parts.items()))
    if ranks is None:
        raise OptionError(f"{folder} has caches for several numbers of ranks: {known}; give one of them")
    found = by_parts.get(ranks, [])
    if not found:
        raise CacheError(
            f"{folder} has no cache for {ranks} rank(s), only for {known}; make one with graphprep cache split or merge"
        )
    if len(found) > 1:
        names = " and ".join(cache.name for cache in sorted(found)[:2])
        raise CacheError(f"{folder} has several caches for {ranks} rank(s), as {names}; keep one of them there")
    return replace(options, cache=str(found[0])), f"{found[0].name} is the cache of {folder} for {ranks} rank(s)"


def _caches_in(folder: Path) -> Iterator[tuple[Path, int]]:
    """The finished caches in a folder, each with its number of parts."""
    for cache in sorted(folder.iterdir()):
        if not cache.name.startswith(".") and is_finished(cache):
            try:
                attributes = json.loads((cache / "zarr.json").read_text(encoding="utf-8"))["attributes"]
                yield cache, int(attributes["num_parts"])
            except (OSError, ValueError, KeyError, TypeError):
                continue  # another kind of folder, or one that is damaged, and then not among those to choose from
