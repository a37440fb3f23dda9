"""`graphprep cache`: other caches of the same graph from those that there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from graphprep.partition.request import PartitionRequest
from graphprep.system.options import take_options
from pipelines.commands.common import PATH, common, parts_option, several, show_cache, topology_option
from pipelines.commands.options import names
from pipelines.commands.options.from_dataclass import options_of


@click.group()
def cache() -> None:
    """Other caches of the same graph from those that there are.

    \b
    Examples:
      graphprep cache merge cora/2x4 --parts 4
      graphprep cache split cora/2x2 --topology 2x4
      graphprep cache rebalance cora/2x2 runs/cora
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


@cache.command()
@click.argument("name_or_cache", shell_complete=names.caches)
@click.argument("run", type=PATH)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the refinement.")
@click.option("--anyway", is_flag=True, help="Also where the parts suit the measured speeds already.")
@click.option("--out", type=PATH, help="The new cache's folder; by default caches/NAME/LABEL-rebalanced.")
@click.option("--replace", is_flag=True, help="Make the cache even if it is there.")
@common
def rebalance(
    name_or_cache: str, run: Path, seed: int, anyway: bool, out: Path | None, replace: bool, json_output: bool
) -> None:
    """Move nodes to the ranks that computed faster in a run.

    RUN is the folder that `graphprep train --output` wrote. The speed of each rank is measured by its last epochs,
    and nodes move from where they are until each rank has its share of the work. The new cache is of the same graph:
    a run goes on from its checkpoint on it with --resume.

    \b
    Example:
      graphprep cache rebalance cora/2x2 runs/cora
    """
    from graphprep.cache.read import open_cache
    from graphprep.interop.training_run import history_lines
    from pipelines.partition import run_partition
    from pipelines.repartition.rebalance import Rebalance, plan_rebalance, require_worth, speeds_of_run

    before = open_cache(name_or_cache)
    speeds = speeds_of_run(before, history_lines(run))
    if not anyway:
        require_worth(speeds, before)
    plan = plan_rebalance(before, speeds, out=out, seed=seed)
    found = Rebalance.of(speeds, before, outcome := run_partition(plan, replace_other=replace))
    found.say()
    show_cache(outcome, json_output, rebalance=found.to_json())


def _regroup(
    way: Literal["merge", "split"], name_or_cache: str, replace: bool, json_output: bool, **options: Any
) -> None:
    from graphprep.cache.read import open_cache
    from pipelines.partition import run_partition
    from pipelines.repartition.regroup import plan_regroup

    request = take_options(PartitionRequest, options)
    plan = plan_regroup(open_cache(name_or_cache), way, request=request, **options)
    show_cache(run_partition(plan, replace_other=replace), json_output)
