"""`graphprep import` with files of every kind, whole and damaged, as a person types it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse as sp
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cli
from graphprep.cache.read import PartitionCache
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE
from graphprep.datasets.importing.import_request import ImportRequest
from graphprep.datasets.importing.user_files import read_files
from graphprep.errors import GraphprepError
from graphprep.store.store import GraphStore
from graphprep.system import home
from tests.end_to_end.test_cli import refused, run

PAIRS = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]])


def imported(*words: str | Path) -> GraphStore:
    """Import in this process, and open the store."""
    done = CliRunner().invoke(cli.main, ["import", *map(str, words), "--name", "mine", "--json", "-q", "--replace"])
    assert done.exit_code == 0, done.stderr
    return GraphStore(json.loads(done.stdout)["location"])


def refuses(*words: str | Path) -> str:
    """The one sentence with which an import in this process ends; nothing is left behind."""
    done = CliRunner().invoke(cli.main, ["import", *map(str, words), "--name", "mine", "-q"])
    assert done.exit_code in (2, 3), done.output
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr
    (line,) = (line for line in done.stderr.splitlines() if not line.startswith("warning:"))
    assert not home.store_path("mine").exists()
    return line.removeprefix("graphprep: error: ")


def edges(store: GraphStore) -> list[tuple[int, int]]:
    matrix = store.csr(HOMOGENEOUS_EDGE)
    rows = np.repeat(np.arange(matrix.num_rows), np.diff(matrix.indptr))
    return sorted(zip(matrix.indices.tolist(), rows.tolist(), strict=True))


def text(path: Path) -> None:
    path.write_text("# a graph\n" + "".join(f"{one}\t{other}\n" for one, other in PAIRS))


def gzipped(path: Path) -> None:
    path.write_bytes(gzip.compress("".join(f"{one},{other}\n" for one, other in PAIRS).encode()))


def zstd(path: Path) -> None:
    plain = "".join(f"{one} {other}\n" for one, other in PAIRS).encode()
    path.write_bytes(pa.Codec("zstd").compress(plain, asbytes=True))


def parquet(path: Path) -> None:
    pq.write_table(pa.table({"src": PAIRS[:, 0], "dst": PAIRS[:, 1]}), path)


def npy(path: Path) -> None:
    np.save(path, PAIRS.T)


def npz(path: Path) -> None:
    np.savez_compressed(path, src=PAIRS[:, 0], dst=PAIRS[:, 1], x=np.ones((4, 3), np.float16))


def scipy_npz(path: Path) -> None:
    sp.save_npz(path, sp.coo_matrix((np.ones(5), PAIRS.T), shape=(4, 4)).tocsc())


def mtx(path: Path) -> None:
    scipy.io.mmwrite(path, sp.coo_matrix((np.ones(5), PAIRS.T), shape=(4, 4)))


def pyg(path: Path) -> None:
    import torch
    from torch_geometric.data import Data

    torch.save(Data(edge_index=torch.from_numpy(PAIRS.T.copy()), x=torch.ones(4, 2)), path)


def metis(path: Path) -> None:
    path.write_text("% both ways\n4 5\n2 4 3\n1 3\n2 4 1\n3 1\n")


KINDS: dict[str, Callable[[Path], None]] = {
    "e.txt": text,
    "e.csv.gz": gzipped,
    "e.txt.zst": zstd,
    "e.parquet": parquet,
    "e.npy": npy,
    "e.npz": npz,
    "s.npz": scipy_npz,
    "m.mtx": mtx,
    "d.pt": pyg,
    "g.graph": metis,
}


@pytest.mark.parametrize("name", KINDS)
def test_every_format_gives_one_graph(tmp_path: Path, name: str) -> None:
    """Guards against a format that turns edges round, shifts ids or loses nodes: the same graph in each of them."""
    KINDS[name](tmp_path / name)
    store = imported(tmp_path / name)
    expected = {(int(one), int(other)) for one, other in PAIRS}
    if name.endswith(".graph"):
        expected |= {(other, one) for one, other in expected}
    assert edges(store) == sorted(expected)
    assert store.num_nodes == {"node": 4}


@pytest.mark.slow
def test_real_graphs_through_the_command(test_data: Path) -> None:
    """Guards against a command that loses what the reader has found."""
    done = run("import", test_data / "graphs" / "mdual.graph", "--name", "mdual", "--json", "-q")
    found = json.loads(done.stdout)
    assert found["nodes"] == {"node": 258_569}
    assert found["edges"] == {"node__to__node": 2 * 513_132}
    done = run("import", test_data / "graphs" / "mdual.graph", "--name", "mdual", "--json", "-q")
    assert json.loads(done.stdout)["reused"] is True
    store = imported(test_data / "edges" / "CollegeMsg.txt", "--edge-times")
    assert store.num_edges == {HOMOGENEOUS_EDGE: 59_835}
    assert store.num_nodes == {"node": 1_899}


def test_several_splits(tmp_path: Path) -> None:
    """Guards against splits that are all the same, that move the first one, or that are asked for in vain."""
    text(tmp_path / "e.txt")
    np.save(tmp_path / "y.npy", np.arange(200) % 2)
    words = (tmp_path / "e.txt", "--labels", tmp_path / "y.npy", "--seed", "5")
    one_N1 = imported(*words).node_array("node", "train_mask")[:]  # type: ignore[index]
    several = imported(*words, "--splits", "3")
    assert several.attributes["notes"]["seeded_split"] == {"train": 20, "val": 30, "seed": 5, "splits": 3}
    several_NS = several.node_array("node", "train_mask")[:]  # type: ignore[index]
    assert several_NS.shape == (200, 3)
    assert several_NS.sum(axis=0).tolist() == [40, 40, 40]
    assert np.array_equal(several_NS[:, :1], one_N1)
    assert not np.array_equal(several_NS[:, 1], several_NS[:, 2])


def test_whole_numbers_to_predict_reach_the_cache(tmp_path: Path) -> None:
    """Guards against float targets that happen to be whole becoming classes, or being refused as too many, on the way
    to `train --task regression`; and against numbers to predict that get no split."""
    text(tmp_path / "e.txt")
    y = (np.arange(200, dtype=np.float32) * 7 % 1000)[:, None]
    np.save(tmp_path / "y.npy", y)
    labels = ("--labels", tmp_path / "y.npy", "--num-nodes", "200")
    assert "the class 203" in refuses(tmp_path / "e.txt", *labels, "--task", "classification")
    store = imported(tmp_path / "e.txt", *labels, "--splits", "2")
    assert np.array_equal(store.node_array("node", "y")[:], y)  # type: ignore[index]
    assert store.node_array("node", "train_mask")[:].sum(axis=0).tolist() == [120, 120]  # type: ignore[index]
    assert imported(tmp_path / "e.txt", *labels, "--task", "regression").key != store.key
    done = CliRunner().invoke(cli.main, ["partition", "mine", "--parts", "2", "--method", "random", "--effort", "none"])
    assert done.exit_code == 0, done.stderr
    cache = PartitionCache(home.require_cache("mine/flat-2"))
    assert (cache.attributes["task"], cache.attributes["num_classes"]) == ("multilabel", {"node": 1})
    assert cache.node_array(0, "node", "y").dtype == np.float32


@pytest.mark.parametrize("wrong", ["0", "1001", "some"])
def test_a_number_of_splits_that_cannot_be(tmp_path: Path, wrong: str) -> None:
    """No split at all, or masks that fill the memory, are refused before any work."""
    text(tmp_path / "e.txt")
    words = ["import", str(tmp_path / "e.txt"), "--name", "mine", "--splits", wrong]
    done = CliRunner().invoke(cli.main, words)
    assert done.exit_code == 2
    assert "--splits" in done.stderr
    assert not home.store_path("mine").exists()


def test_splits_beside_a_schema_that_says_them(tmp_path: Path) -> None:
    """An option that would be ignored."""
    text(tmp_path / "e.txt")
    schema = tmp_path / "s.yaml"
    edge = "edges: [{source: u, relation: r, destination: u, files: [e.txt]}]\n"
    schema.write_text(f"nodes: {{u: }}\n{edge}split: {{train: 5}}\n")
    assert "says how to split the nodes" in refuses("--schema", schema, "--splits", "3")


def test_times_stay_with_their_edges(tmp_path: Path) -> None:
    """Guards against times that stay behind when edges are sorted; ties and unsorted times are fine."""
    (tmp_path / "e.txt").write_text("2 0 7\n0 1 9\n1 0 7\n")
    store = imported(tmp_path / "e.txt", "--edge-times")
    assert edges(store) == [(0, 1), (1, 0), (2, 0)]
    array = store._array(f"edges/{HOMOGENEOUS_EDGE.key}/time")
    assert np.asarray(array[:]).tolist() == [7, 7, 9]  # by destination, then source: 1->0, 2->0, 0->1


@pytest.mark.slow
def test_schema(test_data: Path, tmp_path: Path) -> None:
    """Guards against a graph of several types that the command cannot make; acm has three."""
    folder = test_data / "hetero" / "acm"
    (tmp_path / "acm.yaml").write_text(
        "nodes:\n"
        f"  paper: {{features: {folder}/p_feat.npz, labels: {folder}/labels.npy, train: {folder}/train_20.npy}}\n"
        f"  author: {{features: {folder}/a_feat.npz}}\n"
        "  subject: {count: 60}\n"
        "edges:\n"
        f"  - {{source: paper, relation: by, destination: author, files: [{folder}/pa.txt], reverse: writes}}\n"
        f"  - {{source: paper, relation: about, destination: subject, files: [{folder}/ps.txt]}}\n"
    )
    store = imported("--schema", tmp_path / "acm.yaml")
    assert store.num_nodes == {"author": 7_167, "paper": 4_019, "subject": 60}
    assert {edge_type.key: count for edge_type, count in store.num_edges.items()} == {
        "author__writes__paper": 13_407,
        "paper__about__subject": 4_019,
        "paper__by__author": 13_407,
    }
    sentence = refused(2, "import", "--schema", tmp_path / "acm.yaml", "--weights", "--name", "x")
    assert "weights cannot be given beside --schema" in sentence
    assert "cannot be given together" in refused(2, "import", "e.txt", "--schema", tmp_path / "acm.yaml", "--name", "x")
    assert "--schema FILE" in refused(2, "import", "--name", "x")


def test_features_keep_their_dtype(tmp_path: Path) -> None:
    """Guards against float16 that doubles on its way to the store."""
    (tmp_path / "e.txt").write_text("0 1\n")
    x = np.arange(6, dtype=np.float16).reshape(3, 2)
    np.save(tmp_path / "x.npy", x)
    store = imported(tmp_path / "e.txt", "--features", tmp_path / "x.npy")
    found = store.node_table(HOMOGENEOUS_NODE).x
    assert found is not None
    assert found.dtype == np.float16
    assert np.array_equal(found, x)


def test_malformed_files(test_data: Path) -> None:
    """Guards against a traceback, or a graph, from the real broken files."""
    names = sorted((test_data / "malformed").iterdir())
    assert len(names) == 9
    for path in names:
        assert str(path) in refuses(path)


def damaged(whole: bytes) -> list[bytes]:
    """Ways in which a file is not whole."""
    return [b"", whole[:1], whole[:7], whole[: len(whole) // 2], whole[: -max(1, len(whole) // 20)], b"\0" * len(whole)]


@pytest.mark.parametrize("name", [name for name in KINDS if name not in ("e.txt", "g.graph", "m.mtx")])
def test_cut_and_blank_files(tmp_path: Path, name: str) -> None:
    """Guards against half a file that is taken for all of it; text has no end to tell it by, but for its last line."""
    path = tmp_path / name
    KINDS[name](path)
    for data in (
        *damaged(path.read_bytes()),
        b"<!doctype html><html></html>",
        b"version https://git-lfs.github.com/x\n",
    ):
        path.write_bytes(data)
        assert str(path) in refuses(path)


def test_cut_text(tmp_path: Path) -> None:
    """Guards against formats that say how much there is and are not asked."""
    for name, cut in (("g.graph", -5), ("m.mtx", -12)):
        KINDS[name](tmp_path / name)
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:cut])
        assert name in refuses(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("a b\n", [], "line 1: 'a' is no node id"),
        ("0 1\n1 a\n", [], "--ids words"),
        ("0 1\n1 2 x\n", [], "line 2: 3 columns"),
        ("0 1 x\n", ["--weights"], "line 1: 'x' is no finite weight"),
        ("0 1\n", ["--edge-times"], "no third column to take times from"),
        ("0 1 soon\n", ["--edge-times"], "line 1: 'soon' is no finite time"),
        ("0 1\n", ["--format", "metis"], "e.txt"),
        ("0 1\n", ["--format", "mtx"], "begins with %%MatrixMarket"),
        ("0 1\n", ["--format", "npy"], "e.txt"),
        ("0 1\n", ["--format", "npz"], "e.txt"),
        ("0 1\n", ["--format", "parquet"], "e.txt"),
        ("0 1\n", ["--format", "pyg"], "e.txt"),
        ("0 1\n", ["--format", "metis", "--ids", "words"], "ids are numbers in the format metis"),
        ("0 1\n", ["--id-column", "id"], "needs a table"),
        ("0 1\n", ["--train", "none.npy"], "none.npy cannot be read"),
        ("0 1\n", ["--features", "none.npy"], "none.npy cannot be read"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, options: list[str], words: str) -> None:
    """Guards against options and files that do not go together and are taken in silence."""
    (tmp_path / "e.txt").write_text(text)
    assert words in refuses(tmp_path / "e.txt", *options)


def test_header_options(tmp_path: Path) -> None:
    """Guards against advice to say that there is a header where no option says it."""
    (tmp_path / "e.txt").write_text("from to\n0 1\n")
    assert "--header" in refuses(tmp_path / "e.txt")
    assert edges(imported(tmp_path / "e.txt", "--header")) == [(0, 1)]


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(list(KINDS)), place=st.integers(0, 10**6), bit=st.integers(0, 7), cut=st.booleans())
def test_flipped_bits(tmp_path: Path, name: str, place: int, bit: int, cut: bool) -> None:
    """Guards against errors of libraries that get out, and against ids that lie outside of the nodes."""
    path = tmp_path / name
    KINDS[name](path)
    data = bytearray(path.read_bytes())
    place %= len(data)
    data[place] ^= 1 << bit
    path.write_bytes(data[:place] if cut else data)
    chunks: list[Any] = []
    sentence, num_nodes = name, 0
    try:
        raw = read_files(ImportRequest.of_one_type((path,)))
        chunks, num_nodes = list(raw.edges[0].chunks()), raw.nodes["node"].num_nodes
    except GraphprepError as problem:
        sentence = str(problem)
    assert name in sentence
    assert "\n" not in sentence
    for chunk in chunks:
        for ids in (chunk.src, chunk.dst):
            assert not len(ids) or 0 <= ids.min() <= ids.max() < num_nodes


@pytest.mark.parametrize(("name", "least", "most"), [("e.txt", 15_000, 60_000), ("e.txt.gz", 10_000, 100_000)])
def test_expectations_are_said_before_anything_is_read(
    graphprep_home: Path, tmp_path: Path, name: str, least: int, most: int
) -> None:
    """Guards against long work that nobody was told of: the edges are guessed within a factor of a few."""
    del graphprep_home
    rng = np.random.default_rng(0)
    lines = "".join(f"{one}\t{other}\n" for one, other in rng.integers(0, 99_999, (30_000, 2)).tolist()).encode()
    (tmp_path / name).write_bytes(gzip.compress(lines) if name.endswith(".gz") else lines)
    done = CliRunner().invoke(cli.main, ["import", str(tmp_path / name), "--name", "mine"])
    assert done.exit_code == 0, done.stderr
    first = done.stderr.splitlines()[0]
    assert first.startswith("mine: ")
    assert all(word in first for word in ("of memory", "of disk", " s"))
    assert least <= int(first.split("some ")[1].split()[0].replace(",", "")) <= most
