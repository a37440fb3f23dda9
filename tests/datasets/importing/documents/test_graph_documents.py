"""GraphML, GEXF, GML, Pajek and node-link JSON: what is read, what is said, and what is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

from graphprep.core.types import RawGraph
from graphprep.datasets.importing.edges.edge_formats import DOCUMENTS, format_of
from graphprep.errors import DatasetError, UsageError
from pipelines import ingest
from tests.datasets.user_graphs import edges_of, graph, written

PAJEK = '*Vertices 3\n1 "Ann" 0.1 0.2 ellipse\n2 "Bo b"\n3 Cy\n*Arcs\n1 2 2.5\n1 2 1\n3 3 4\n*Edges\n2 3 7 c Blue\n'
GRAPHML = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="w" for="edge" attr.name="weight" attr.type="double"/>
<graph edgedefault="directed">{body}</graph></graphml>"""


def example(*, directed: bool) -> Any:
    """Three nodes with words for ids, a parallel edge, a self-loop, and attributes of all kinds."""
    made = networkx.MultiDiGraph() if directed else networkx.MultiGraph()
    for node, age, club in (("c", 1.5, "red"), ("a", 2.5, "blue"), ("b", 3.5, "red")):
        made.add_node(node, age=age, club=club)
    for one, other, weight in (("c", "a", 2.0), ("c", "a", 3.0), ("b", "b", 4.0), ("a", "b", 5.0)):
        made.add_edge(one, other, weight=weight)
    return made


def document(folder: Path, format: str, made: Any) -> Path:
    """A NetworkX graph as NetworkX writes it."""
    path = folder / f"g.{'net' if format == 'pajek' else format}"
    if format == "json":
        return written(path, json.dumps(networkx.node_link_data(made, edges="links")))
    getattr(networkx, f"write_{format}")(made, path)
    return path


def ends(raw: RawGraph) -> list[Any]:
    """Edges by the nodes' ids, sorted."""
    ids = raw.nodes["node"].original_id
    return sorted(
        (str(one if ids is None else ids[one]), str(other if ids is None else ids[other]), *rest)
        for one, other, *rest in edges_of(raw.edges[0])
    )


def summary(raw: RawGraph, capsys: pytest.CaptureFixture[str]) -> str:
    """All that an import says on standard error, its summary included."""
    ingest.say_read_as(raw.notes)
    return capsys.readouterr().err


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("format", ["graphml", "gexf", "json"])
def test_what_networkx_writes(tmp_path: Path, format: str, directed: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a document called a list of bad node ids; lost parallel edges, self-loops, directions, weights."""
    path = document(tmp_path, format, example(directed=directed))
    raw = graph(path, weights=True, label=("club",), feature=("age",))
    nodes = raw.nodes["node"]
    assert nodes.original_id is not None
    assert nodes.original_id.tolist() == ["c", "a", "b"]
    one_way = [("a", "b", 5.0), ("b", "b", 4.0), ("c", "a", 2.0), ("c", "a", 3.0)]
    back = [] if directed else [("b", "a", 5.0), ("a", "c", 2.0), ("a", "c", 3.0)]
    assert ends(raw) == sorted(one_way + back)
    assert nodes.x is not None
    assert (nodes.x.dtype, nodes.x.tolist()) == (np.float32, [[1.5], [2.5], [3.5]])
    assert nodes.y is not None
    assert nodes.y.tolist() == [1, 0, 1]
    assert raw.notes["classes"] == ["blue", "red"]
    said = summary(raw, capsys)
    assert said.count("3, ids of words kept as original_id, rows in the given order, x, y, labels without") == 1
    assert said.count(f"4 edges, {'directed' if directed else 'undirected, so each is kept in both directions'}") == 1
    assert said.count("0 is 'blue', 1 is 'red'") == 1
    assert said.count("random split was drawn, 20 nodes of each class to train") == 1


def test_attributes_are_left_out_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against attributes that become labels unasked, and against silence about those left out."""
    raw = graph(document(tmp_path, "graphml", example(directed=True)))
    assert raw.nodes["node"].x is None
    assert raw.nodes["node"].y is None
    said = summary(raw, capsys)
    assert said.count("left out: node age, node club, edge weight") == 1
    assert said.count("weight") == 1
    assert raw.notes["ignored"] == {"g.graphml": ["node age", "node club", "edge weight"]}


def test_gml(tmp_path: Path) -> None:
    """Guards against parallel edges refused where `multigraph 1` is not written, and labels of which two are equal."""
    text = (
        'Creator "a graph [ in words"\ngraph\n[\n  directed 0\n  node [ id 7 label "x" value 1 ]\n'
        '  node [ id 5 label "x" value 0 ]\n  edge [ source 7 target 5 ]\n  edge [ source 7 target 5 ]\n]\n'
    )
    raw = graph(written(tmp_path / "g.gml", text), label=("value",))
    assert raw.nodes["node"].original_id.tolist() == [7, 5]  # type: ignore[union-attr]
    assert raw.nodes["node"].y.tolist() == [1, 0]  # type: ignore[union-attr]
    assert ends(raw) == [("5", "7"), ("5", "7"), ("7", "5"), ("7", "5")]


def test_pajek(tmp_path: Path) -> None:
    """Guards against arcs beside edges taken for undirected, and numbers from 1 taken as they are."""
    raw = graph(written(tmp_path / "g.net", PAJEK), weights=True)
    assert raw.nodes["node"].original_id.tolist() == ["Ann", "Bo b", "Cy"]  # type: ignore[union-attr]
    assert ends(raw) == [
        ("Ann", "Bo b", 1.0),
        ("Ann", "Bo b", 2.5),
        ("Bo b", "Cy", 7.0),
        ("Cy", "Bo b", 7.0),
        ("Cy", "Cy", 4.0),
    ]


def test_pajek_labels_of_which_two_are_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against vertices that become one because they have one label; isolated ones stay."""
    raw = graph(written(tmp_path / "g.net", '*Vertices 4\n1 "a"\n2 "a"\n*Edges\n1 2\n'))
    assert raw.nodes["node"].num_nodes == 4
    assert raw.nodes["node"].original_id is None
    assert ends(raw) == [("0", "1"), ("1", "0")]
    assert "ids are the numbers, from 0, not labels" in capsys.readouterr().err


def test_ids_that_are_row_numbers(tmp_path: Path) -> None:
    """Guards against nodes 0 .. N-1 that are numbered anew because the document lists them in another order."""
    text = '{"directed": true, "nodes": [{"id": 2, "y": 1}, {"id": 0, "y": 0}, {"id": 1}], "edges": '
    text += '[{"source": 2, "target": 0}, {"source": 1, "target": 2}]}'
    raw = graph(written(tmp_path / "g.json", text), label=("y",))
    assert raw.nodes["node"].original_id is None
    assert ends(raw) == [("1", "2"), ("2", "0")]
    assert raw.nodes["node"].y.tolist() == [0, -1, 1]  # type: ignore[union-attr]


@pytest.mark.parametrize(("ids", "original"), [("auto", None), ("words", ["0", "1"])])
def test_numbers_written_as_words(tmp_path: Path, ids: Any, original: list[str] | None) -> None:
    """Guards against GraphML's ids, which are always text, that cannot be numbers or cannot stay words."""
    body = '<node id="0"/><node id="1"/><edge source="0" target="1"/>'
    raw = graph(written(tmp_path / "g.graphml", GRAPHML.format(body=body)), ids=ids)
    found = raw.nodes["node"].original_id
    assert (None if found is None else found.tolist()) == original


def test_d3_without_ids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against the places that early D3 files name, and a direction that is guessed in silence."""
    text = '{"nodes": [{"name": "a"}, {"name": "b"}], "links": [{"source": 1, "target": 0, "value": 3}]}'
    raw = graph(written(tmp_path / "g.json", text), weights=True)
    assert ends(raw) == [("0", "1", 3.0), ("1", "0", 3.0)]
    assert "taken as undirected" in capsys.readouterr().err


def test_vectors_are_features(tmp_path: Path) -> None:
    """Guards against lists of numbers that are no features."""
    text = '{"directed": true, "nodes": [{"id": 0, "x": [1, 2]}, {"id": 1, "x": [3, 4]}], "links": []}'
    assert graph(written(tmp_path / "g.json", text), feature=("x",)).nodes["node"].x.tolist() == [  # type: ignore[union-attr]
        [1, 2],
        [3, 4],
    ]


def test_times_and_missing_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against weights of 0 or NaN where an edge has none, which counts 1 in these formats."""
    made = networkx.MultiDiGraph()
    made.add_edge("a", "b", weight=3.0, time=7)
    made.add_edge("b", "a", time=9)
    raw = graph(document(tmp_path, "json", made), weights=True, edge_times=True)
    assert ends(raw) == [("a", "b", 3.0), ("b", "a", 1.0)]
    assert raw.edges[0].attributes["time"].tolist() == [7, 9]
    assert "1 of 2 edges have no weight, and get 1" in capsys.readouterr().err


def test_mutual_edges_of_gexf(tmp_path: Path) -> None:
    """Guards against an edge that goes both ways and is counted as a loss."""
    text = (
        '<gexf xmlns="http://gexf.net/1.3" version="1.3"><graph defaultedgetype="directed"><nodes><node id="a"/>'
        '<node id="b"/></nodes><edges><edge id="0" source="a" target="b" type="mutual"/></edges></graph></gexf>'
    )
    assert ends(graph(written(tmp_path / "g.gexf", text))) == [("a", "b"), ("b", "a")]


def test_whole_numbers_to_predict(tmp_path: Path) -> None:
    """Guards against whole numbers that are to be predicted becoming classes, and -1 for a number that is unknown."""
    text = '{"directed": true, "nodes": [{"id": 0, "age": 31}, {"id": 1}], "links": []}'
    y = graph(written(tmp_path / "g.json", text), label=("age",), task="regression").nodes["node"].y
    assert y is not None
    assert y.dtype.kind == "f"
    assert np.array_equal(y.ravel(), [31, np.nan], equal_nan=True)


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("format", [*DOCUMENTS, "dimacs"])
def test_formats_by_their_first_bytes(tmp_path: Path, format: str, pack: bool) -> None:
    """Guards against a file with another ending that is called a list of bad node ids."""
    if format == "dimacs":
        data = b"c roads\n\np sp 2 1\na 1 2 3\n"
    elif format == "pajek":
        data = PAJEK.encode()
    else:
        made = networkx.Graph([(0, 1)])
        data = document(tmp_path, format, made).read_bytes()
    path = written(tmp_path / ("e.txt.gz" if pack else "e.txt"), gzip.compress(data) if pack else data)
    assert format_of(path) == format
    assert graph(path).nodes["node"].num_nodes >= 2


@pytest.mark.parametrize("text", ["0 1\n1 2\n", "# graph [\n0 1\n", "p 1\n", "%d\n0 1\n", "graph,to\n1,2\n"])
def test_lists_of_edges_stay_text(tmp_path: Path, text: str) -> None:
    """Guards against an edge list that is taken for a document."""
    assert format_of(written(tmp_path / "e.txt", text)) == "text"


BOMB = """<?xml version="1.0"?><!DOCTYPE g [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph><node id="&b;"/></graph></graphml>"""
ONE = '<node id="a"/>'
BROKEN = [
    ("g.graphml", BOMB, "declares entities"),
    ("g.graphml", BOMB.encode("utf-16"), "is UTF-16 text"),
    ("g.graphml", GRAPHML.format(body=ONE)[:-20], "no XML from line"),
    ("g.graphml", "<gexf/>", "outermost element is <gexf>, not <graphml>"),
    ("g.graphml", GRAPHML.format(body=f"{ONE}<node id='b'><graph>{ONE}</graph></node>"), "2 <graph> elements"),
    ("g.graphml", GRAPHML.format(body=f"{ONE}{ONE}"), "an id of a node is there twice"),
    ("g.graphml", GRAPHML.format(body=f"{ONE}<edge source='a' target='z'/>"), "names a node that is not listed"),
    ("g.graphml", GRAPHML.format(body=f"{ONE}<edge source='a'/>"), "cannot be used"),
    ("g.graphml", GRAPHML.format(body=f"{ONE}<edge directed='false' source='a' target='a'/>"), "NetworkX cannot read"),
    ("g.graphml", GRAPHML.format(body=f"{ONE}<hyperedge/>"), "hyperedges"),
    ("g.graphml", GRAPHML.format(body=""), "has no nodes"),
    ("g.gexf", '<gexf xmlns="http://gexf.net/1.3"><nodes/></gexf>', "0 <graph> elements"),
    ("g.gml", "graph [ node [ id 1 ] edge [ source 1 target 2 ] ]", "NetworkX cannot read it as gml"),
    ("g.gml", "graph [ node [ id 1 ]", "NetworkX cannot read it as gml"),
    ("g.gml", "node [ id 1 ]", r"0 entries 'graph \["),
    ("g.json", '{"nodes": [{"id": 1}', "no JSON, or is cut short"),
    ("g.json", '{"source": 1, "target": 2}\n{"source": 1, "target": 3}\n', "one object a line"),
    ("g.json", '{"elements": {}}', "Cytoscape's JSON"),
    ("g.json", '{"nodes": []}', "neither 'links' nor 'edges'"),
    ("g.json", '{"nodes": [{"id": 1}, {"id": 1}], "links": []}', "two of its nodes have the id '1'"),
    ("g.json", '{"nodes": [{"id": 1}, {"id": "b"}], "links": []}', "neither all whole numbers nor all words"),
    ("g.json", '{"nodes": [{"id": 1}, {"id": null}], "links": []}', "neither a whole number nor a word"),
    ("g.json", '{"nodes": [{"id": 1}, {}], "links": []}', "1 of its 2 nodes have no 'id'"),
    ("g.json", '{"nodes": [{"id": 1}], "links": [{"source": 1, "target": 2}]}', "names the node '2'"),
    ("g.json", '{"nodes": [{"id": 1}], "links": [{"source": 1}]}', "has no 'target'"),
    ("g.json", '{"nodes": [{"id": 1}], "links": [7]}', "is no JSON object"),
    ("g.json", '{"nodes": [{"id": 1}], "links": [], "directed": "yes"}', "neither true nor false"),
    ("g.paj", "*Arcs\n1 2\n", "no section \\*Vertices"),
    ("g.paj", "*Vertices 2\n*Arcslist\n1 2\n", "section \\*arcslist, which is not read"),
    ("g.paj", "*Vertices 2\n*Arcs\n1 3\n", "names the vertex 3, but there are 2"),
    ("g.paj", "*Vertices 2\n*Arcs\n1\n", "not two vertices"),
    ("g.paj", "*Vertices 900000000000000\n", "and memory is there for"),
    ("g.paj", "*Vertices\n", "does not say how many"),
]


@pytest.mark.parametrize(("name", "data", "reason"), BROKEN, ids=[f"{name}-{why}" for name, _, why in BROKEN])
def test_broken_documents(tmp_path: Path, name: str, data: str | bytes, reason: str) -> None:
    """Guards against tracebacks, entity bombs, and parts of a document that are dropped in silence."""
    with pytest.raises(DatasetError, match=reason) as raised:
        graph(written(tmp_path / name, data))
    assert str(raised.value).startswith(str(tmp_path / name))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"feature": ("size",)}, "no attribute 'size'; they have 'age', 'club'"),
        ({"feature": ("club",)}, "'club' is not numbers"),
        ({"label": ("size",)}, "no attribute 'size'; they have 'age', 'club'"),
        ({"edge_times": True}, "no attribute time or timestamp; they have 'weight'"),
        ({"ids": "numbers"}, "not all whole numbers"),
    ],
)
def test_attributes_that_are_not_there(tmp_path: Path, options: Any, reason: str) -> None:
    """Guards against features and labels of nothing."""
    with pytest.raises(DatasetError, match=reason):
        graph(document(tmp_path, "graphml", example(directed=True)), **options)


def test_a_document_stands_alone(tmp_path: Path) -> None:
    """Guards against files beside a document whose rows are in no stated order, and attributes of an edge list."""
    path = document(tmp_path, "graphml", example(directed=True))
    with pytest.raises(UsageError, match="is a whole graph \\(graphml\\), so num_nodes cannot be given beside it"):
        graph(path, num_nodes=3)
    with pytest.raises(UsageError, match="import it alone"):
        graph(path, written(tmp_path / "e.txt", "0 1\n"))
    with pytest.raises(UsageError, match="columns of labels need a table"):
        graph(tmp_path / "e.txt", label=("club",))


def test_documents_that_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a document that takes all memory before anybody learns why."""
    from graphprep.system import memory

    monkeypatch.setattr(memory, "available", lambda: 10_000)
    path = document(tmp_path, "graphml", example(directed=True))
    with pytest.raises(UsageError, match=r"about 32 times its unpacked size in memory.*10\.0 kB may be used"):
        graph(path)
    packed = written(tmp_path / "g.graphml.gz", gzip.compress(path.read_bytes()))
    with pytest.raises(UsageError, match="about 32 times its unpacked size"):
        graph(packed)
