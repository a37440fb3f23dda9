"""`graphprep fetch`: a dataset of the registry becomes a store."""

from __future__ import annotations

from typing import Any

import click

from pipelines.commands import names
from pipelines.commands.common import (
    anyway_option,
    as_json,
    common,
    dask_option,
    memory_option,
    out_option,
    print_store_outcome,
)


@click.command()
@click.argument("name", shell_complete=names.datasets)
@click.option("--mirror", metavar="URL_OR_FOLDER", help="Take https://HOST/PATH from MIRROR/HOST/PATH instead.")
@out_option
@click.option("--replace", is_flag=True, help="Convert again even if the store is here, or replace an imported one.")
@memory_option
@dask_option
@anyway_option
@as_json
@common
def fetch(name: str, memory_limit: int | None, dask: str | None, json_output: bool, **options: Any) -> None:
    """Download dataset NAME, verify it, and convert it to a graph store.

    \b
    Examples:
      graphprep fetch digits                      # ships with scikit-learn, needs no network
      graphprep fetch cora
      graphprep fetch cora --mirror ./mirror
    """
    from graphprep.system.executor import open_executor
    from pipelines.ingest import fetch_dataset

    with open_executor(dask, memory_limit=memory_limit) as executor:
        outcome = fetch_dataset(name, memory_limit=memory_limit, executor=executor, **options)
    print_store_outcome(outcome, json_output)
