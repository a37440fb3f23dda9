"""`graphprep verify`: every byte of a store or a cache is read and checked."""

from __future__ import annotations

import click

from pipelines.commands import names
from pipelines.commands.common import as_json, common, print_json, print_line


@click.command()
@click.argument("store_or_cache", shell_complete=names.stores_and_caches)
@as_json
@common
def verify(store_or_cache: str, json_output: bool) -> None:
    """Read a whole store or cache and check it: checksums, sizes, valid CSR, parts that fit together.

    \b
    Examples:
      graphprep verify digits
      graphprep verify digits/2x2
    """
    from pipelines.look import verify as verify_whole

    report = verify_whole(store_or_cache)
    if json_output:
        print_json(report)
    else:
        print_line(f"{report['location']}: whole")
