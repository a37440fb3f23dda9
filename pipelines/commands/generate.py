"""`graphprep generate`: seeded graphs, with a command for each generator."""

from __future__ import annotations

from typing import Any

import click

from graphprep.datasets.generators.events import EventsRequest
from graphprep.datasets.generators.requests import GENERATORS, GraphRequest
from graphprep.system.options import take_options
from pipelines.commands.common import common, make_store, store_options
from pipelines.commands.event_stores import show_event_store, without_work_options
from pipelines.commands.options.from_dataclass import options_of

EXAMPLES = {
    "sbm": "--name sbm-200k --nodes 200000 --edges 2000000 --features 64",
    "rmat": "--name rmat-18 --scale 18 --edges 2000000",
    "grid": "--name grid-512k --sides 80x80x80",
}


@click.group()
def generate() -> None:
    """Seeded graphs of any size: block models, R-MAT, grids; and streams of events.

    \b
    Example:
      graphprep generate sbm --name sbm-200k --nodes 200000 --edges 2000000 --features 64
    """


def _command(kind: str, request: type[GraphRequest]) -> click.Command:
    """The command of one generator."""

    @click.command(kind, help=f"{request.__doc__}\n\n\b\nExample:\n  graphprep generate {kind} {EXAMPLES[kind]}")
    @click.option("--name", required=True, help="What to call the dataset.")
    @options_of(request)
    @store_options
    @common
    def generator(**options: Any) -> None:
        from pipelines.generate import generate_graph

        make_store(generate_graph, take_options(request, options), **options)

    return generator


@generate.command(
    "events",
    help=f"{EventsRequest.__doc__}\n\n\b\nExample:\n  graphprep generate events --name stream --nodes 100000 --events "
    "20000000",
)
@click.option("--name", required=True, help="What to call the dataset.")
@options_of(EventsRequest)
@store_options
@common
def generate_events(json_output: bool, **options: Any) -> None:
    """A stream of events."""
    from pipelines.events.store import generate_events as run_generate

    request = take_options(EventsRequest, options)
    show_event_store(run_generate(request, **without_work_options(options)), json_output)


for kind, request in GENERATORS.items():
    generate.add_command(_command(kind, request))
