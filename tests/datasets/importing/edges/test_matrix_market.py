"""MatrixMarket files: directions, symmetric halves, and headers of matrices that are no graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from graphprep.errors import DatasetError
from tests.datasets.user_graphs import edges_of, graph, rows_of, written

HEAD = "%%MatrixMarket matrix coordinate"


def test_entries_are_edges_from_row_to_column(tmp_path: Path) -> None:
    """Guards against a transposed graph, and against ids that still count from 1."""
    path = written(tmp_path / "m.mtx", f"{HEAD} pattern general\n% c\n%\n\n3 3 3\n1 2\n3 1\n3 3\n")
    raw = graph(path)
    assert edges_of(raw.edges[0]) == [(0, 1), (2, 0), (2, 2)]
    assert raw.nodes["node"].num_nodes == 3
    assert raw.nodes["node"].original_id is None


def test_symmetric_matrices_give_both_directions(tmp_path: Path) -> None:
    """Guards against half a graph, and against a diagonal that is doubled."""
    path = written(tmp_path / "m.mtx", f"{HEAD} real symmetric\n3 3 3\n1 1 0.5\n2 1 2\n3 2 -1e1\n")
    edges = rows_of(path, weights=True)
    assert sorted(edges) == [(0, 0, 0.5), (0, 1, 2), (1, 0, 2), (1, 2, -10), (2, 1, -10)]
    with pytest.raises(DatasetError, match="no entry above the diagonal, but there is one in row 1 and column 2"):
        rows_of(written(tmp_path / "u.mtx", f"{HEAD} pattern symmetric\n2 2 1\n1 2\n"))


@pytest.mark.parametrize("field", ["pattern", "real", "integer"])
@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
def test_files_of_scipy(tmp_path: Path, field: str, symmetry: str) -> None:
    """Guards against another reading than that of SciPy, which writes many of these files."""
    rng = np.random.default_rng(3)
    dense = rng.integers(1, 9, (20, 20)) * (rng.random((20, 20)) < 0.2)
    if symmetry == "symmetric":
        dense = np.tril(dense) + np.tril(dense, -1).T
    scipy.io.mmwrite(tmp_path / "m.mtx", sp.coo_matrix(dense), field=field, symmetry=symmetry)
    edges = rows_of(tmp_path / "m.mtx", weights=field != "pattern")
    found = np.zeros((20, 20))
    for row, column, *weight in edges:
        found[row, column] += weight[0] if weight else 1
    assert np.array_equal(found, dense if field != "pattern" else dense != 0)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bad_header", "line 1: the matrix is 'bogus', neither of general and symmetric"),
        ("bad_dimensions", "no line with the numbers of rows, columns and entries"),
        ("mangle1", "line 1: it holds a 'junk', not a matrix"),
    ],
)
def test_real_broken_files(test_data: Path, name: str, words: str) -> None:
    """Guards against a traceback for the three broken files that people test readers with."""
    with pytest.raises(DatasetError, match=words):
        graph(test_data / "malformed" / f"{name}.mtx")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        ("3 3 1\n1 2\n", "line 1: a MatrixMarket file begins with %%MatrixMarket"),
        (f"{HEAD}\n3 3 1\n1 2\n", "line 1: .* is not '%%MatrixMarket matrix coordinate FIELD SYMMETRY'"),
        ("%%MatrixMarket matrix array real general\n2 2\n1\n0\n0\n1\n", "'array', not coordinate; an array lists"),
        (f"{HEAD} complex general\n2 2 1\n1 2 1 0\n", "line 1: the values are 'complex'"),
        (f"{HEAD} complex hermitian\n2 2 1\n1 2 1 0\n", "line 1: the values are 'complex'"),
        (f"{HEAD} real skew-symmetric\n2 2 1\n2 1 1\n", "line 1: the matrix is 'skew-symmetric'"),
        (f"{HEAD} pattern general\n2 2\n1 2\n", "line 2: '2 2' is not the numbers of"),
        (f"{HEAD} pattern general\n2 x 1\n1 2\n", "line 2: '2 x 1' is not the numbers of"),
        (f"{HEAD} pattern general\n0 0 0\n", "line 2: the matrix has no rows"),
        (f"{HEAD} pattern symmetric\n2 3 1\n2 1\n", "line 2: a symmetric matrix of 2 x 3 is not square"),
        (f"{HEAD} pattern general\n2 3 1\n2 1\n", "a matrix of 2 x 3, but one between nodes of one type is square"),
        (f"{HEAD} pattern general\n3 3 2\n1 2\n", "1 entries where line 2 says 2; it is cut short"),
        (f"{HEAD} pattern general\n3 3 1\n1 2\n2 3\n", "2 entries where line 2 says 1"),
        (f"{HEAD} pattern general\n3 3 1\n0 2\n", "line 3: the node id 0 is below 1"),
        (f"{HEAD} pattern general\n3 3 1\n-1 2\n", "line 3: the node id '-1' is negative"),
        (f"{HEAD} pattern general\n3 3 1\n1 4\n", "line 3: the node id 4 does not fit 3 nodes, whose ids are 1 .. N"),
        (f"{HEAD} pattern general\n3 3 1\n1 2 5\n", "line 3: 3 columns where the lines before have 2"),
        (f"{HEAD} real general\n3 3 1\n1 2\n", "line 3: 2 columns where the lines before have 3"),
        (f"{HEAD} pattern general\n3 3 1\n1 2.0\n", r"line 3: the node id '2\.0' is no whole number"),
        (f"{HEAD} pattern general\n3 3 1\n1 two\n", "line 3: 'two' is no node id"),
        (f"{HEAD} pattern general\n3 3 1\n1 \0\n", "line 3: there is a NUL byte"),
    ],
)
def test_broken_files(tmp_path: Path, text: str, words: str) -> None:
    """Guards against damaged matrices that are read as other graphs, and against matrices that are none."""
    with pytest.raises(DatasetError, match=words) as caught:
        edges_of(graph(written(tmp_path / "m.mtx", text)).edges[0])
    assert str(caught.value).startswith(str(tmp_path))


def test_weights(tmp_path: Path) -> None:
    """Guards against values that are no weights, and against weights that a pattern does not have."""
    with pytest.raises(DatasetError, match="line 4: 'nan' is no finite weight"):
        rows_of(written(tmp_path / "m.mtx", f"{HEAD} real general\n3 3 2\n1 2 1\n1 3 nan\n"), weights=True)
    path = written(tmp_path / "p.mtx", f"{HEAD} pattern general\n3 3 1\n1 2\n")
    with pytest.raises(DatasetError, match="no weights; its header says that it is a pattern"):
        rows_of(path, weights=True)
    with pytest.raises(DatasetError, match="no times"):
        rows_of(path, times=True)
    assert graph(tmp_path / "m.mtx").notes["ignored"] == {"m.mtx": ["values"]}


def test_under_the_name_of_text(tmp_path: Path) -> None:
    """Guards against a size line that is taken for an edge."""
    path = written(tmp_path / "m.txt", f"{HEAD} pattern general\n3 3 1\n1 2\n")
    with pytest.raises(DatasetError, match="MatrixMarket file, not text"):
        graph(path)
    assert rows_of(path, "mtx") == [(0, 1)]


def test_no_entries(tmp_path: Path) -> None:
    """Guards against an empty matrix that fails; it is a graph without edges."""
    raw = graph(written(tmp_path / "m.mtx", f"{HEAD} pattern general\n3 3 0\n"))
    assert raw.nodes["node"].num_nodes == 3
    assert edges_of(raw.edges[0]) == []
