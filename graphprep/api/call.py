"""What all functions of the API have in common: unknown keywords, progress, the words of errors, their help."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, get_type_hints

from graphprep.cache.read import PartitionCache
from graphprep.errors import GraphprepError
from graphprep.store.store import GraphStore
from graphprep.system import home, memory
from graphprep.system.executor import Executor, open_executor
from graphprep.system.nearest import nearest
from graphprep.system.options import Option, options_in
from graphprep.system.progress import silenced

P = ParamSpec("P")
R = TypeVar("R")
COMMON_HELP = {
    "progress": "False for no progress on standard error.",
    "memory": "Memory that the whole run may use: bytes or 2GB; by default half of what is free.",
    "dask": "A Dask scheduler's address, or local:N for N workers that are started here.",
    "out": "The place of the result itself; by default in GRAPHPREP_HOME.",
    "replace": "Make the result even if it is there, also where other input or options made it.",
    "anyway": "Only warn about counts and values that look wrong.",
    "name": "What to call the dataset; None for a store that is removed when Python ends.",
    "mirror": "A URL or folder that holds https://HOST/PATH as MIRROR/HOST/PATH.",
}
FLAG = re.compile(r"(?<!\w)--([a-z][a-z0-9-]*)")


def library_call(keywords: type, *requests: type) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function one of the API: `progress=False` silences it, an unknown keyword is a TypeError that names the
    nearest one, errors name keywords in place of flags, and its signature and help list all options.

    Args:
        keywords: the TypedDict of its `**options`.
        requests: the dataclasses that describe some of them.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        described = {option.name: option for request in requests for option in options_in(request)}
        kinds = get_type_hints(keywords)
        flags = {name for name, kind in kinds.items() if kind is bool} | {
            each.name for each in own if isinstance(each.default, bool)
        }
        known = {*kinds, *(each.name for each in own)}

        @functools.wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> R:
            for name in options:
                if name not in known:
                    raise TypeError(
                        f"{function.__name__}() got an unexpected keyword argument {name!r}{nearest(name, known)}"
                    )
            with nullcontext() if options.pop("progress", True) else silenced():
                try:
                    return function(*args, **options)
                except GraphprepError as error:
                    error.args = (in_keywords(str(error), known, flags),)
                    raise

        more = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=_default(name, described.get(name)), annotation=kind
            )
            for name, kind in kinds.items()
        ]
        call.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        helps = COMMON_HELP | {name: in_keywords(option.help, known, flags) for name, option in described.items()}
        listed = [f"    {name}: {helps[name]}" for name in kinds if name in helps]
        call.__doc__ = "\n".join([f"{inspect.getdoc(function)}\n\nOptions:", *listed])
        return call

    return decorate


def in_keywords(sentence: str, known: set[str], flags: set[str]) -> str:
    """A sentence with keywords in place of the command line's flags: `replace=True` for --replace."""

    def keyword(match: re.Match[str]) -> str:
        name = match[1].replace("-", "_")
        return match[0] if name not in known else f"{name}=True" if name in flags else name

    return FLAG.sub(keyword, sentence)


@contextmanager
def work(options: dict[str, Any]) -> Iterator[tuple[int | None, Executor]]:
    """The bytes that a run may hold and its executor, for `memory` and `dask`, which are taken out of the options."""
    amount, dask = options.pop("memory", None), options.pop("dask", None)
    limit = memory.parse(amount) if isinstance(amount, str) else amount
    with open_executor(dask, memory_limit=limit) as executor:
        yield limit, executor


def location_of(store_or_cache: GraphStore | PartitionCache | str | Path) -> str:
    """What the functions of `pipelines` call a store or cache: a path, a URL or a name."""
    if isinstance(store_or_cache, PartitionCache):
        return str(store_or_cache.folder.absolute())
    if isinstance(store_or_cache, GraphStore):
        where = store_or_cache.location
        return where if home.is_url(where) else str(Path(where).absolute())
    return str(store_or_cache.absolute()) if isinstance(store_or_cache, Path) else store_or_cache


def _default(name: str, option: Option | None) -> Any:
    if option is None or option.default_words is not None:
        return name == "progress" or (False if name in ("replace", "anyway") else None)
    return option.default
