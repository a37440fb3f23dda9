"""`graphprep list`: the datasets of the registry."""

from __future__ import annotations

import click

from pipelines.commands.common import common, show


@click.command("list")
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

    show(known_datasets(), print_datasets, json_output)
