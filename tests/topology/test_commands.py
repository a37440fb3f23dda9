"""`graphprep topology detect`, and the examples of docs/topology.md."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

import cli
from graphprep.topology import Topology
from graphprep.topology.probe.options import parse
from tests.topology.detect.saved_files import SAVED, topology_of

DOCUMENT = Path(__file__).parents[2] / "docs" / "topology.md"


def run(*words: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A command of `graphprep topology` in a process of its own."""
    command = [sys.executable, "-m", "cli", "topology", *map(str, words)]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(DOCUMENT.parents[1])}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, cwd=folder, env=environment
    )


def blocks() -> list[str]:
    """The indented blocks of the documentation, without their indentation."""
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    joined = "\n".join(line[4:] if line.startswith("    ") else "\0" for line in lines)
    return [block.strip("\n") for block in joined.split("\0") if block.strip()]


def commands() -> list[str]:
    lines = [line for block in blocks() for line in re.sub(r"\\\n\s*", "", block).splitlines()]
    return [line for line in lines if line.startswith(("graphprep", "torchrun"))]


def test_detect_prints_what_the_library_finds() -> None:
    """Guards against a command that shows something else than the function it calls."""
    done = run("detect", "--file", SAVED / "dgx-1.txt", "--name", "dgx-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert Topology.from_text(done.stdout) == topology_of("dgx-1")
    assert done.stdout.startswith("# ")
    document = json.loads(run("detect", "--file", SAVED / "dgx-1.txt", "--json", "--name", "dgx-1").stdout)
    assert Topology.from_long_form(document) == topology_of("dgx-1")


def test_detect_writes_a_file_that_show_accepts(tmp_path: Path) -> None:
    """Guards against a file that says more than a topology may, and against one that is replaced unasked."""
    path = tmp_path / "a100.yaml"
    words = ["detect", "--file", SAVED / "dgx-a100.txt", "--out", path]
    done = run(*words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"wrote {path}\n")
    assert run("show", path).returncode == 0
    assert Topology.from_file(path).name == "a100"
    again = run(*words)
    assert again.returncode == 2
    assert again.stderr.startswith(f"graphprep: error: --out {path} exists already")
    assert run(*words, "--replace").returncode == 0


@pytest.mark.parametrize(
    ("words", "status", "expected"),
    [
        ([], 4, "nvidia-smi is not here"),
        (["--file", "none.txt"], 4, "cannot read none.txt: No such file"),
        (["--file", __file__], 4, "holds no matrix of `nvidia-smi topo -m`"),
        (["--file", "x", "--name", ".."], 2, "--name '..' cannot name a cache's folder"),
        (["--file", "x", "--out", "none/x.yaml"], 2, "is no file in a folder that exists"),
    ],
)
def test_what_detect_refuses(tmp_path: Path, words: list[str], status: int, expected: str) -> None:
    """Guards against tracebacks, and against a machine without GPUs that is told nothing."""
    (tmp_path / "x").write_bytes((SAVED / "single.txt").read_bytes())
    done = run("detect", *words, folder=tmp_path)
    assert (done.returncode, done.stdout) == (status, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("graphprep: error: ")
    assert expected in line


def test_the_topologies_of_the_documentation_can_be_read() -> None:
    """Guards against documentation of a form that the reader does not know."""
    found = [Topology.from_text(block) for block in blocks() if block.startswith("name: ")]
    assert [topology.num_ranks for topology in found] == [3, 8]


def test_the_commands_of_the_documentation_work(tmp_path: Path) -> None:
    """Guards against documentation that shows options which do not exist, or that ends in an error."""
    (tmp_path / "saved.txt").write_bytes((SAVED / "dgx-a100.txt").read_bytes())
    ran = 0
    for line in commands():
        program, *words = shlex.split(line)
        if program == "torchrun":
            assert parse(words[words.index("graphprep.topology.probe") + 1 :])
        elif words[0] == "topology" and "probe" not in words and (words[1] != "detect" or "--file" in words):
            redirected = words.index(">") if ">" in words else len(words)
            done = run(*words[1:redirected], folder=tmp_path)
            assert done.returncode == 0, done.stderr
            if redirected < len(words):
                (tmp_path / words[-1]).write_text(done.stdout)
            ran += 1
        else:  # what needs a GPU, a driver or a store: its options at least are those of the command
            command: click.Command = cli.main
            while isinstance(command, click.Group):
                command = command.commands[words.pop(0)]
            command.make_context("example", words)
    assert ran == 5
    assert Topology.from_file(tmp_path / "mine.yaml").name == "2x4"


def test_the_documentation_names_all_presets_and_keys() -> None:
    """Guards against a preset or a key that nobody can find out about."""
    from graphprep.topology import preset_names
    from graphprep.topology.from_yaml import LinkForm, RankForm, TopologyForm
    from graphprep.topology.presets import CLUSTERS

    text = DOCUMENT.read_text(encoding="utf-8")
    for name in preset_names():
        assert any(word in text for word in (f"`{name}`", f"`-{name.partition('-')[2]}`")), name
    for model in (TopologyForm, RankForm, LinkForm):
        for key in model.model_fields:
            assert re.search(rf"\b{key}\b", text), key
    assert set(CLUSTERS) == {"2x2", "2x4", "4x8"}
