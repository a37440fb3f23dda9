"""`graphprep partition`: a store and a topology become a partition cache."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from graphprep.cache.features import FeatureOptions
from graphprep.errors import UsageError
from graphprep.partition.request import PURPOSES, PartitionRequest
from graphprep.plan.model_widths import ModelWidths, take_widths
from graphprep.system.nearest import nearest
from graphprep.system.options import take_options
from graphprep.temporal.request import EVENT_PURPOSES, EventCacheRequest
from pipelines.commands.common import (
    FILE,
    PATH,
    common,
    parts_option,
    print_json,
    show_cache,
    topology_option,
    work_options,
)
from pipelines.commands.event_stores import partition_events, run_or_announce
from pipelines.commands.options import names
from pipelines.commands.options.from_dataclass import options_of

of_graphs, of_events = (
    ", ".join(f"{name} ({remark})" for name, remark in purposes.items()) for purposes in (PURPOSES, EVENT_PURPOSES)
)


@click.command()
@click.argument("name_or_store", shell_complete=names.stores)
@parts_option()
@topology_option("The machine to partition for; see `graphprep topology list`.")
@click.option(
    "--assignment",
    type=PATH,
    help="Parts that were made elsewhere, one number a node, p for rank p: .npy, .npz, .pt, .txt or METIS's .part.K.",
)
@click.option(
    "--extend",
    metavar="NAME_OR_CACHE",
    shell_complete=names.caches,
    help="A cache of the store that this one extends: its nodes keep their parts, new ones get those of neighbours.",
)
@options_of(
    PartitionRequest,
    effort={"default": None, "show_default": "default, or none with --assignment and --extend"},
    purpose={"help": f"What is trained with the parts: {of_graphs}. Of streams of events: {of_events}."},
)
@options_of(EventCacheRequest)
@options_of(ModelWidths)
@click.option(
    "--rates",
    type=FILE,
    metavar="FILE",
    help="The rates that `graphprep doctor --rates FILE` measured on the machine that trains, for the predicted step.",
)
@options_of(FeatureOptions)
@click.option("--out", type=PATH, help="The cache folder itself; by default caches/NAME/LABEL in GRAPHPREP_HOME.")
@click.option(
    "--replace",
    is_flag=True,
    help="Make the cache even if it is there, also where it is damaged or other options made it.",
)
@work_options
@click.option("--dry-run", is_flag=True, help="Say what memory, disk and time to expect, and stop.")
@common
def partition(
    name_or_store: str,
    assignment: Path | None,
    extend: str | None,
    purpose: str,
    effort: str | None,
    replace: bool,
    memory_limit: int | None,
    dask: str | None,
    dry_run: bool,
    json_output: bool,
    **options: Any,
) -> None:
    """Partition a store for the machine it will train on, and write the partition cache.

    \b
    Examples:
      graphprep partition cora --parts 4
      graphprep partition cora --topology 2x4.yaml
      graphprep partition cora --topology dgx-1-v100 --dry-run
      graphprep partition cora --parts 4 --assignment cora.graph.part.4
      graphprep partition mine-june --extend mine/2x4
      graphprep partition college --for events --parts 4
      graphprep partition college --for snapshots --window 1d --parts 4
    """
    from graphprep.cache.read import open_cache
    from graphprep.system.executor import open_executor
    from pipelines.partition import announce, plan_partition, run_partition
    from pipelines.repartition.extend_parts import PartsGrowth, plan_extended

    source_of = click.get_current_context().get_parameter_source
    given = {name: value for name, value in options.items() if source_of(name) is not ParameterSource.DEFAULT}
    for_events = take_options(EventCacheRequest, options)
    if purpose not in PURPOSES | EVENT_PURPOSES:
        known = ", ".join(PURPOSES | EVENT_PURPOSES)
        raise UsageError(
            f"--for {purpose!r} is unknown{nearest(purpose, PURPOSES | EVENT_PURPOSES)}; use one of {known}"
        )
    if purpose in EVENT_PURPOSES:
        for_graphs = {"assignment": assignment, "extend": extend, "effort": effort, "dask": dask}
        given |= {name: value for name, value in for_graphs.items() if value is not None}
        step = partition_events(name_or_store, purpose, for_events, given, memory_limit=memory_limit)
        run_or_announce(step, replace=replace, dry_run=dry_run, json_output=json_output)
        return
    if own := [name for name in asdict(EventCacheRequest()) if name in given]:
        raise UsageError(f"--{own[0].replace('_', '-')} is for event stores; give --for events or --for snapshots too")
    options["purpose"] = purpose
    if source_of("purpose") is not ParameterSource.DEFAULT:
        given["purpose"] = purpose
    where = {name: options.pop(name) for name in ("parts", "topology", "out", "rates")}
    where |= {"assignment": assignment, "memory_limit": memory_limit}
    if extend is not None:
        requested = {name: value for name, value in given.items() if name not in where}
        if effort is not None:
            requested["effort"] = effort
        plan = plan_extended(name_or_store, extend, options=requested, **where)
    else:
        options["effort"] = effort or ("none" if assignment else "default")
        for name in ("row_bytes", *asdict(ModelWidths())):
            if name not in given:
                del options[name]
        widths = take_widths(options)
        plan = plan_partition(
            name_or_store,
            request=take_options(PartitionRequest, options),
            features=take_options(FeatureOptions, options),
            widths=widths,
            **where,
        )
    if dry_run:
        if json_output:
            print_json({"cache": str(plan.target), "key": plan.key, **plan.expectations()})
        else:
            announce(plan, plan.store.name)
        return
    with open_executor(dask, memory_limit=memory_limit) as executor:
        outcome = run_partition(plan, replace_other=replace, executor=executor)
    growth = None if extend is None else PartsGrowth.of(outcome.cache, open_cache(extend))
    if growth is not None:
        growth.say()
    show_cache(outcome, json_output, **({} if growth is None else {"extension": growth.to_json()}))
