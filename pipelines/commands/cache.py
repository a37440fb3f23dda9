"""`graphprep cache`: caches of another number of parts from those that there are."""

from __future__ import annotations

from typing import Any, Literal

import click

from graphprep.partition.request import PartitionRequest
from graphprep.system.options import take_options
from pipelines.commands import names
from pipelines.commands.common import PATH, common, parts_option, several, show_cache, topology_option
from pipelines.commands.from_dataclass import options_of


@click.group()
def cache() -> None:
    """Caches of another number of parts from those that there are.

    \b
    Examples:
      graphprep cache merge cora/2x4 --parts 4
      graphprep cache split cora/2x2 --topology 2x4
    """


regroup_options = several(
    click.argument("name_or_cache", shell_complete=names.caches),
    parts_option(),
    topology_option("The machine that the new parts are for."),
    options_of(PartitionRequest, "effort", "seed", "relay", effort={"default": "none"}),
    click.option("--out", type=PATH, help="The new cache's folder; by default caches/NAME/LABEL in GRAPHPREP_HOME."),
    click.option("--replace", is_flag=True, help="Make the cache even if it is there."),
    common,
)
"""what merge and split have in common"""


@cache.command()
@regroup_options
def merge(**options: Any) -> None:
    """Make one part of neighbours that lie on one machine.

    \b
    Example:
      graphprep cache merge cora/2x4 --parts 4
    """
    _regroup("merge", **options)


@cache.command()
@regroup_options
def split(**options: Any) -> None:
    """Divide each part into several.

    \b
    Example:
      graphprep cache split cora/2x2 --topology 2x4
    """
    _regroup("split", **options)


def _regroup(
    way: Literal["merge", "split"], name_or_cache: str, replace: bool, json_output: bool, **options: Any
) -> None:
    from graphprep.cache.read import open_cache
    from pipelines.partition import run_partition
    from pipelines.regroup import plan_regroup

    request = take_options(PartitionRequest, options)
    plan = plan_regroup(open_cache(name_or_cache), way, request=request, **options)
    show_cache(run_partition(plan, replace_other=replace), json_output)
