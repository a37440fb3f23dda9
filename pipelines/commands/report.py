"""`graphprep report`: what a training run took, as a page."""

from __future__ import annotations

from pathlib import Path

import click

from pipelines.commands.common import FILE, PATH, common, print_line, show


@click.command()
@click.argument("run", type=PATH)
@click.option("--output", type=FILE, help="The page.  [default: report.html in RUN]")
@common
def report(run: Path, output: Path | None, json_output: bool) -> None:
    """Write a self-contained page about RUN, the folder that `train --output` made, and print its figures.

    Verdict and advice, curves of loss and metric, what each rank did in each epoch, bytes by layer and link, what was
    predicted and what was measured, options and environment.

    \b
    Examples:
      graphprep train digits/2x2 --output runs/digits
      graphprep report runs/digits
      graphprep report runs/digits --output digits.html --json
    """
    from graphprep.report.run_tables import print_run
    from pipelines.report import report_run

    summary, target = report_run(run, output)
    print_line(f"wrote {target}", err=True)
    show(summary, print_run, json_output)
