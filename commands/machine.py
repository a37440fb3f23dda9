"""Commands about this machine: doctor, completion."""

from __future__ import annotations

import sys

import click

from commands.common import as_json, common, print_json

VARIABLE = "_GRAPHPREP_COMPLETE"


@click.command()
@as_json
@common
def doctor(json_output: bool) -> None:
    """Say what is installed here, which GPUs there are, and how much room; with advice where something is amiss.

    \b
    Examples:
      graphprep doctor
      graphprep doctor --json > doctor.json       # to go with a report of a fault
    """
    from graphprep.doctor import examine

    found = examine()
    if json_output:
        print_json(found)
    else:
        from graphprep.inspect.doctor_tables import print_doctor

        print_doctor(found, sys.stdout)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@common
def completion(shell: str) -> None:
    """Print the script that makes a shell complete commands, options, and names of datasets, caches and topologies.

    \b
    Examples:
      graphprep completion bash >> ~/.bashrc
      graphprep completion zsh >> ~/.zshrc        # after compinit
      graphprep completion fish > ~/.config/fish/completions/graphprep.fish
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None  # click has these three
    root = click.get_current_context().find_root().command
    # click's own class asks the installed bash for its version, which need not be the one that reads the script.
    script = found(root, {}, "graphprep", VARIABLE)
    click.echo(script.source_template % script.source_vars())
