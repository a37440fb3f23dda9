"""`graphprep fetch`: a dataset of the registry becomes a store."""

from __future__ import annotations

from typing import Any

import click

from pipelines.commands.common import anyway_option, common, make_store, store_options
from pipelines.commands.options import names


@click.command()
@click.argument("name", shell_complete=names.datasets)
@click.option("--mirror", metavar="URL_OR_FOLDER", help="Take https://HOST/PATH from MIRROR/HOST/PATH instead.")
@store_options
@anyway_option
@common
def fetch(name: str, **options: Any) -> None:
    """Download dataset NAME, verify it, and convert it to a graph store.

    \b
    Examples:
      graphprep fetch digits                      # ships with scikit-learn, needs no network
      graphprep fetch cora
      graphprep fetch cora --mirror ./mirror
    """
    from pipelines.ingest import fetch_dataset

    make_store(fetch_dataset, name, **options)
