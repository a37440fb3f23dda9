"""`graphprep run`: whole runs from a file."""

from __future__ import annotations

from pathlib import Path

import click

from pipelines.commands.common import PATH, common, fail, show, work_options


@click.command()
@click.argument("pipeline", type=PATH)
@click.option("--dry-run", "dry", is_flag=True, help="Say what would be run, why, and what it takes; do nothing.")
@click.option("--replace", is_flag=True, help="Make everything again, also over results of something else.")
@work_options
@common
def run(
    pipeline: Path, dry: bool, replace: bool, memory_limit: int | None, dask: str | None, json_output: bool
) -> None:
    """Run what the YAML file PIPELINE says: datasets, topologies, options, and every combination of them.

    What is up to date is skipped, and what was cut short goes on. If a stage fails, those that do not need it are run
    all the same; the command then ends with the status of the first failure and names all.

    \b
    Examples:
      graphprep run pipeline.yaml --dry-run
      graphprep run pipeline.yaml
      graphprep run pipeline.yaml --memory 8GB --json
    """
    from graphprep.report.tables import print_steps
    from graphprep.system.executor import open_executor
    from pipelines.run.run import run_pipeline

    with open_executor(None if dry else dask, memory_limit=memory_limit) as executor:
        report = run_pipeline(pipeline, dry=dry, replace=replace, memory_limit=memory_limit, executor=executor)
    show(report.to_json(), print_steps, json_output)
    failure = report.failure()
    if failure is not None:
        fail(failure, report.exit_status)
