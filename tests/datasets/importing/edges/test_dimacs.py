"""DIMACS graphs of both kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphprep.datasets.formats import text_file
from graphprep.errors import DatasetError
from tests.datasets.user_graphs import graph, rows_of, written


def test_arcs(tmp_path: Path) -> None:
    """Guards against roads called bad node ids, numbers from 1 taken as they are, and lost weights."""
    path = written(tmp_path / "roads.gr", "c distances\nc\np sp 4 3\na 1 2 80\na 2 1 7.5\r\na 4 4 1\n")
    assert rows_of(path, weights=True) == [(0, 1, 80.0), (1, 0, 7.5), (3, 3, 1.0)]
    raw = graph(path)
    assert raw.nodes["node"].num_nodes == 4
    assert raw.notes["ignored"] == {"roads.gr": ["weights"]}


def test_edges_go_both_ways(tmp_path: Path) -> None:
    """Guards against undirected edges of which one direction is lost, and lines about nodes taken for edges."""
    path = written(tmp_path / "queen.col", "p edge 3 3\nn 1 5\ne 1 2\n\ne 3 3\ne 2 3")
    assert rows_of(path) == [(0, 1), (2, 2), (1, 0), (1, 2), (2, 1)]


def test_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against edges lost between two blocks of a large file, and a wrong number of the line in an error."""
    monkeypatch.setattr(text_file, "BLOCK_BYTES", 16)
    lines = "".join(f"a {node} {node + 1} {node}\n" for node in range(1, 50))
    path = written(tmp_path / "g.gr", f"p sp 50 49\n{lines}")
    assert rows_of(path, weights=True) == [(node - 1, node, node) for node in range(1, 50)]
    written(path, f"p sp 49 49\n{lines}")
    with pytest.raises(DatasetError, match=r"line 50: 'a 49 50 49': its nodes are 1 .. 49"):
        rows_of(path, "dimacs")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("p sp 3 1\na 1 x 2\n", "line 2: 'a 1 x 2' is no line of a DIMACS graph"),
        ("p tw 3 1\n1 2\n", "line 2: '1 2' is no line of a DIMACS graph"),
        ("p sp 3 1\na 0 1 2\n", "line 2: 'a 0 1 2': its nodes are 1 .. 3"),
        ("p sp 3 2\na 1 2 2\n", "announces 2 arcs but has 1; it is cut short"),
        ("p sp 3 1\na 1 2\n", "line 2: 'a 1 2': there is no weight"),
        ("p sp 3 1\na 1 2 1e99\n", "line 2: 'a 1 2 1e99': the weight is beyond what float32 holds"),
        ("a 1 2\n", "has no line 'p sp N M'"),
    ],
)
def test_broken(tmp_path: Path, text: str, reason: str) -> None:
    """Guards against lines that are dropped, and files that are cut short."""
    with pytest.raises(DatasetError, match=reason):
        rows_of(written(tmp_path / "g.gr", text), "dimacs", weights=True)


def test_another_number_of_edges_than_announced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against published .col files, many of which count each edge twice in their first line, being refused."""
    assert len(rows_of(written(tmp_path / "g.col", "p edge 2 2\ne 1 2\n"))) == 2
    assert "announces 2 edges but has 1" in capsys.readouterr().err
