"""What a name means, and what is suggested for one that means nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from cli import main
from graphprep import open_cache, open_store
from graphprep.errors import CacheError, DatasetError
from graphprep.system import home
from graphprep.topology import Topology, resolve
from pipelines.look import find
from tests.graphs import labelled_graph
from tests.stores import make_cache, make_store


@pytest.fixture
def here(graphprep_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder; GRAPHPREP_HOME has the store `mine` and its cache mine/flat-2."""
    store = make_store(labelled_graph(np.random.default_rng(1), 90, 700, undirected=True), name="mine")
    make_cache(store, Topology.flat(2), home.cache_path("mine", "flat-2"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def test_a_folder_of_the_same_name_hides_nothing(here: Path) -> None:
    """Guards against `mine is not a graph store` where a folder of the user's files is called like the dataset."""
    (here / "mine" / "flat-2").mkdir(parents=True)
    assert find("mine") == ("store", home.store_path("mine"))
    assert find("mine/flat-2") == ("cache", home.cache_path("mine", "flat-2"))
    assert home.find_store("mine") == home.store_path("mine")
    assert home.require_cache("mine/flat-2") == home.cache_path("mine", "flat-2")
    assert open_store("mine").num_nodes == {"node": 90}
    assert open_cache("mine/flat-2").num_parts == 2
    for words in (["inspect", "mine"], ["verify", "mine/flat-2"], ["partition", "mine", "--parts", "2", "--dry-run"]):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output


def test_a_path_is_a_path(here: Path) -> None:
    """Guards against `./mine` that is taken for the store in GRAPHPREP_HOME."""
    (here / "mine" / "flat-2").mkdir(parents=True)
    assert home.find_store("./mine") == Path("mine")
    with pytest.raises(DatasetError, match="not a graph store"):
        open_store("./mine")
    with pytest.raises(CacheError):
        open_cache("./mine/flat-2")


def test_where_both_could_be_meant_it_is_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a store or cache that is taken in place of another without a word."""
    graph = labelled_graph(np.random.default_rng(2), 50, 300, undirected=True)
    own = make_store(graph, name="mine", target=here / "mine")
    capsys.readouterr()
    assert open_store("mine").num_nodes == {"node": 90}
    said = capsys.readouterr().err
    assert f"mine is taken for {home.store_path('mine')}; give ./mine for the store in the current folder" in said
    assert open_store("./mine").num_nodes == own.num_nodes == {"node": 50}
    assert capsys.readouterr().err == ""
    (here / "mine").rename(here / "aside")
    make_cache(own := make_store(graph, name="other"), Topology.flat(2), here / "mine" / "flat-2")
    capsys.readouterr()
    assert home.find_cache("mine/flat-2") == home.cache_path("mine", "flat-2")
    assert "give ./mine/flat-2 for the cache in the current folder" in capsys.readouterr().err
    assert open_cache("./mine/flat-2").attributes["dataset"] == own.name


def test_a_folder_is_found_where_the_home_has_none(here: Path) -> None:
    """Guards against a relative path without ./ that is no longer found."""
    make_store(labelled_graph(np.random.default_rng(2), 50, 300, undirected=True), name="x", target=here / "own")
    assert open_store("own").num_nodes == {"node": 50}
    make_cache(open_store("own"), Topology.flat(2), here / "parts" / "two")
    assert open_cache("parts/two").num_parts == 2
    assert find("parts/two")[0] == "cache"


def test_a_preset_and_a_file_of_one_name(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a user's file `2x4` that is passed over in silence."""
    (here / "2x4").write_text(Topology.flat(3).to_yaml())
    capsys.readouterr()
    assert resolve("2x4").num_ranks == 8
    assert "give ./2x4 for the file" in capsys.readouterr().err
    assert resolve("./2x4").num_ranks == 3


@pytest.mark.parametrize(
    ("words", "status", "suggestion"),
    [
        (["inspect", "mien"], 3, "did you mean 'mine'?"),
        (["inspect", "mine/flat-3"], 6, "did you mean 'mine/flat-2'?"),
        (["evaluate", "mine", "x.npy"], 6, "did you mean 'mine/flat-2'?"),
        (["partition", "mine", "--parts", "2", "--method", "meti"], 2, "did you mean 'metis'?"),
        (["partition", "mine", "--parts", "2", "--effort", "fats"], 2, "did you mean 'fast'?"),
        (["partition", "mine", "--topology", "2x5"], 4, "did you mean '2x"),
        (["export", "mine/flat-2", "out", "--format", "dlg"], 2, "did you mean 'dgl'?"),
        (["plan", "mine/flat-2", "--model", "sgae"], 2, "did you mean 'sage'?"),
        (["fetch", "corra"], 3, "did you mean cora"),
        (["lits"], 2, "Did you mean 'list'?"),
        (["partition", "mine", "--part", "2"], 2, "Did you mean one of: '--parts', '--rates', '--split'?"),
    ],
)
def test_what_is_meant_is_suggested(
    here: Path, words: list[str], status: int, suggestion: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against an unknown word that gets no suggestion where one is near."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    told = capsys.readouterr()
    assert ended.value.code == status
    assert suggestion in told.err
    assert told.out == ""


@pytest.mark.parametrize("words", [[], ["topology"], ["cache"], ["generate"]])
def test_a_group_alone_prints_its_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against `error: Usage: ...; see --help` for a person who typed nothing wrong."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    told = capsys.readouterr()
    assert ended.value.code == 2
    assert "error" not in told.err
    assert told.err.startswith("Usage:")
    assert "Commands:" in told.err
