"""`graphprep plan`: what an epoch of training would take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from graphprep.errors import UsageError
from graphprep.plan.batch_options import BatchPlan
from graphprep.plan.event_options import EventPlan, require_for_events, require_for_graphs
from graphprep.plan.search import Budget
from graphprep.plan.training import TrainingPlan
from graphprep.system.options import take_options
from pipelines.commands.common import FILE, common, parts_option, show, topology_option
from pipelines.commands.options import names
from pipelines.commands.options.from_dataclass import options_of


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
@options_of(BatchPlan)
@options_of(EventPlan)
@click.option("--best", is_flag=True, help="Search all ways to train, and show the best three with their commands.")
@click.option(
    "--pilot",
    type=int,
    default=0,
    metavar="EPOCHS",
    help="With a cache, train some short runs here: with --best to consider int8 rows, kept rows and budgets too, with "
    "--batch-size to count the epochs that batches need; --best --batch-size needs it.",
)
@options_of(Budget)
@common
def plan(
    store_or_cache: str,
    parts: int | None,
    topology: str | None,
    gpu: str | None,
    rates_from: Path | None,
    best: bool,
    pilot: int,
    json_output: bool,
    **options: Any,
) -> None:
    """Predict what an epoch of training takes: time, memory a rank, what to send, and what the plan does not know.

    The first line says whose rates it is made with. They are measured here, in some seconds, only where the ranks can
    be this machine's own devices; GPUs that the topology or --gpu names have their published rates. Traffic is that of
    the cache, or, for a store, of METIS's parts. Of a cache for events it plans TGN, of one for snapshots the load of
    ranks and what crosses the borders of groups; --parts K is then another number of ranks on a cache for events.

    \b
    Examples:
      graphprep plan digits/2x2
      graphprep plan digits --topology 2x4 --model gcn --hidden 256 --layers 3
      graphprep plan digits/2x2 --gpu A100-40GB --wire int8 --json
      graphprep plan digits/2x2 --batch-size 256 --fanouts 15,10      # mini-batches beside the whole graph
      graphprep plan digits/2x2 --batch-size 256 --pilot 40           # and which is as accurate in less time
      graphprep plan digits/2x2 --exchange auto         # boundary or tensor-parallel, layer by layer
      graphprep plan digits/2x2 --rates node.json       # of `graphprep doctor --rates node.json` on that machine
      graphprep plan digits/2x2 --best --pilot 40       # exchange, wire and staleness, chosen for this graph
      graphprep plan digits/2x2 --best --pilot 40 --batch-size 256      # and mini-batches among them
      graphprep plan digits --topology 2x4 --best --price 2.5 --cost 20
      graphprep plan messages/events-4 --hidden 100     # TGN: how ranks are divided, memory, stages, messages
    """
    source_of = click.get_current_context().get_parameter_source
    given = {name for name in options if source_of(name) is not ParameterSource.DEFAULT}
    from pipelines.look import find

    kind, location = find(store_or_cache)
    if kind == "events":
        from graphprep.report.event_plan_tables import print_event_plan
        from graphprep.temporal.cache import EventCache
        from pipelines.planning.events import plan_events, purpose_of

        others = {"parts": parts, "topology": topology, "gpu": gpu, "rates_from": rates_from, "best": best or None}
        others["pilot"] = pilot or None
        every = given | {name for name, value in others.items() if value is not None}
        require_for_events(every, purpose=purpose_of(EventCache(location)))
        chosen = {name: options[name] for name in given}
        show(plan_events(location, chosen, parts=parts, topology=topology), print_event_plan, json_output)
        return
    require_for_graphs(given)
    take_options(EventPlan, options)
    where: dict[str, Any] = {"parts": parts, "topology": topology, "gpu": gpu, "rates_from": rates_from}
    training, budget = take_options(TrainingPlan, options), take_options(Budget, options)
    batches = take_options(BatchPlan, options)
    if best:
        from graphprep.report.plan_tables import print_best
        from pipelines.planning.best import plan_best

        found = plan_best(
            store_or_cache, training, fixed=given, budget=budget, pilot_epochs=pilot, batches=batches, **where
        )
        show(found, print_best, json_output)
        return
    ignored = [f"--{name}" for name in ("epochs", "within", "price", "cost") if name in given]
    if ignored:
        raise UsageError(f"{' and '.join(ignored)} is for --best; add it")
    from graphprep.report.plan_tables import print_plan
    from pipelines.planning.plan import plan_training

    show(plan_training(store_or_cache, training, batches=batches, pilot_epochs=pilot, **where), print_plan, json_output)
