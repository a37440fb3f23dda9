"""`graphprep completion`: the script for a shell."""

from __future__ import annotations

import click

from pipelines.commands.common import common_without_json

VARIABLE = "_GRAPHPREP_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@common_without_json
def completion(shell: str) -> None:
    """Print the script that makes a shell complete commands, options, and names of datasets, caches and topologies.

    \b
    Examples:
      graphprep completion bash >> ~/.bashrc
      graphprep completion zsh >> ~/.zshrc        # after compinit
      graphprep completion fish > ~/.config/fish/completions/graphprep.fish
    """
    from click.shell_completion import get_completion_class

    complete_class = get_completion_class(shell)
    assert complete_class is not None  # click has these three
    root = click.get_current_context().find_root().command
    # click's own class asks the installed bash for its version, which need not be the one that reads the script.
    script = complete_class(root, {}, "graphprep", VARIABLE)
    click.echo(script.source_template % script.source_vars())
