"""`graphprep verify`: every byte of a store or a cache is read and checked."""

from __future__ import annotations

import click

from pipelines.commands.common import common, show
from pipelines.commands.options import names


@click.command()
@click.argument("store_or_cache", shell_complete=names.stores_and_caches)
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
    show(report, f"{report['location']}: whole", json_output)
