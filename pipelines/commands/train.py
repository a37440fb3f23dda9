"""`graphprep train`: the trainer, started on a cache."""

from __future__ import annotations

import click

from graphprep.errors import GraphprepError
from pipelines.commands.common import HELP_OPTIONS, fail
from pipelines.commands.options import names


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}, add_help_option=False
)
@click.argument("cache", shell_complete=names.caches)
@click.argument("trainer_options", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def train(context: click.Context, cache: str, trainer_options: tuple[str, ...]) -> None:
    """Train on a cache, one process a part on this machine: a path or NAME/LABEL, then the trainer's options.

    \b
    Examples:
      graphprep train digits/2x2
      graphprep train digits/2x2 --model sage --hidden 128 --epochs 100
      graphprep train digits/2x2 --auto           # exchange, relays and wires by `graphprep plan --best`
      graphprep train digits/2x2 --auto --pilot 40    # int8 and kept rows too, after short runs on this graph
      graphprep train digits/2x2 --rebalance --output runs/digits    # move nodes away from ranks that turn out slow
      graphprep train --help                      # the trainer's options
    """
    from pipelines.training.train import start_trainer, trainer_help

    if cache.startswith("-") and cache not in HELP_OPTIONS:
        fail(f"give the cache first, then the trainer's options: graphprep train CACHE {cache}", 2)
    if cache in HELP_OPTIONS:
        click.echo(context.get_help() + "\n\nThe trainer's own help:\n")
        context.exit(trainer_help())
    try:
        words = list(trainer_options)
        if "--auto" in words:
            from pipelines.training.auto import chosen_options, without_auto

            words, pilot_epochs = without_auto(words)
            words += chosen_options(cache, [word for word in words if word != "--rebalance"], pilot_epochs=pilot_epochs)
        if "--rebalance" in words:
            from pipelines.training.rebalanced import train_rebalanced

            context.exit(train_rebalanced(cache, [word for word in words if word != "--rebalance"]))
        context.exit(start_trainer(cache, words))
    except GraphprepError as error:
        fail(str(error), error.exit_status)
