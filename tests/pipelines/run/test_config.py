"""A pipeline's file: what it means, and its mistakes, each with its line and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphprep.cache.features import FeatureOptions
from graphprep.errors import PipelineError
from graphprep.partition.request import PartitionRequest
from pipelines.run.config import read_pipeline

WHOLE = """\
datasets:
  digits:
  blocks: {generate: {sbm: {nodes: 200, edges: 900, classes: 4}}}
  mine: {import: {edges: [edges.csv], undirected: true, weights: false}}
topologies: [2x2, 3]
partition: {effort: fast, seed: [0, 1], row_bytes: 512, limits: "nodes,work"}
memory: 2GB
reports: pages
exports: {npz: arrays}
"""


def in_file(folder: Path, text: str) -> Path:
    """A pipeline's file beside what it names."""
    (folder / "edges.csv").write_text("0,1\n1,2\n")
    path = folder / "p.yaml"
    path.write_text(text)
    return path


def test_what_a_file_means(tmp_path: Path) -> None:
    """Guards against options that are read and then dropped, and against a matrix that lacks combinations."""
    found = read_pipeline(in_file(tmp_path, WHOLE))
    assert list(found.datasets) == ["digits", "blocks", "mine"]
    assert [dataset.verb for dataset in found.datasets.values()] == ["fetch", "generate", "import"]
    assert found.memory_limit == 2 * 10**9
    assert found.reports == tmp_path / "pages"
    assert found.exports == {"npz": tmp_path / "arrays"}
    assert [cell.label for cell in found.cells if cell.dataset == "mine"] == [
        "2x2-seed-0",
        "2x2-seed-1",
        "flat-3-seed-0",
        "flat-3-seed-1",
    ]
    assert len(found.cells) == 12
    last = found.cells[-1]
    assert last.request == PartitionRequest(effort="fast", seed=1, row_bytes=512, limits=("nodes", "work"))
    assert last.topology.num_ranks == 3
    assert last.features == FeatureOptions()


def test_names_of_files_are_relative_to_the_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a pipeline that works in one folder only."""
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "two.yaml").write_text("name: two\nmachines:\n  - {gpus: 2, pcie: {gbytes_per_s: 16}}\n")
    path = in_file(folder, WHOLE.replace("[2x2, 3]", "[two.yaml]"))
    monkeypatch.chdir(tmp_path)
    found = read_pipeline(Path("there/p.yaml"))
    assert {cell.topology.name for cell in found.cells} == {"two"}
    assert found.reports == path.parent / "pages"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seed: [0, 1]", "sead: [0, 1]", "line 6: unknown key 'sead' in partition (did you mean 'seed'?)"),
        ("seed: [0, 1]", "seed: [0, true]", "line 6: partition.seed[1] must be a valid integer, found the truth value"),
        ("seed: [0, 1]", "seed: [0, -1]", "line 6: partition.seed[1]: seed -1 must be from 0 to"),
        ("seed: [0, 1]", "seed: [1, 1]", "line 6: partition.seed[1]: 1 is there twice"),
        ("seed: [0, 1]", "seed: []", "line 6: partition.seed must have at least 1 item"),
        ("effort: fast", "effort: quick", "line 6: partition.effort: effort 'quick' is unknown; use one of none"),
        ("effort: fast", "method: [metis, foo]", "line 6: partition.method[1]: method 'foo' is unknown"),
        ("row_bytes: 512", "row_bytes: 0", "line 6: partition.row_bytes: row_bytes 0 must be from 1"),
        ("row_bytes: 512", "features: int8", "line 6: partition.features: features 'int8' is unknown"),
        (
            "row_bytes: 512",
            "features: none, aggregate_features: mean",
            "line 6: partition: aggregate_features mean is for GraphSAGE",
        ),
        ("[2x2, 3]", "[2x3]", "line 5: topologies[0]: '2x3' is neither a topology preset nor a file"),
        ("[2x2, 3]", "[2x2, 0]", "line 5: topologies[1]: 0 parts must be at least 1"),
        ("[2x2, 3]", "[2x2, true]", "line 5: topologies[1]: a topology is a preset's name, a file, or a number"),
        ("[2x2, 3]", "[3, 3]", "line 5: topologies[1]: another topology is called flat-3"),
        ("[2x2, 3]", "[]", "line 9: exports: there are no caches without topologies"),
        ("nodes: 200", "node: 200", "line 3: unknown key 'node' in datasets.blocks.generate.sbm"),
        ("nodes: 200, ", "", "line 3: datasets.blocks.generate.sbm lacks the key 'nodes'"),
        ("classes: 4", "branching: 1", "line 3: datasets.blocks.generate: 1 blocks on each of 2 levels"),
        ("{sbm: {nodes: 200, edges: 900, classes: 4}}", "{}", "line 3: datasets.blocks.generate: name one generator"),
        ("mine: {", "mine: {store: a.zarr, ", "line 4: datasets.mine: both 'import' and 'store' say where"),
        ("mine: {", "mine: {mirror: m, ", "line 4: datasets.mine: a mirror is for datasets of the registry"),
        ("blocks: {", "blocks: {anyway: true, ", "line 3: datasets.blocks: 'anyway' means nothing beside 'generate'"),
        ("[edges.csv]", "[absent.csv]", "line 4: datasets.mine.import: there is no file "),
        ("edges: [edges.csv], ", "", "line 4: datasets.mine.import: name at least one file of edges, or schema"),
        ("weights: false", "weights: maybe", "line 4: datasets.mine.import.weights must be a valid boolean"),
        ("  mine:", "  ../mine:", "line 4: datasets.../mine: the name '../mine' cannot name a folder"),
        ("  digits:", "  digitz:", "line 2: datasets.digitz: no dataset is called 'digitz': did you mean digits?"),
        ("  digits:", "  digits:\n  Digits:", "line 3: datasets.Digits: the dataset digits is there twice"),
        ("memory: 2GB", "memory: much", "line 7: memory: memory 'much' is no amount"),
        ("npz: arrays", "zip: arrays", "line 9: exports.zip: format 'zip' is unknown; use one of dgl"),
        ("reports: pages", "reports: {a: b}", "line 8: reports must be a valid string, found a mapping"),
        ("datasets:", "datasats:", "line 1: unknown key 'datasats' (did you mean 'datasets'?)"),
    ],
)
def test_mistakes_have_lines(old: str, new: str, message: str, tmp_path: Path) -> None:
    """Guards against a wrong file that is found out hours later, or without a place."""
    assert WHOLE.count(old) == 1
    path = in_file(tmp_path, WHOLE.replace(old, new))
    with pytest.raises(PipelineError) as caught:
        read_pipeline(path)
    assert str(caught.value).startswith(f"{path}, {message}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected a mapping with the keys datasets"),
        (b"- a\n", "expected a mapping"),
        (b"datasets: {a: \n", "line 2:"),
        (b"\xff\xfe\x00", "is no UTF-8 text"),
        (b"datasets: {}\n", "line 1: datasets must have at least 1 item"),
    ],
)
def test_what_is_no_pipeline(content: bytes, message: str, tmp_path: Path) -> None:
    """Guards against a traceback for a file of another kind."""
    path = tmp_path / "p.yaml"
    path.write_bytes(content)
    with pytest.raises(PipelineError, match=message):
        read_pipeline(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Guards against an operating system's words."""
    with pytest.raises(PipelineError, match=r"absent\.yaml cannot be read"):
        read_pipeline(tmp_path / "absent.yaml")
