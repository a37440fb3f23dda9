"""`graphprep list`: the datasets of the registry."""

from __future__ import annotations

import sys

import click

from pipelines.commands.common import as_json, common, print_json


@click.command("list")
@as_json
@common
def list_datasets(json_output: bool) -> None:
    """What the registry knows, and what is here already.

    \b
    Examples:
      graphprep list
      graphprep list --json
    """
    from graphprep.report.tables import print_datasets
    from pipelines.ingest import known_datasets

    rows = known_datasets()
    if json_output:
        print_json(rows)
    else:
        print_datasets(rows, sys.stdout)
