"""`graphprep clean`: what lies in GRAPHPREP_HOME, and the end of it."""

from __future__ import annotations

import click

from graphprep.errors import UsageError
from pipelines.commands.common import common, show
from pipelines.commands.options import names


@click.command()
@click.option("--raw", multiple=True, metavar="NAME", help="Remove the downloads of a dataset too.")
@click.option(
    "--stores", multiple=True, metavar="NAME", shell_complete=names.stores, help="Remove the store of a dataset too."
)
@click.option(
    "--caches",
    multiple=True,
    metavar="NAME[/LABEL]",
    shell_complete=names.caches,
    help="Remove one cache, or all of a dataset, too.",
)
@click.option("--keep-leftovers", is_flag=True, help="Leave what runs that were cut short could go on with.")
@click.option("--dry-run", "dry", is_flag=True, help="Say what would be removed; remove nothing.")
@common
def clean(
    raw: tuple[str, ...],
    stores: tuple[str, ...],
    caches: tuple[str, ...],
    keep_leftovers: bool,
    dry: bool,
    json_output: bool,
) -> None:
    """Show what lies in GRAPHPREP_HOME, and remove what runs that were cut short left behind.

    Downloads, stores and caches are removed only if they are named. Nothing that a process works on is touched, nor
    anything outside of GRAPHPREP_HOME, nor links.

    \b
    Examples:
      graphprep clean --dry-run
      graphprep clean
      graphprep clean --raw ogbn-arxiv --caches cora/2x2 --caches digits
    """
    from graphprep.report.tables import print_home
    from graphprep.system import home
    from pipelines.clean import clean as clean_up
    from pipelines.clean import say_total

    items = clean_up(raw=raw, stores=stores, caches=caches, leftovers=not keep_leftovers, dry=dry)
    cleaned = {"home": str(home.home()), "dry_run": dry, "items": [item.to_json() for item in items]}
    show(cleaned, print_home, json_output)
    if not json_output:
        say_total(items)
    in_use = [each.item.name for each in items if each.fate == "in use" and each.item.kind != "leftover"]
    if in_use:
        raise UsageError(f"{', '.join(in_use)} is in use by another process; wait for it, or stop it, and run again")
