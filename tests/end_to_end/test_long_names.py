"""Names that no file system takes: refused before any work, in one sentence that has the limit and not the name."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from cli import main
from graphprep.errors import UsageError, operating_system_sentence
from graphprep.store.convert import scratch_of
from graphprep.system import home
from graphprep.system.files.atomic import locked, published_file
from graphprep.system.files.output_path import LONGEST_NAME, checked_target
from graphprep.topology import Topology
from tests.graphs import labelled_graph
from tests.stores import make_store

LONG = "n" * 300


def refused(*words: str) -> Result:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert f"at most {LONGEST_NAME} bytes" in result.stderr
    assert LONG not in result.stderr
    return result


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    (tmp_path / "edges.txt").write_text("0 1\n1 2\n")
    return tmp_path / "edges.txt"


def test_long_dataset_name(edges: Path, graphprep_home: Path) -> None:
    """Guards against an import that reads its files first, and then fails at the name of a lock."""
    refused("import", str(edges), "--name", LONG)
    refused("generate", "grid", "--name", LONG, "--sides", "9x9")
    assert list(graphprep_home.rglob("*")) == []


@pytest.mark.parametrize("name", [LONG, "é" * 120, "n" * (LONGEST_NAME + 1)])
def test_long_out(name: str, edges: Path, tmp_path: Path) -> None:
    """Guards against a limit in letters: a file system counts bytes."""
    refused("import", str(edges), "--name", "short", "--out", str(tmp_path / name))
    with pytest.raises(UsageError, match="at most 220 bytes"):
        checked_target(tmp_path / name)


def test_long_cache_names(tmp_path: Path) -> None:
    """Guards against a partitioning that ends at the name of its folder, and a long name that is looked for."""
    make_store(labelled_graph(np.random.default_rng(0), 40, 200), name="mine")
    refused("partition", "mine", "--parts", "2", "--out", str(tmp_path / LONG))
    result = CliRunner().invoke(main, ["inspect", LONG])
    assert result.exit_code == 1
    assert "of 300 bytes, is too long for a file" in result.stderr.splitlines()[-1]
    with pytest.raises(UsageError, match="topology: the name 'nnn"):
        home.cache_path("mine", LONG)
    written = f"name: {LONG}\nranks: [{{name: a, machine: m}}]\nlinks: []\n"
    with pytest.raises(Exception, match="up to 100 letters") as caught:
        Topology.from_text(written, origin="it")
    assert LONG not in str(caught.value)


def test_the_longest_name_fits(tmp_path: Path) -> None:
    """Guards against a limit that lets names pass whose locks or scratch folders are too long."""
    name = "n" * LONGEST_NAME
    target = checked_target(tmp_path / f"{name}.zarr")
    for folder in (*scratch_of(target), target, target.with_name(f".replaced-{target.name}")):
        folder.mkdir()
    with locked(target, "it"), published_file(tmp_path / name) as file:
        file.write(b"whole")
    assert (tmp_path / name).read_bytes() == b"whole"


def test_any_other_name_that_is_too_long(tmp_path: Path) -> None:
    """Guards against 300 letters in a sentence whose advice is GRAPHPREP_HOME."""
    with pytest.raises(OSError, match="too long") as caught:
        (tmp_path / LONG).write_text("x")
    assert caught.value.errno == errno.ENAMETOOLONG
    sentence = operating_system_sentence(caught.value)
    assert sentence == f"the name '{'n' * 40}...', of 300 bytes, is too long for a file; shorten it"
