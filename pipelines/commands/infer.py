"""`graphprep infer`: a trained model on the whole graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pipelines.commands.common import PATH, common, print_json, print_line
from pipelines.commands.options import names


@click.command()
@click.argument("cache", shell_complete=names.caches)
@click.argument("run", type=PATH)
@click.argument("out", type=PATH)
@click.option("--embeddings", "save_embeddings", type=PATH, help="Also write the input of the last layer: .npy or .pt.")
@click.option(
    "--exchange",
    default="sequential",
    show_default=True,
    help="How rows are exchanged, as for train; sequential holds those of one other rank at a time.",
)
@click.option("--device", default="auto", show_default=True, help="auto, cpu or cuda.")
@click.option(
    "--anyway", is_flag=True, help="Start even if the memory estimate, which is that of training, is too much."
)
@common
def infer(cache: str, run: Path, out: Path, json_output: bool, **options: Any) -> None:
    """Compute the scores of all nodes of CACHE by the best weights of RUN, and write them to OUT.

    RUN is the folder that `train --output` made, of a run with `--checkpoint`. CACHE is of the same graph, or of one
    that `import --extend` made of it, and may have other parts: fewer than it was trained on, or one. OUT is .npy,
    float32 in the dataset's order, or .csv or .parquet, a table with the ids that nodes had in the source.

    \b
    Examples:
      graphprep train cora/2x2 --output runs/cora --checkpoint runs/cora-weights
      graphprep cache merge cora/2x2 --parts 2
      graphprep infer cora/flat-2 runs/cora cora.parquet
    """
    from graphprep.system import progress
    from graphprep.system.home import require_cache
    from pipelines.training.infer import infer_to_file

    save = options.pop("save_embeddings")
    pass_options = {**options, "save_embeddings": None if save is None else save.absolute()}
    result = infer_to_file(require_cache(cache).absolute(), run, out, pass_options, quiet=progress.is_quiet())
    if json_output:
        print_json(result)
        return
    metric = result["metric"]
    value = result[f"test_{metric}"]
    print_line(f"wrote {out}; test {metric} {'-' if value is None else f'{value:.4g}'}")
