"""The cache that a training goes on with in place of its own, as `graphprep rescale` asks for it while it runs.

    CHECKPOINT/next-cache.json    {"cache": PATH}; the launcher removes it when it takes the cache, and adds "refused",
                                  a sentence, where it does not

The ranks of the run finish their epoch and write a checkpoint, and the launcher starts as many as the next cache has
parts, which resume from it. No torch here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainer.base.atomic import write_whole
from trainer.base.errors import OptionError, TrainerError, TrainingError
from trainer.config.command_line import parse
from trainer.config.options import Options
from trainer.data.cache import Cache
from trainer.data.events import EventCache
from trainer.data.graph_identity import graph_identity
from trainer.startup.opening import open_for

NEXT_CACHE = "next-cache.json"
_SECONDS_BETWEEN_LOOKS = 0.2


class NextCache:
    """Looks for the request, and holds what it asks for once it was accepted."""

    def __init__(self, options: Options, cache: Cache | EventCache) -> None:
        """Remove a request that was made of an earlier run.

        Args:
            options: of the run.
            cache: that it trains on.
        """
        self._options, self._graph = options, graph_identity(cache)
        self._path = None if options.checkpoint is None else Path(options.checkpoint, NEXT_CACHE)
        self.cache: Cache | EventCache | None = None
        """What the run goes on with; None until a request was accepted."""
        self._look_at = 0.0
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def is_requested(self) -> bool:
        """Whether there is a request that can be met; one that cannot is refused, in the file."""
        if self.cache is not None:
            return True
        if time.monotonic() < self._look_at:
            return False
        self._look_at = time.monotonic() + _SECONDS_BETWEEN_LOOKS
        request = self._request()
        if request is None:
            return False
        try:
            self.cache = self._opened(request)
        except TrainerError as error:
            self._answer({**request, "refused": str(error)})
            return False
        self._answer(None)
        return True

    def taken(self) -> Cache | EventCache:
        """The cache of the request; further requests can be made from now on."""
        assert self.cache is not None
        taken, self.cache = self.cache, None
        return taken

    def _request(self) -> dict[str, Any] | None:
        """The file's content, None if there is none or it has been answered."""
        if self._path is None:
            return None
        try:
            request = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            return {}
        if not isinstance(request, dict):
            return {}
        return None if "refused" in request else request

    def _opened(self, request: dict[str, Any]) -> Cache | EventCache:
        """The cache of a request.

        Raises:
            TrainerError: the run cannot go on with it.
        """
        wanted = request.get("cache")
        if not isinstance(wanted, str):
            raise OptionError(f"{self._path} names no cache; ask with graphprep rescale CHECKPOINT CACHE")
        cache = open_for(replace(self._options, cache=wanted))
        if graph_identity(cache) != self._graph:
            raise TrainingError(
                f"{wanted} is of another graph than the run's cache, or treats its features in another way; give a "
                "cache that was partitioned from the same store"
            )
        return cache

    def _answer(self, answer: dict[str, Any] | None) -> None:
        assert self._path is not None
        with suppress(OSError):  # who asks waits for the answer only for a while
            if answer is None:
                self._path.unlink(missing_ok=True)
            else:
                write_whole(self._path, json.dumps(answer).encode())


def words_with(arguments: Sequence[str], folder: str) -> list[str]:
    """A command line that resumes the run of another one on another cache.

    Args:
        arguments: of the run.
        folder: of the cache.

    Raises:
        OptionError: never for arguments that a run was started with.
    """
    before, words = parse(arguments), list(arguments)
    wanted = replace(before, cache=folder, resume=True)
    resume = [] if before.resume else ["--resume"]
    candidates = [[*words[:at], folder, *words[at + 1 :]] for at, word in enumerate(words) if word == before.cache]
    for candidate in (*candidates, [folder, *words]):  # the last where a file of options names the cache
        with suppress(OptionError):
            if parse([*resume, *candidate]) == wanted:
                return [*resume, *candidate]
    raise OptionError(f"the options {' '.join(words)} cannot be given with another cache")
