"""Files that people get."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphprep.errors import UsageError
from graphprep.system.files.output_path import checked_file
from graphprep.topology import Topology, resolve
from graphprep.topology.to_yaml import as_text, chosen_name, save


def test_comments_are_lines_of_their_own(tmp_path: Path) -> None:
    """Guards against a comment whose second line is read as YAML."""
    path = tmp_path / "t.yaml"
    save(resolve("2x2"), ["one\nname: two", "x" * 500], path)
    lines = path.read_text().splitlines()
    assert lines[0] == "# one name: two"
    assert lines[1].startswith("# xxx")
    assert len(lines[1]) <= 120
    assert Topology.from_file(path) == resolve("2x2")
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.yaml"]


def test_a_topology_without_links_is_still_a_file() -> None:
    """Guards against an empty list that is written as nothing at all."""
    text = as_text(Topology.from_text("name: alone\nranks: [{name: gpu0, machine: m0}]\n"), [])
    assert "links: []" in text


def test_where_a_file_may_go(tmp_path: Path) -> None:
    """Guards against work that ends in a file that cannot be written, or replaces one that was not to be replaced."""
    path = tmp_path / "t.yaml"
    assert checked_file(path, replace=False) == path
    path.write_text("precious")
    with pytest.raises(UsageError, match="exists already; give another path, or --replace"):
        checked_file(path, replace=False)
    assert checked_file(path, replace=True) == path
    for wrong in (tmp_path, tmp_path / "none" / "t.yaml", Path("")):
        with pytest.raises(UsageError, match="is no file in a folder that exists"):
            checked_file(wrong, replace=True)


def test_names() -> None:
    """Guards against a file name that makes a topology that its own reader refuses."""
    assert chosen_name("given", Path("x.yaml"), "other") == "given"
    assert chosen_name(None, Path("a/my machine (2).yaml"), "other") == "my-machine-2-"
    assert chosen_name(None, Path("-.yaml"), "other") == "other"
    assert chosen_name(None, None, "other") == "other"
    with pytest.raises(UsageError, match=r"--name 'a/b' cannot name a cache's folder"):
        chosen_name("a/b", None, "other")
