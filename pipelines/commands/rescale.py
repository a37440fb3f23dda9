"""`graphprep rescale`: another number of ranks, or other parts, for a training that runs."""

from __future__ import annotations

from pathlib import Path

import click

from pipelines.commands.common import PATH, common, show
from pipelines.commands.options import names


@click.command()
@click.argument("checkpoints", type=PATH)
@click.argument("name_or_cache", shell_complete=names.caches)
@common
def rescale(checkpoints: Path, name_or_cache: str, json_output: bool) -> None:
    """Let a training that runs go on with another cache of its graph: more or fewer ranks, or other parts.

    CHECKPOINTS is the folder of `graphprep train --checkpoint`, on this machine. The ranks finish their epoch and write
    a checkpoint, and as many ranks as the other cache has parts go on from it. torch stays loaded meanwhile. A cache
    of another graph is refused, and the training goes on as it was.

    \b
    Examples:
      graphprep cache merge cora/2x4 --parts 4    # a cache for fewer ranks
      graphprep rescale runs/cora cora/flat-4
    """
    from pipelines.training.rescale import rescale as ask

    folder = ask(checkpoints, name_or_cache)
    text = f"after its present epoch the training goes on with {folder}"
    show({"checkpoints": str(checkpoints), "cache": str(folder)}, text, json_output)
