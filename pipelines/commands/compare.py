"""`graphprep compare`: several partitions of one dataset beside each other."""

from __future__ import annotations

from pathlib import Path

import click

from pipelines.commands.common import common, html_option, print_line, show, topology_option
from pipelines.commands.options import names


@click.command()
@click.argument("caches", nargs=-1, shell_complete=names.caches)
@topology_option("Judge all on this machine, of as many ranks as they have parts, and not each on its own.")
@click.option("--row-bytes", type=int, help="Judge all with rows of so many bytes.")
@html_option
@common
def compare(
    caches: tuple[str, ...], topology: str | None, row_bytes: int | None, html: Path | None, json_output: bool
) -> None:
    """Set several partitions of one dataset beside each other; each is a path or NAME/LABEL.

    \b
    Examples:
      graphprep compare digits/2x2 ./digits-metis
      graphprep compare digits/2x2 ./digits-metis --topology 2x2-10gbe --html compared.html
    """
    from graphprep.report.cache_tables import print_compared
    from graphprep.report.pages import compare_page
    from graphprep.system.files.output_path import checked_file
    from pipelines.compare import compare as set_beside
    from pipelines.look import write_page

    target = None if html is None else checked_file(html, called="--html")
    compared = set_beside(caches, topology=topology, row_bytes=row_bytes)
    if target is not None:
        write_page(compare_page(compared), target)
        print_line(f"wrote {target}", err=True)
    if html is None or json_output:
        show(compared, print_compared, json_output)
