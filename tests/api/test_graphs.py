"""Graphs of other libraries become stores, and come back as they were."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.datasets import KarateClub

import graphprep as gp
from graphprep.core.types import HOMOGENEOUS_EDGE, EdgeType
from graphprep.errors import DatasetError, UsageError
from graphprep.store.store import GraphStore
from tests.graphs import labelled_graph, typed_graph, with_edge_arrays
from tests.stores import make_store


def assert_same(one: GraphStore, other: GraphStore, *, without: tuple[str, ...] = ()) -> None:
    """Two stores hold the same graph, in the same dtypes."""
    left, right = one.loaded(), other.loaded()
    assert left.num_nodes == right.num_nodes
    for kind, arrays in left.nodes.items():
        assert arrays.keys() - {*without} == right.nodes[kind].keys()
        for name, array in right.nodes[kind].items():
            assert array.dtype == arrays[name].dtype, name
            np.testing.assert_array_equal(array, arrays[name])
    assert left.edges.keys() == right.edges.keys()
    for edge_type, matrix in left.edges.items():
        for name in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(matrix, name), getattr(right.edges[edge_type], name))
        expected = left.edge_arrays[edge_type]
        assert expected.keys() - {*without} == right.edge_arrays[edge_type].keys()
        for name, array in right.edge_arrays[edge_type].items():
            np.testing.assert_array_equal(array, expected[name])


@pytest.fixture
def store() -> GraphStore:
    """A weighted graph with features, labels, a split, and features and times of edges."""
    rng = np.random.default_rng(3)
    return make_store(with_edge_arrays(rng, labelled_graph(rng, 40, 200, weighted=True)), name="source")


def test_pyg_and_back(store: GraphStore) -> None:
    """Guards against lost weights, masks, times or edge features, and against another order of rows."""
    again = gp.from_pyg(store.to_pyg(), name="again")
    assert_same(store, again)
    assert again.name == "again"
    assert again.location.endswith("stores/again.zarr")
    assert again.attributes["source"]["reader"] == "memory"


def test_ids_of_a_data_are_kept(store: GraphStore) -> None:
    """Guards against a graph whose nodes lose their names on the way through PyTorch Geometric."""
    data = store.to_pyg()
    data.original_id = torch.arange(40) * 7 + 3
    source = gp.from_pyg(data, name="again")
    ids = source.original_ids("node")
    assert ids is not None
    assert ids.row_of(10) == 1
    assert_same(source, gp.from_pyg(source.to_pyg(), name="once-more"))
    data.original_id[3] = 10
    with pytest.raises(DatasetError, match="original_id of nodes has 10 twice"):
        gp.from_pyg(data)


def test_hetero_data_and_back() -> None:
    """Guards against relations between wrong types, and a type without arrays that is dropped."""
    rng = np.random.default_rng(4)
    source = make_store(with_edge_arrays(rng, typed_graph(rng)), name="source")
    assert_same(source, gp.from_pyg(source.to_pyg(), name="again"))


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "SparseTensor"])
def test_adj_t(store: GraphStore, layout: str) -> None:
    """Guards against a transposed matrix that is transposed once more, and against lost values."""
    data = store.to_pyg()
    (src, dst), weight = data.edge_index, data.edge_weight
    size = (data.num_nodes, data.num_nodes)

    class SparseTensor:
        """Stands for torch_sparse's, which has no wheel for every torch."""

        def coo(self) -> tuple[Any, Any, Any]:
            return dst, src, weight

    adjacency: Any = SparseTensor()
    if layout != "SparseTensor":
        adjacency = torch.sparse_coo_tensor(torch.stack([dst, src]), weight, size)
        adjacency = adjacency.to_sparse_csr() if layout == "sparse_csr" else adjacency
    made = gp.from_pyg(Data(x=data.x, adj_t=adjacency), name=f"adj-{layout.lower()}".replace("_", "-"))
    expected, found = store.to_scipy().toarray(), made.to_scipy().toarray()
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_what_is_left_out_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against attributes that are dropped in silence, and arrays of nodes taken for those of edges."""
    data = KarateClub()[0]
    data.comment, data.tables = "text", torch.zeros(7, 2)
    data.pos, data.edge_attr = torch.rand(34, 2), torch.rand(156, 3)
    store = gp.from_pyg(data)
    said = capsys.readouterr().err
    assert "left out: comment, tables" in said
    assert "edge_attr of edges is kept" in said
    assert "no name was given" in said
    assert "has train_mask and no val_mask or test_mask: no node is in the latter" in said
    table = store.node_table("node")
    assert table.train_mask is not None
    assert table.test_mask is not None
    assert (int(table.train_mask.sum()), int(table.test_mask.sum())) == (4, 0)
    assert "pos" in store.node_arrays("node")
    assert store.edge_arrays(HOMOGENEOUS_EDGE) == ("edge_attr",)
    assert store.attributes["notes"]["ignored"] == {"data": ["comment", "tables"]}


def test_what_is_no_graph_of_pyg() -> None:
    with pytest.raises(UsageError, match="the HeteroData has no node types"):
        gp.from_pyg(HeteroData())
    """Guards against tracebacks of PyTorch Geometric's."""
    graph = Data(x=torch.zeros(3, 1), edge_index=torch.zeros(2, 1, dtype=torch.long))
    with pytest.raises(UsageError, match="is a batch of several graphs"):
        gp.from_pyg(Batch.from_data_list([graph, graph]))
    with pytest.raises(UsageError, match="dict is no Data or HeteroData"):
        gp.from_pyg({})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no edge_index or adj_t of edges"):
        gp.from_pyg(Data(x=torch.zeros(3, 1)))
    with pytest.raises(DatasetError, match="edge_index of edges has shape"):
        gp.from_pyg(Data(x=torch.zeros(3, 1), edge_index=torch.zeros(2, 1)))
    with pytest.raises(DatasetError, match="the node id 7 does not fit 3 nodes"):
        gp.from_pyg(Data(x=torch.zeros(3, 1), edge_index=torch.tensor([[0], [7]])))
    graph.x[1] = torch.nan
    with pytest.raises(DatasetError, match=r"its array 'x': row 1 holds a value that is not finite"):
        gp.from_pyg(graph)
    odd = HeteroData()
    odd["a b"].x = torch.zeros(2, 1)
    odd["a b", "to", "a b"].edge_index = torch.zeros(2, 1, dtype=torch.long)
    with pytest.raises(DatasetError, match="the type name 'a b'"):
        gp.from_pyg(odd)


class DglGraph:
    """Stands for DGL's graph, of which as much is here as is read; DGL has no wheel for every torch."""

    def __init__(self, data: Data | HeteroData, node_types: list[str], edge_types: list[tuple[str, str, str]]) -> None:
        class View:
            def __init__(self, stores: dict[Any, dict[str, Any]]) -> None:
                self.stores = stores

            def __getitem__(self, key: Any) -> Any:
                return type("Space", (), {"data": self.stores[key]})

        stores = data.to_dict() if isinstance(data, HeteroData) else None
        self.ntypes, self.canonical_etypes = node_types, edge_types
        of_edges = ("edge_index", "edge_weight", "edge_attr", "edge_time")
        flat = {} if stores else data.to_dict()
        self.nodes = View(
            {
                name: {
                    {"x": "feat", "y": "label"}.get(key, key): value
                    for key, value in (stores[name] if stores else flat).items()
                    if key not in (*of_edges, "num_nodes")
                }
                for name in node_types
            }
        )
        of_types = {kind: (stores[kind] if stores else flat) for kind in edge_types}
        self.index = {kind: store["edge_index"] for kind, store in of_types.items()}
        names = {"edge_weight": "w", "edge_attr": "edge_attr", "edge_time": "time"}
        self.of_edges = View(
            {
                kind: {names[key]: value for key, value in store.items() if key in names}
                for kind, store in of_types.items()
            }
        )
        self.counts = {name: data[name].num_nodes if stores else data.num_nodes for name in node_types}

    @property
    def edges(self) -> Any:
        graph = self

        class Edges:
            def __call__(self, *, etype: Any, order: str) -> Any:
                assert order == "eid"
                return tuple(graph.index[etype])

            def __getitem__(self, kind: Any) -> Any:
                return graph.of_edges[kind]

        return Edges()

    def num_nodes(self, name: str) -> int:
        return int(self.counts[name])


def test_dgl_and_back(store: GraphStore, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against feat and label that are not taken for x and y, and edges in another order than their arrays."""
    again = gp.from_dgl(DglGraph(store.to_pyg(), ["_N"], [("_N", "_E", "_N")]), name="again")
    assert_same(store, again)
    assert "feat of nodes is taken for x" in capsys.readouterr().err
    source = make_store(typed_graph(np.random.default_rng(4)), name="typed")
    data = source.to_pyg()
    assert_same(source, gp.from_dgl(DglGraph(data, data.node_types, data.edge_types), name="typed-again"))
    with pytest.raises(UsageError, match="Data is no DGLGraph"):
        gp.from_dgl(Data())


def test_scipy_and_back(store: GraphStore) -> None:
    """Guards against rows that are taken for sources, parallel edges that are added up, and lost ids."""
    matrix, table = store.to_scipy(), store.node_table("node")
    arrays = {"x": table.x, "y": table.y, "train_mask": table.train_mask, "val_mask": table.val_mask}
    again = gp.from_scipy(matrix, **arrays, test_mask=table.test_mask, name="again")
    assert_same(store, again, without=("edge_attr", "time"))
    words = [f"node-{number}" for number in range(40)]
    with_ids = gp.from_scipy(matrix.tocoo(), ids=words)
    ids = with_ids.original_ids("node")
    assert ids is not None
    assert ids.array().tolist() == words
    plain = gp.from_scipy(scipy.sparse.csr_matrix(np.eye(3, k=1)))
    assert plain.to_scipy().toarray().tolist() == np.eye(3, k=1).tolist()
    assert not plain.is_weighted(HOMOGENEOUS_EDGE)
    with pytest.raises(UsageError, match=r"of shape \[2, 3\] is no sparse matrix"):
        gp.from_scipy(scipy.sparse.csr_array((2, 3)))
    with pytest.raises(UsageError, match=r"ndarray of shape \[2, 2\] is no sparse matrix"):
        gp.from_scipy(np.eye(2))


def test_networkx_and_back() -> None:
    """Guards against undirected edges that lose a direction, and attributes that lose their nodes."""
    source = make_store(labelled_graph(np.random.default_rng(3), 40, 200, weighted=True), name="source")
    again = gp.from_networkx(source.to_networkx(), name="again")
    assert_same(source, again)


def test_networkx_nodes_in_any_order() -> None:
    """Guards against features, labels and edges of rows in the order in which nodes were added, and NumPy's labels."""
    graph = nx.DiGraph()
    for node in (2, 0, 1):
        graph.add_node(node, x=[float(node)], y=np.int64(node % 2), train_mask=np.bool_(node == 2))
    graph.add_edge(2, 0, weight=np.float32(0.5))
    store = gp.from_networkx(graph)
    table = store.node_table("node")
    assert table.x is not None
    assert table.y is not None
    assert table.train_mask is not None
    assert table.x.tolist() == [[0.0], [1.0], [2.0]]
    assert table.y.tolist() == [0, 1, 0]
    assert table.train_mask.tolist() == [[False], [False], [True]]
    assert table.original_id is None
    assert store.to_scipy().toarray().tolist() == [[0, 0, 0.5], [0, 0, 0], [0, 0, 0]]


def test_networkx_attributes_and_names(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against words as labels or ids that are refused, or are numbered in another order than is said."""
    graph = nx.karate_club_graph()
    names = {node: f"member-{node:02d}" for node in graph}
    nx.set_node_attributes(graph, {node: [node, 1.5] for node in graph}, "age")
    store = gp.from_networkx(nx.relabel_nodes(graph, names), features=["age"], label="club")
    assert store.num_edges == {HOMOGENEOUS_EDGE: 156}
    table = store.node_table("node")
    assert table.x is not None
    assert table.x.tolist() == [[node, 1.5] for node in range(34)]
    assert table.y is not None
    assert [("Mr. Hi", "Officer")[label] for label in table.y] == [graph.nodes[node]["club"] for node in graph]
    ids = store.original_ids("node")
    assert ids is not None
    assert ids.row_of("member-33") == 33
    assert "0 is 'Mr. Hi', 1 is 'Officer'" in capsys.readouterr().err
    with pytest.raises(DatasetError, match=r"the NetworkX graph cannot be used: its nodes have no attribute 'age'"):
        gp.from_networkx(nx.karate_club_graph(), features=["age"])
    with pytest.raises(DatasetError, match="neither all whole numbers nor all words"):
        gp.from_networkx(nx.grid_2d_graph(2, 2))
    with pytest.raises(DatasetError, match="has no nodes"):
        gp.from_networkx(nx.Graph())


def test_arrays_and_back(store: GraphStore) -> None:
    """Guards against arrays of edges that are sorted apart from their edges."""
    data = store.to_pyg()
    shuffled = torch.randperm(data.num_edges)
    again = gp.from_arrays(
        data.edge_index[:, shuffled].numpy(),
        x=data.x.tolist(),
        y=pd.Series(data.y.numpy()),
        train_mask=data.train_mask.numpy(),
        val_mask=torch.nonzero(data.val_mask)[:, 0],
        test_mask=data.test_mask,
        edge_weight=data.edge_weight[shuffled],
        edge_time=data.edge_time[shuffled],
        edge_arrays={"edge_attr": data.edge_attr[shuffled]},
        name="again",
    )
    table = again.node_table("node")
    np.testing.assert_array_equal(table.x, data.x)  # type: ignore[arg-type]
    np.testing.assert_array_equal(table.val_mask[:, 0], data.val_mask)  # type: ignore[index]
    assert (again.to_scipy() != store.to_scipy()).nnz == 0
    for name in ("edge_attr", "time"):
        found, expected = again.edge_array(HOMOGENEOUS_EDGE, name)[:], store.edge_array(HOMOGENEOUS_EDGE, name)[:]
        # Parallel edges have no order among themselves.
        np.testing.assert_allclose(np.sort(found, axis=0), np.sort(expected, axis=0))


def test_ids_of_edges() -> None:
    """Guards against people who are numbered in another order than their features."""
    people = pd.DataFrame({"who": ["eve", "bob", "ann"], "age": [3.0, 2.0, 1.0]})
    paid = pd.DataFrame({"from": ["ann", "bob"], "to": ["bob", "eve"]})
    store = gp.from_arrays((paid["from"], paid["to"]), ids=people["who"], x=people[["age"]])
    assert store.to_scipy().toarray().tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    ids = store.original_ids("node")
    assert ids is not None
    assert ids.array().tolist() == ["eve", "bob", "ann"]
    found = gp.from_arrays((["b", "c"], ["c", "a"])).original_ids("node")
    assert found is not None
    assert found.array().tolist() == ["a", "b", "c"]
    numbers = gp.from_arrays(([10, 30], [30, 20]), ids=[30, 20, 10])
    assert numbers.to_scipy().toarray().tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0]]
    with pytest.raises(DatasetError, match="names the node zoe, which is not among the ids"):
        gp.from_arrays((["zoe"], ["ann"]), ids=people["who"])
    with pytest.raises(DatasetError, match="has ann twice"):
        gp.from_arrays((["ann"], ["ann"]), ids=["ann", "ann"])
    with pytest.raises(DatasetError, match="both numbers or both words"):
        gp.from_arrays(([0], [1]), ids=["ann", "bob"])


def test_arrays_of_several_types() -> None:
    """Guards against arrays that end up with another type's nodes."""
    store = gp.from_arrays(
        nodes={"author": {"ids": ["x", "y"]}, "paper": {"x": np.ones((3, 2), np.float32), "y": [0, 1, 0]}},
        edges={("author", "writes", "paper"): {"edge_index": (["y", "x"], [2, 0]), "edge_weight": [2.0, 3.0]}},
    )
    assert store.num_nodes == {"author": 2, "paper": 3}
    assert store.to_scipy("author__writes__paper").toarray().tolist() == [[3, 0], [0, 0], [0, 2]]
    brief = gp.from_arrays(nodes={"a": {"num_nodes": 2}}, edges={("a", "to", "a"): np.array([[0], [1]])})
    assert brief.to_scipy().toarray().tolist() == [[0, 0], [1, 0]]
    with pytest.raises(UsageError, match=r"edges have the type \('a', 'b'\); give \(source, relation, destination\)"):
        gp.from_arrays(nodes={"a": {"num_nodes": 2}}, edges={("a", "b"): ([0], [1])})  # type: ignore[dict-item]
    with pytest.raises(UsageError, match="x cannot be given beside nodes and edges"):
        gp.from_arrays(x=[[1]], nodes={}, edges={})


@pytest.mark.parametrize(
    ("edges", "options", "sentence"),
    [
        (None, {}, "there is no edge_index"),
        (np.zeros((5, 2), np.int64), {}, r"shape \[5, 2\].*transpose it"),
        (([0.5], [1.0]), {}, "node ids must be integers"),
        (([0], [1]), {"x": [[1], [2, 3]]}, "x of node is no array"),
        (([0], [1]), {"x": object()}, "x of node is of the type object"),
        (([0], [1]), {"x": [[1.0]], "num_nodes": 3}, r"\(x\) has 1 nodes but the arrays \(node\) has 3"),
        (([0], [1]), {"edge_weight": [1.0, 2.0]}, "1 sources but 2 weights"),
        (([0], [1]), {"edge_arrays": {"cost": [1.0, 2.0]}}, "1 sources and 2 rows of cost"),
        (([0], [1]), {"y": [0, 1], "train_mask": [True, True], "test_mask": [True, False]}, "share"),
    ],
)
def test_arrays_that_are_no_graph(edges: Any, options: dict[str, Any], sentence: str) -> None:
    """Guards against NumPy's errors, and against graphs that are not what was meant."""
    with pytest.raises((DatasetError, UsageError), match=sentence):
        gp.from_arrays(edges, **options)


def test_the_same_arrays_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a store of older arrays that is taken for the new ones, or is replaced unasked."""
    edges = ([0, 1], [1, 2])
    first = gp.from_arrays(edges, num_nodes=3, name="mine")
    capsys.readouterr()
    assert gp.from_arrays(edges, num_nodes=3, name="mine").key == first.key
    assert "is up to date" in capsys.readouterr().err
    with pytest.raises(DatasetError, match="give replace=True to replace it or another name"):
        gp.from_arrays(edges, num_nodes=4, name="mine")
    with pytest.raises(DatasetError, match="give replace=True"):
        gp.from_arrays(edges, num_nodes=3, undirected=True, name="mine")
    replaced = gp.from_arrays(edges, num_nodes=3, undirected=True, name="mine", replace=True)
    assert replaced.num_edges == {HOMOGENEOUS_EDGE: 4}


@pytest.mark.slow
def test_a_graph_without_a_name_goes_with_python(tmp_path: Path) -> None:
    """Guards against stores that pile up, and a cache in GRAPHPREP_HOME that the next unnamed graph runs into."""
    script = (
        "import graphprep as gp\n"
        "store = gp.from_arrays(([0, 1, 2], [1, 2, 0]), num_nodes=3)\n"
        "cache = gp.partition(store, parts=1, progress=False)\n"
        "assert cache.num_parts == 1\n"
        "print(store.location, cache.folder, sep='\\n')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=_environment(tmp_path)
    )
    for place in done.stdout.split():
        assert place.startswith(str(tmp_path))
        assert not Path(place).exists()
    assert not list(tmp_path.glob("graphprep-*"))


@pytest.mark.slow
def test_places_and_splits(tmp_path: Path) -> None:
    """Guards against options of an import that are lost on the way."""
    y = np.tile([0, 1], 50)
    store = gp.from_arrays(
        ([0, 0, 1], [1, 1, 0]), y=y, out=tmp_path / "mine.zarr", duplicates="drop", self_loops="add", splits=3, seed=1
    )
    assert (tmp_path / "mine.zarr").is_dir()
    assert store.name == "mine"
    assert store.num_edges[EdgeType("node", "to", "node")] == 102
    assert store.node_table("node").train_mask.shape == (100, 3)  # type: ignore[union-attr]
    assert store.attributes["notes"]["seeded_split"]["seed"] == 1
    with pytest.raises(UsageError, match=r"^splits 0 must be from 1"):
        gp.from_arrays(([0], [1]), splits=0)


def test_files_and_the_registry(tmp_path: Path) -> None:
    """Guards against an import or a fetch that differs from the command's."""
    (tmp_path / "edges.csv").write_text("source,target,weight\n0,1,0.5\n1,2,1.5\n")
    np.save(tmp_path / "x.npy", np.ones((3, 2), np.float32))
    store = gp.import_graph(tmp_path / "edges.csv", name="mine", weight="weight", features=str(tmp_path / "x.npy"))
    assert store.to_scipy().toarray()[1, 0] == 0.5
    assert store.node_arrays("node") == ("x",)
    with pytest.raises(UsageError, match="name at least one file of edges, or schema FILE"):
        gp.import_graph(name="mine")
    digits = gp.fetch("digits")
    assert digits.num_nodes == {"node": 1797}


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(Path(__file__).parents[2])}
