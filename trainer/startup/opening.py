"""Opens the cache that the options name, of whichever kind, and checks that they suit it.

It needs the options and the cache's root alone, so every rank raises the same error before torch is imported.
"""

from __future__ import annotations

from trainer.base.errors import OptionError, TrainingError
from trainer.config.options import SNAPSHOT_MODELS, TEMPORAL_MODELS, Options
from trainer.data.cache import Cache, open_cache
from trainer.data.events import EventCache, is_event_cache, open_event_cache
from trainer.startup.preflight import check_task


def open_for(options: Options) -> Cache | EventCache:
    """The cache of a run, which has what the options want to learn.

    Raises:
        CacheError: there is none, or it is unfinished, damaged, or of another format.
        OptionError: the model is not for this kind of cache, or the options do not suit what it has.
        TrainingError: it has nothing to learn from.
    """
    if is_event_cache(options.cache):
        return _opened_events(options)
    cache = open_cache(options.cache, options.target)
    if options.model in TEMPORAL_MODELS:
        raise OptionError(
            f"--model {options.model} trains on events, and {cache.folder} is a cache of a graph without times; "
            "make one with graphprep partition NAME --for events"
        )
    check_task(cache, options)
    return cache


def _opened_events(options: Options) -> EventCache:
    cache = open_event_cache(options.cache)
    if options.model not in TEMPORAL_MODELS:
        raise OptionError(
            f"{cache.folder} is a cache of events, and --model {options.model} trains on graphs without times; "
            f"use --model {' or '.join(TEMPORAL_MODELS)}"
        )
    if not cache.num_events:
        raise TrainingError(f"{cache.folder} has no event to learn from; partition another stream")
    if options.model in SNAPSHOT_MODELS and not cache.has_snapshots:
        raise OptionError(
            f"--model {options.model} trains on snapshots, and {cache.folder} has events without windows; make a cache "
            "with graphprep partition NAME --for snapshots --window 1d"
        )
    return cache
