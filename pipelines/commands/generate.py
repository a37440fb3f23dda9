"""`graphprep generate`: seeded graphs, with a command for each generator."""

from __future__ import annotations

from typing import Any

import click

from graphprep.datasets.generators.requests import GENERATORS, GraphRequest
from graphprep.system.options import take_options
from pipelines.commands.common import (
    as_json,
    common,
    dask_option,
    memory_option,
    out_option,
    print_store_outcome,
)
from pipelines.commands.from_dataclass import options_of

EXAMPLES = {
    "sbm": "--name sbm-200k --nodes 200000 --edges 2000000 --features 64",
    "rmat": "--name rmat-18 --scale 18 --edges 2000000",
    "grid": "--name grid-512k --sides 80x80x80",
}


@click.group()
def generate() -> None:
    """Seeded graphs of any size: block models, R-MAT, grids.

    \b
    Example:
      graphprep generate sbm --name sbm-200k --nodes 200000 --edges 2000000 --features 64
    """


def _command(kind: str, request: type[GraphRequest]) -> click.Command:
    """The command of one generator."""

    @click.command(kind, help=f"{request.__doc__}\n\n\b\nExample:\n  graphprep generate {kind} {EXAMPLES[kind]}")
    @click.option("--name", required=True, help="What to call the dataset.")
    @options_of(request)
    @out_option
    @click.option("--replace", is_flag=True, help="Generate again even if the store is here, or replace another.")
    @memory_option
    @dask_option
    @as_json
    @common
    def generator(memory_limit: int | None, dask: str | None, json_output: bool, **options: Any) -> None:
        from graphprep.system.executor import open_executor
        from pipelines.generate import generate_graph

        parameters: Any = take_options(request, options)
        with open_executor(dask, memory_limit=memory_limit) as executor:
            outcome = generate_graph(parameters, memory_limit=memory_limit, executor=executor, **options)
        print_store_outcome(outcome, json_output)

    return generator


for kind, request in GENERATORS.items():
    generate.add_command(_command(kind, request))
