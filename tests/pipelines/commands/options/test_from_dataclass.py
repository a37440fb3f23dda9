"""Every option of a step is in the help of its command, in the form of a pipeline's file, and in docs/."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

import cli
from docs.option_tables import BLOCK, FORMS, REQUESTS, table_of, with_tables
from graphprep.datasets.importing.event_options import EventOptions
from graphprep.system.options import options_in
from graphprep.topology.probe.options import ProbeOptions
from pipelines.run.config import DatasetForm, GenerateForm, ImportForm, PartitionForm
from pipelines.run.forms import Form

DOCS = Path(__file__).parents[4] / "docs"
STEPS = REQUESTS | {"topology probe": (ProbeOptions,)}
DECIDED_LATER = (("partition", "effort"), ("partition", "row_bytes"))
"""Options whose default depends on others."""
FORM_OF = {"partition": PartitionForm, "import": ImportForm}
OF_PIPELINES = {
    step: tuple(request for request in requests if request is not EventOptions)
    for step, requests in REQUESTS.items()
    if not step.endswith(" events")
}
"""A pipeline makes caches of graphs, none of streams of events."""


def command_of(step: str) -> click.Command:
    """The command that is called so."""
    command: click.Command = cli.main
    for word in step.split():
        if isinstance(command, click.Group):
            command = command.commands[word]
    return command


def form_of(step: str) -> type[Form]:
    """The form of a pipeline's file for a step."""
    if step in FORM_OF:
        return FORM_OF[step]
    generators = GenerateForm(**{step.split()[1]: None})
    annotation = type(generators).model_fields[step.split()[1]].annotation
    return next(part for part in annotation.__args__ if part is not type(None))  # type: ignore[union-attr]


@pytest.mark.parametrize("step", STEPS)
def test_every_option_is_in_the_help(step: str) -> None:
    """Guards against an option, or a choice of it, that the command does not offer, or offers with another default."""
    command = command_of(step)
    parameters = {parameter.name: parameter for parameter in command.params}
    help_text = " ".join(command.get_help(click.Context(command, terminal_width=10_000)).split())
    for option in (option for request in STEPS[step] for option in options_in(request)):
        parameter = parameters[option.name]
        if isinstance(parameter, click.Option):
            assert option.flag in help_text
            assert " ".join(option.help.split()) in help_text
            assert parameter.required == option.is_required
            if not option.is_required and (step, option.name) not in DECIDED_LATER:
                assert parameter.default == option.joined(option.default), option.name
        for choice in option.choices:
            assert choice in help_text, option.name


@pytest.mark.parametrize("step", OF_PIPELINES)
def test_every_option_is_a_key_of_a_pipelines_file(step: str) -> None:
    """Guards against an option that only the command line knows, or a key with another default."""
    fields = {field.alias or name: field for name, field in form_of(step).model_fields.items()}
    options = {option.name: option for request in OF_PIPELINES[step] for option in options_in(request)}
    assert list(fields) == list(options)
    for name, option in options.items():
        assert fields[name].is_required() == option.is_required, name
        if not option.is_required:
            assert option.parsed(fields[name].default) == option.default, name


def test_keys_of_a_dataset_are_options_of_fetch() -> None:
    """Guards against a key beside `import`, `generate` and `store` that means something else than the option."""
    parameters = {parameter.name for parameter in command_of("fetch").params}
    assert {*DatasetForm.model_fields} - {"import_", "generate", "store"} <= parameters


@pytest.mark.parametrize("name", [*REQUESTS, *FORMS])
def test_every_option_is_in_the_docs(name: str) -> None:
    """Guards against a table that was written by hand; `python -m docs.option_tables docs/*.md` writes it anew."""
    pages = [page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("*.md"))]
    assert any(f"<!-- options: {name} -->" in page for page in pages)
    assert table_of(name).count("\n") > 3
    for page in pages:
        assert with_tables(page) == page
        for block in BLOCK.finditer(page):
            assert block[2] in REQUESTS | FORMS


def test_help_of_every_command_imports_nothing_heavy() -> None:
    """Guards against an option class that imports what only its command needs, and so makes `--help` take seconds."""
    script = (
        "import sys, cli\n"
        "def below(group):\n"
        "    for command in group.commands.values():\n"
        "        command.get_short_help_str()\n"
        "        if hasattr(command, 'commands'): below(command)\n"
        "below(cli.main)\n"
        "print([m for m in ('numpy', 'torch', 'zarr', 'numba', 'pydantic', 'yaml') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
