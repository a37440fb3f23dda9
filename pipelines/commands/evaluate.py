"""`graphprep evaluate`: predictions of the trainer are scored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pipelines.commands.common import PATH, common, print_line, show
from pipelines.commands.options import names


@click.command()
@click.argument("cache", shell_complete=names.caches)
@click.argument("predictions", type=PATH)
@click.option("--task", help="regression for a matrix of numbers; otherwise the cache says it.")
@click.option("--metric", help="ogb, accuracy, f1-micro, f1-macro, roc-auc, mse or mae; default: OGB's or the task's.")
@click.option("--split", default=0, show_default=True, help="Which column of the masks.")
@click.option(
    "--table",
    type=PATH,
    help="Also write the predictions beside the ids that nodes had in the source: .csv or .parquet.",
)
@common
def evaluate(cache: str, predictions: Path, table: Path | None, json_output: bool, **options: Any) -> None:
    """Score PREDICTIONS, a .npy or .pt of `train --save-predictions`, against a cache's labels.

    Rows are nodes in the dataset's order; --table writes them beside ids. Datasets of OGB are scored by OGB's own
    evaluator.

    \b
    Examples:
      graphprep train cora/2x2 --save-predictions cora.npy
      graphprep evaluate cora/2x2 cora.npy --metric f1-macro
      graphprep evaluate cora/2x2 cora.npy --table cora.csv
    """
    from graphprep.report.tables import print_scores
    from pipelines.evaluate import evaluate as score_predictions

    report = score_predictions(cache, predictions, table=table, **options)
    if table is not None:
        print_line(f"wrote {table}", err=True)
    show(report, print_scores, json_output)
