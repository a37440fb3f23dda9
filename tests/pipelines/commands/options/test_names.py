"""Shell completion: the scripts are valid, names of datasets, caches and presets come out, and nothing ever fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

import cli
from pipelines.commands.completion import VARIABLE
from pipelines.commands.options import names
from tests.end_to_end.test_cli import run


def completed(*words: str) -> list[str]:
    """What the shell would be offered after `words`, the last of which is being typed."""
    found = BashComplete(cli.main, {}, "graphprep", VARIABLE)
    return [item.value for item in found.get_completions(list(words[:-1]), words[-1])]


def commands_below(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    """Every command and group with the words that lead to it."""
    found: list[tuple[tuple[str, ...], click.Command]] = []
    for name, command in group.commands.items():
        found.append(((*path, name), command))
        if isinstance(command, click.Group):
            found += commands_below(command, (*path, name))
    return found


@pytest.mark.parametrize("words", [words for words, _ in commands_below(cli.main)], ids=" ".join)
def test_every_help_has_an_example(words: tuple[str, ...]) -> None:
    """Guards against a command that a newcomer has to guess the use of."""
    command: click.Command = cli.main
    for word in words:
        assert isinstance(command, click.Group)
        command = command.commands[word]
    assert command.help is not None
    assert "Example" in command.help
    assert f"graphprep {' '.join(words)}" in command.help


def test_names_that_are_here_are_offered(graphprep_home: Path) -> None:
    """Guards against a completion that knows options and no dataset."""
    (graphprep_home / "stores" / "mine.zarr").mkdir(parents=True)
    (graphprep_home / "caches" / "mine" / "2x2").mkdir(parents=True)
    (graphprep_home / "caches" / "mine" / ".partial-0").mkdir(parents=True)
    assert "citeseer" in completed("fetch", "ci")
    assert completed("inspect", "m") == ["mine", "mine/2x2"]
    assert completed("train", "mi") == ["mine/2x2"]
    assert completed("partition", "mi") == ["mine"]
    assert "2x2-10gbe" in completed("partition", "mine", "--topology", "2x2")
    assert "doctor" in completed("do")
    assert "--html" in completed("inspect", "mine", "--h")


def test_an_error_offers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a traceback in the middle of a command line that is being typed."""
    monkeypatch.setenv("GRAPHPREP_HOME", "/dev/null")
    assert completed("inspect", "x") == []
    assert names.stores(click.Context(cli.main), click.Argument(["x"]), "") == []


def test_the_scripts_are_valid() -> None:
    """Guards against a script that breaks the shell that reads it; shells that are not here are not asked."""
    for shell, check in (("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])):
        done = run("completion", shell)
        assert done.returncode == 0
        assert f"{VARIABLE}={shell}_complete" in done.stdout
        if shutil.which(shell):
            subprocess.run(check, input=done.stdout, text=True, check=True)
    environment = {**os.environ, VARIABLE: "bash_complete", "COMP_WORDS": "graphprep topology sh", "COMP_CWORD": "2"}
    answer = subprocess.run(
        [sys.executable, "-c", "import cli; cli.main(prog_name='graphprep')"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout == "plain,show\n"
