"""`graphprep generate`: seeded graphs."""

from __future__ import annotations

from typing import Any

import click

from graphprep.errors import UsageError
from pipelines.commands.common import (
    Command,
    as_json,
    common,
    dask_option,
    memory_option,
    out_option,
    print_store_outcome,
)


@click.group()
def generate() -> None:
    """Seeded graphs of any size: block models, R-MAT, grids.

    \b
    Example:
      graphprep generate sbm --name sbm-200k --nodes 200000 --edges 2000000 --features 64
    """


def generator_options(command: Command) -> Command:
    """The options that all generators have."""
    for option in reversed(
        (
            click.option("--name", required=True, help="What to call the dataset."),
            click.option("--classes", type=int, default=8, show_default=True),
            click.option("--features", type=click.IntRange(min=0), default=0, show_default=True, help="0 for none."),
            click.option("--dtype", type=click.Choice(["float16", "float32"]), default="float32", show_default=True),
            click.option("--signal", type=float, default=2.0, show_default=True, help="How far classes lie apart."),
            click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True),
            out_option,
            click.option(
                "--replace", is_flag=True, help="Generate again even if the store is here, or replace another."
            ),
            memory_option,
            dask_option,
            as_json,
            common,
        )
    ):
        command = option(command)
    return command


def run_generator(
    request: Any,
    name: str,
    out: str | None,
    replace: bool,
    memory_limit: int | None,
    dask: str | None,
    json_output: bool,
) -> None:
    """The end of every generator."""
    from graphprep.system.executor import open_executor
    from pipelines.generate import generate_graph

    with open_executor(dask, memory_limit=memory_limit) as executor:
        outcome = generate_graph(
            request, name=name, out=out, replace=replace, memory_limit=memory_limit, executor=executor
        )
    print_store_outcome(outcome, json_output)


def split_off(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options that are not the generator's own out of `options`."""
    return {name: options.pop(name) for name in ("name", "out", "replace", "memory_limit", "dask", "json_output")}


@generate.command()
@click.option("--nodes", type=click.IntRange(min=1), required=True)
@click.option("--edges", type=click.IntRange(min=0), required=True, help="Undirected edges that are drawn.")
@click.option("--branching", type=int, default=8, show_default=True, help="Blocks in a block.")
@click.option("--levels", type=int, default=2, show_default=True, help="Levels of blocks.")
@click.option("--inside", type=float, default=0.8, show_default=True, help="Probability to stay in the block.")
@generator_options
def sbm(**options: Any) -> None:
    """A hierarchical stochastic block model, with labels and features that follow the blocks.

    \b
    Example:
      graphprep generate sbm --name sbm-200k --nodes 200000 --edges 2000000 --features 64
    """
    from graphprep.datasets.generators.sbm import SbmRequest

    common_options = split_off(options)
    run_generator(SbmRequest(**options), **common_options)


@generate.command()
@click.option("--scale", type=int, required=True, help="There are 2^SCALE nodes.")
@click.option("--edges", type=click.IntRange(min=0), required=True, help="Undirected edges that are drawn.")
@click.option("--a", type=float, default=0.57, show_default=True)
@click.option("--b", type=float, default=0.19, show_default=True)
@click.option("--c", type=float, default=0.19, show_default=True)
@generator_options
def rmat(**options: Any) -> None:
    """An R-MAT graph, with the skewed degrees of the web.

    \b
    Example:
      graphprep generate rmat --name rmat-18 --scale 18 --edges 2000000
    """
    from graphprep.datasets.generators.rmat import RmatRequest

    common_options = split_off(options)
    run_generator(RmatRequest(**options), **common_options)


@generate.command()
@click.option("--sides", required=True, metavar="AxBxC", help="Nodes along each axis, e.g. 80x80x80.")
@generator_options
def grid(sides: str, **options: Any) -> None:
    """A grid of any number of dimensions.

    \b
    Example:
      graphprep generate grid --name grid-512k --sides 80x80x80
    """
    from graphprep.datasets.generators.grid import GridRequest

    common_options = split_off(options)
    if not all(side.isdecimal() and side.isascii() for side in sides.split("x")):
        raise UsageError(f"--sides {sides} must be whole numbers with x between them, e.g. 80x80x80")
    run_generator(GridRequest(sides=tuple(map(int, sides.split("x"))), **options), **common_options)
