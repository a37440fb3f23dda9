"""Let a training that runs on this machine go on with another cache of its graph, as for more or fewer ranks."""

from __future__ import annotations

from pathlib import Path

from graphprep.errors import UsageError
from graphprep.interop.rescale_request import is_training, request_cache
from graphprep.system.home import require_cache


def rescale(checkpoints: Path, cache: str) -> Path:
    """Ask for it, and wait until the training has accepted the cache; its folder.

    Args:
        checkpoints: the folder of the training's --checkpoint.
        cache: a path or NAME/LABEL.

    Raises:
        UsageError: no training writes checkpoints to the folder.
        CacheError: there is no such cache.
        TrainingError: the training cannot go on with it.
    """
    folder = require_cache(cache)
    if not is_training(checkpoints):
        raise UsageError(
            f"no training writes checkpoints to {checkpoints} now; go on with graphprep train {cache} --checkpoint "
            f"{checkpoints} --resume"
        )
    request_cache(checkpoints, folder)
    return folder
