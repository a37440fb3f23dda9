"""The command line: the group of all commands, each of which lives in a module of `pipelines/commands/`.

A command parses, calls a pipeline and prints; it has no logic of its own. Results go to standard output, words for
people and progress to standard error. A command's module is imported when the command is first asked for, and heavy
packages inside the commands, so that `graphprep --help` answers at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

import click

from graphprep.version import __version__
from pipelines.commands.common import HELP_OPTIONS, OneSentence

MODULES = {"import": "import_files", "list": "list_datasets"} | {
    name: name
    for name in (
        *("cache", "clean", "compare", "completion", "doctor", "evaluate", "export", "fetch", "generate", "infer"),
        *("inspect", "partition", "plan", "report", "rescale", "run", "topology", "train", "verify"),
    )
}
"""by the command's name: the module in `pipelines/commands/`, and the command in it, which has the same name"""


class Commands(Mapping[str, click.Command]):
    """Commands by name, imported when they are asked for."""

    def __getitem__(self, name: str) -> click.Command:
        module = MODULES[name]
        command: click.Command = getattr(import_module(f"pipelines.commands.{module}"), module)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


@click.group(
    cls=OneSentence,
    commands=Commands(),
    context_settings={"help_option_names": HELP_OPTIONS, "max_content_width": 110},
)
@click.version_option(__version__, prog_name="graphprep")
def main() -> None:
    """Prepare a graph for full-graph training on several GPUs: fetch, convert, partition for the links, cache, train.

    \b
    Examples:
      graphprep fetch digits
      graphprep partition digits --topology 2x2
      graphprep inspect digits/2x2
      graphprep train digits/2x2
    """


if __name__ == "__main__":
    main()
