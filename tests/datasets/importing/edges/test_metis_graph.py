"""METIS files: real ones with their figures, every digit of FMT, and everything that METIS takes on trust."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphprep.datasets.formats import text_file
from graphprep.datasets.importing.edges.edge_file import EdgeOptions
from graphprep.datasets.importing.edges.metis_graph import MetisGraph
from graphprep.errors import DatasetError
from tests.datasets.user_graphs import edges_of, graph, rows_of, written

TRIANGLE = "3 3\n2 3\n1 3\n1 2\n"
BOTH_WAYS = [(1, 0), (2, 0), (0, 1), (2, 1), (0, 2), (1, 2)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "nodes", "edges"),
    [
        ("mdual.graph", 258_569, 513_132),
        ("fe_body.graph", 45_087, 163_734),
        ("4elt.graph", 15_606, 45_878),
        ("vibrobox.graph", 12_328, 165_250),
        ("test.mgraph", 766, 1_314),
    ],
)
def test_real_graphs(test_data: Path, name: str, nodes: int, edges: int) -> None:
    """Guards against lines that are lost or doubled: the archive's own figures, and both directions of every edge."""
    raw = graph(test_data / "graphs" / name)
    assert raw.nodes["node"].num_nodes == nodes
    pairs = np.array(edges_of(raw.edges[0]))
    assert len(pairs) == 2 * edges
    keys, mirrored = pairs[:, 0] * nodes + pairs[:, 1], pairs[:, 1] * nodes + pairs[:, 0]
    assert np.array_equal(np.unique(keys), np.sort(mirrored))


def test_two_weights_a_node(test_data: Path) -> None:
    """Guards against weights that are taken for neighbours; test.mgraph has two a node, some of them 0."""
    weight = graph(test_data / "graphs" / "test.mgraph").nodes["node"].more["vertex_weight"]
    assert weight.shape == (766, 2)
    assert weight[0].tolist() == [1, 1]
    assert weight.min() == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bad1", "line 3: the node weight -1 is negative"),
        ("bad2", "line 3: the edge weight 0 is not above 0"),
        ("bad3", "line 4: node 1 has the neighbour 5 twice"),
        ("bad4", "line 3: node 1 is its own neighbour"),
        ("bad5", "line 4: node 2 has the neighbour 1, but line 3 of node 1 does not have 2"),
    ],
)
def test_real_broken_graphs(test_data: Path, name: str, words: str) -> None:
    """Guards against graphs that METIS crashes on."""
    with pytest.raises(DatasetError, match=words):
        graph(test_data / "malformed" / f"{name}.graph")


@pytest.mark.parametrize(
    "text",
    [
        TRIANGLE,
        "% a\n%b\n3 3\n% c 7 8\n2 3\n1 3\n%d\n1 2",
        "3\t3 \n 2  3 \n1 3\t\n1 2\n\n  \n",
        TRIANGLE.replace("\n", "\r\n"),
        TRIANGLE.replace("\n", "\r"),
        "3 3 000\n3 2\n3 1\n2 1\n",
        "3 3 0\n2 3\n1 3\n1 2\n% end\n",
    ],
)
def test_ways_to_write_a_triangle(tmp_path: Path, text: str) -> None:
    """Guards against comments, white space and line ends of other systems that change the graph."""
    assert rows_of(written(tmp_path / "g.graph", text)) == BOTH_WAYS
    assert rows_of(written(tmp_path / "g.graph.gz", gzip.compress(text.encode()))) == BOTH_WAYS


@pytest.mark.parametrize(
    ("header", "first", "second", "sizes", "weights"),
    [
        ("2 1 1", "2 5", "1 5", None, None),
        ("2 1 10", "7 2", "8 1", None, [7, 8]),
        ("2 1 11", "7 2 5", "8 1 5", None, [7, 8]),
        ("2 1 100", "3 2", "4 1", [3, 4], None),
        ("2 1 111 2", "3 7 0 2 5", "4 8 9 1 5", [3, 4], [[7, 0], [8, 9]]),
        ("2 1 011 1", "7 2 5", "0 1 5", None, [7, 0]),
    ],
)
def test_every_digit_of_fmt(
    tmp_path: Path, header: str, first: str, second: str, sizes: list[int] | None, weights: list[int] | None
) -> None:
    """Guards against columns that are read as others: sizes, weights of nodes and of edges come in all combinations."""
    path = written(tmp_path / "g.graph", f"{header}\n{first}\n{second}\n")
    weighted = header.split()[2].endswith("1")
    assert rows_of(path, weights=weighted) == ([(1, 0, 5), (0, 1, 5)] if weighted else [(1, 0), (0, 1)])
    more = graph(path).nodes["node"].more
    found = {name: array.tolist() for name, array in more.items()}
    expected = {"vertex_size": sizes, "vertex_weight": weights}
    assert found == {name: values for name, values in expected.items() if values is not None}
    assert MetisGraph(path, EdgeOptions()).ignored == (("edge weights",) if weighted else ())


def test_isolated_nodes(tmp_path: Path) -> None:
    """Guards against empty lines that are skipped, which would shift every node after them."""
    path = written(tmp_path / "g.graph", "4 1\n\n4\n\n2\n")
    assert rows_of(path) == [(3, 1), (1, 3)]
    assert graph(path).nodes["node"].num_nodes == 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        ("% only\n", "has no header"),
        ("3\n", "line 1: a METIS header is"),
        ("3 3 0 1 5\n", "line 1: a METIS header is"),
        ("3 3 2\n2\n1\n\n", "line 1: the FMT 2"),
        ("3 3 1111\n", "line 1: the FMT 1111"),
        ("3 3 10 0\n", "line 1: FMT 10 does not go with 0"),
        ("3 3 0 2\n", "line 1: FMT 0 does not go with 2"),
        ("3 3 10 999999\n", "does not go with 999999"),
        ("0 0\n", "line 1: the graph has no nodes"),
        ("-3 3\n", "line 1: a METIS header is"),
        ("3 3\n2 3\n1 3\n", "2 lines of nodes where line 1 says 3; it is cut short"),
        ("999999999999 3\n2 3\n", "1 lines of nodes where line 1 says 999,999,999,999"),
        ("3 3\n2 3\n1 3\n1 2\n\n1\n", "line 6: there are more lines than the 3 nodes"),
        ("3 4\n2 3\n1 3\n1 2\n", "3 edges where its header on line 1 says 4"),
        ("3 3\n2 4\n1 3\n1 2\n", "line 2: the neighbour 4 is outside 1 .. 3"),
        ("3 3\n2 3\n1 0\n1 2\n", "line 3: the neighbour 0 is outside"),
        ("3 3\n2 3\n1 -3\n1 2\n", "line 3: the neighbour -3 is outside"),
        ("3 3\n2 x\n1 3\n1 2\n", "line 2: 'x' is no whole number"),
        ("3 3\n2 3\n1 3.0\n1 2\n", r"line 3: '3\.0' is no whole number"),
        ("3 3\n2 3\n1 3 #\n1 2\n", "line 3: '#' is no whole number"),
        ("3 3\n2 3\n1 -\n1 2\n", "line 3: '-' is no whole number"),
        ("3 3\n2 3\n1 99999999999999999999\n1 2\n", "line 3: '99999999999999999999' is no whole number of at most 18"),
        ("2 1 1\n2\n1 1\n", "line 2: .* pairs|line 2: a neighbour without a weight"),
        ("2 1 1\n2 5\n1 6\n", "line 2: the edge from node 1 to 2 has another weight than on line 3"),
        ("2 1 1\n2 -5\n1 -5\n", "line 2: the edge weight -5 is not above 0"),
        ("2 1 110 2\n3 1\n4 1 1 1\n", "line 2: 2 numbers, but a node begins with 3"),
        ("2 1 100\n-3 2\n4 1\n", "line 2: the size -3 is negative"),
    ],
)
def test_broken_graphs(tmp_path: Path, text: str, words: str) -> None:
    """Guards against a damaged file that is read as another graph; the line must be named."""
    with pytest.raises(DatasetError, match=words) as caught:
        graph(written(tmp_path / "g.graph", text))
    assert str(caught.value).startswith(str(tmp_path))


def test_what_the_format_cannot_give(tmp_path: Path) -> None:
    """Guards against weights of 1 for a person who asked for the file's weights."""
    path = written(tmp_path / "g.graph", TRIANGLE)
    with pytest.raises(DatasetError, match="no edge weights"):
        graph(path, weights=True)
    with pytest.raises(DatasetError, match="no times"):
        graph(path, edge_times=True)
    np.save(tmp_path / "x.npy", np.zeros((2, 1)))
    with pytest.raises(DatasetError, match=r"g\.graph has 3 nodes but .*x\.npy has 2"):
        graph(path, features=tmp_path / "x.npy")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pairs=st.sets(st.tuples(st.integers(0, 11), st.integers(0, 11)).filter(lambda pair: pair[0] < pair[1])),
    seed=st.integers(0, 10**6),
    size=st.integers(1, 40),
)
def test_any_graph_survives(tmp_path: Path, pairs: set[tuple[int, int]], seed: int, size: int) -> None:
    """Guards against edges lost where blocks of text meet, in whatever order neighbours are listed."""
    rng = np.random.default_rng(seed)
    near: list[list[int]] = [[] for _ in range(12)]
    for one, other in pairs:
        near[one].append(other)
        near[other].append(one)
    for listed in near:
        rng.shuffle(listed)
    lines = [" ".join(str(other + 1) for other in listed) for listed in near]
    path = written(tmp_path / "g.graph", f"12 {len(pairs)}\n" + "\n".join(lines) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_file, "BLOCK_BYTES", size)
        assert sorted(rows_of(path)) == sorted([*pairs, *((other, one) for one, other in pairs)])
