"""`graphprep export`: a cache in the files of another tool."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from pipelines.commands.common import PATH, common, show
from pipelines.commands.options import names


@click.command()
@click.argument("cache", shell_complete=names.caches)
@click.argument("out", type=PATH)
@click.option("--format", "format_name", required=True, help="dgl, pyg or npz; docs/export.md says what each holds.")
@click.option("--replace", is_flag=True, help="Export even if it is there, or replace another export.")
@common
def export(cache: str, out: Path, format_name: str, replace: bool, json_output: bool) -> None:
    """Write a cache, a path or NAME/LABEL, in the files of another tool, as the new folder OUT.

    \b
    Examples:
      graphprep export cora/2x4 --format dgl ./cora-dgl     # for dgl.distributed.load_partition
      graphprep export cora/2x4 --format pyg ./cora-pyg     # for torch_geometric.distributed, or one Data a part
      graphprep export cora/2x4 --format npz ./cora-npz     # needs NumPy alone
    """
    from pipelines.export import export_cache

    outcome = export_cache(cache, out, format_name=format_name, replace=replace)
    text = f"{'up to date' if outcome.reused else 'wrote'}: {outcome.folder} ({outcome.files:,} files)"
    show(asdict(outcome) | {"folder": str(outcome.folder)}, text, json_output)
