"""`graphprep plan`: what an epoch of training would take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from graphprep.plan.training import TrainingPlan
from graphprep.system.options import take_options
from pipelines.commands import names
from pipelines.commands.common import FILE, common, parts_option, show, topology_option
from pipelines.commands.from_dataclass import options_of


@click.command()
@click.argument("store_or_cache", shell_complete=names.stores_and_caches)
@parts_option("For a store: K equal ranks on one switch.")
@topology_option("For a store: the machine; for a cache: another one of as many ranks.")
@click.option("--gpu", metavar="NAME", help="What the ranks are, for its published rates: A100-40GB, H100-SXM, L4 ...")
@click.option(
    "--rates",
    "rates_from",
    type=FILE,
    metavar="FILE",
    help="The rates that `graphprep doctor --rates FILE` measured on the machine that trains.",
)
@options_of(TrainingPlan)
@common
def plan(
    store_or_cache: str,
    parts: int | None,
    topology: str | None,
    gpu: str | None,
    rates_from: Path | None,
    json_output: bool,
    **options: Any,
) -> None:
    """Predict what an epoch of training takes: time, memory a rank, what to send, and what the plan does not know.

    The first line says whose rates it is made with. They are measured here, in some seconds, only where the ranks can
    be this machine's own devices; GPUs that the topology or --gpu names have their published rates. Traffic is that of
    the cache, or, for a store, of METIS's parts.

    \b
    Examples:
      graphprep plan digits/2x2
      graphprep plan digits --topology 2x4 --model gcn --hidden 256 --layers 3
      graphprep plan digits/2x2 --gpu A100-40GB --wire int8 --json
      graphprep plan digits/2x2 --exchange auto         # boundary or tensor-parallel, layer by layer
      graphprep plan digits/2x2 --rates node.json       # of `graphprep doctor --rates node.json` on that machine
    """
    from graphprep.report.plan_tables import print_plan
    from pipelines.plan import plan_training

    training = take_options(TrainingPlan, options)
    planned = plan_training(store_or_cache, training, parts=parts, topology=topology, gpu=gpu, rates_from=rates_from)
    show(planned, print_plan, json_output)
