"""`graphprep topology detect`, and docs/topology.md, whose commands test_documented_commands.py runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from graphprep.topology import Topology
from tests.end_to_end.test_cli import Done, run
from tests.topology.detect.saved_files import SAVED, topology_of

DOCUMENT = Path(__file__).parents[2] / "docs" / "topology.md"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder and a PATH in which there is no nvidia-smi."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def topology(*words: str | Path) -> Done:
    """A command of `graphprep topology`."""
    return run("topology", *words)


def blocks() -> list[str]:
    """The indented blocks of the documentation, without their indentation."""
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    joined = "\n".join(line[4:] if line.startswith("    ") else "\0" for line in lines)
    return [block.strip("\n") for block in joined.split("\0") if block.strip()]


def test_detect_prints_what_the_library_finds() -> None:
    """Guards against a command that shows something else than the function it calls."""
    done = topology("detect", "--file", SAVED / "dgx-1.txt", "--name", "dgx-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert Topology.from_text(done.stdout) == topology_of("dgx-1")
    assert done.stdout.startswith("# ")
    document = json.loads(topology("detect", "--file", SAVED / "dgx-1.txt", "--json", "--name", "dgx-1").stdout)
    assert Topology.from_long_form(document) == topology_of("dgx-1")


def test_detect_writes_a_file_that_show_accepts(tmp_path: Path) -> None:
    """Guards against a file that says more than a topology may, and against one that is replaced unasked."""
    path = tmp_path / "a100.yaml"
    words = ["detect", "--file", SAVED / "dgx-a100.txt", "--out", path]
    done = topology(*words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"wrote {path}\n")
    assert topology("show", path).returncode == 0
    assert Topology.from_file(path).name == "a100"
    again = topology(*words)
    assert again.returncode == 2
    assert again.stderr.startswith(f"graphprep: error: --out {path} exists already")
    assert topology(*words, "--replace").returncode == 0


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
    done = topology("detect", *words)
    assert (done.returncode, done.stdout) == (status, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("graphprep: error: ")
    assert expected in line


def test_the_topologies_of_the_documentation_can_be_read() -> None:
    """Guards against documentation of a form that the reader does not know."""
    found = [Topology.from_text(block) for block in blocks() if block.startswith("name: ")]
    assert [topology.num_ranks for topology in found] == [3, 8]


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
