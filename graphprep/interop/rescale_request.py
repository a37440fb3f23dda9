"""Ask a training that runs on this machine to go on with another cache of its graph.

The request is a file beside the checkpoints of the run, next-cache.json: {"cache": PATH}. The trainer's launcher looks
for it a few times a second. It removes the file when it takes the cache, and adds "refused", a sentence, where it does
not.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from graphprep.errors import TrainingError
from graphprep.interop.training_run import LOCK
from graphprep.system.files.atomic import is_lock_held, published_file

NEXT_CACHE = "next-cache.json"
PATIENCE = 10.0
"""Seconds for the launcher to answer."""
_POLL = 0.05


def is_training(checkpoints: Path) -> bool:
    """Whether a training writes its checkpoints to the folder now."""
    return is_lock_held(checkpoints / LOCK)


def request_cache(checkpoints: Path, cache: Path, *, is_cancelled: Callable[[], bool] = lambda: False) -> bool:
    """Ask, and wait for the answer; the ranks then finish their epoch before others start.

    Args:
        checkpoints: the folder that the training writes them to.
        cache: the folder of the cache.
        is_cancelled: asked again and again; once it is true nothing is asked any more.

    Returns:
        whether the training goes on with the cache; False after it was cancelled.

    Raises:
        TrainingError: the training refuses the cache, or nobody answers.
    """
    path = checkpoints / NEXT_CACHE
    with published_file(path) as file:
        file.write(json.dumps({"cache": str(cache.resolve())}).encode())
    deadline = time.monotonic() + PATIENCE
    try:
        while time.monotonic() < deadline and not is_cancelled():
            try:
                answer = json.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                return True
            if "refused" in answer:
                raise TrainingError(str(answer["refused"]))
            time.sleep(_POLL)
    finally:
        with suppress(FileNotFoundError):
            path.unlink()
    if is_cancelled():
        return False
    raise TrainingError(
        f"the training that writes checkpoints to {checkpoints} does not answer; only one that `graphprep train` or "
        "`python -m trainer.launch` has started can go on with another cache. Stop it by SIGTERM, and start it again "
        "with --resume"
    )
