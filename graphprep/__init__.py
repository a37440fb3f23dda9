"""Graphs too big for one GPU, prepared for the machine they will be trained on.

`open_store`, `open_cache` and `to_float32` are imported when they are first asked for, so that `import graphprep` takes
no time.
"""

from typing import TYPE_CHECKING, Any

from graphprep.version import __version__

__all__ = ["__version__", "open_cache", "open_store", "to_float32"]

if TYPE_CHECKING:
    from graphprep.api import open_cache, open_store, to_float32


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'graphprep' has no attribute {name!r}")
    from graphprep import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
