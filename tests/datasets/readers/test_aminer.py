"""Papers, authors and venues from tables in text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from graphprep.datasets import readers
from graphprep.errors import DatasetError
from tests.datasets.published import PUBLISHED, ordered, spoiled, treated, write_files
from tests.datasets.published_files import Files


def test_the_graph_is_pyg_s(tmp_path: Path, no_network: None) -> None:
    """Repeated lines, names outside of ASCII, and nodes that only a label file would name."""
    import torch_geometric.datasets as datasets

    raw = readers.read(tmp_path, PUBLISHED["aminer"].write(tmp_path))
    files = PUBLISHED["aminer"].files()
    write_files(
        tmp_path / "theirs/raw",
        {name.removeprefix("net_aminer/"): content for name, content in files.items()},
    )
    data = datasets.AMiner(str(tmp_path / "theirs"))[0]
    assert {table.type for table in raw.edges} == set(data.edge_types)
    for table in raw.edges:
        assert np.array_equal(treated(raw, table), ordered(data[table.type].edge_index.t().numpy()))
    for kind, nodes in raw.nodes.items():
        assert nodes.num_nodes == data[kind].num_nodes
        if nodes.y is not None:
            wanted = np.full(nodes.num_nodes, -1)
            wanted[data[kind].y_index.numpy()] = data[kind].y.numpy()
            assert np.array_equal(nodes.y, wanted)


def test_both_types_are_split(tmp_path: Path) -> None:
    """Only labelled nodes are in a mask, and the notes say how it was drawn."""
    raw = readers.read(tmp_path, PUBLISHED["aminer"].write(tmp_path))
    for kind in ("author", "venue"):
        nodes = raw.nodes[kind]
        assert nodes.y is not None
        assert nodes.train_mask is not None
        assert nodes.train_mask.any()
        assert not nodes.train_mask[nodes.y < 0].any()
    assert raw.notes["seeded_split"] == {"train": 20, "val": 30, "seed": 0}


def replaced(name: str, text: str) -> Callable[[Files], None]:
    return lambda files: files.update({name: text})


def added(name: str, text: str) -> Callable[[Files], None]:
    return lambda files: files.update({name: files[name] + text})


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (added("net_aminer/paper_author.txt", "3\n"), "paper_author.txt is damaged"),
        (added("net_aminer/paper_author.txt", "3\tx\n"), "paper_author.txt is damaged"),
        (added("net_aminer/paper_author.txt", "-3\t1\n"), "a number below 0"),
        (replaced("net_aminer/paper_conf.txt", ""), "paper_conf.txt"),
        (added("net_aminer/id_author.txt", "x\tA\n"), "id_author.txt is damaged"),
        (added("label/googlescholar.8area.author.label.txt", "A1 0\n"), "has the class 0"),
        (added("label/googlescholar.8area.author.label.txt", "A1 999\n"), "has the class 998"),
        (lambda files: files.pop("net_aminer/id_conf.txt"), "no member id_conf.txt"),
    ],
)
def test_tables_that_are_wrong(tmp_path: Path, spoil: Callable[[Files], None], words: str) -> None:
    """One sentence with the archive's name, and the member's where there is one."""
    entry = spoiled("aminer", tmp_path / "raw", spoil)
    with pytest.raises(DatasetError, match=words) as caught:
        readers.read(tmp_path / "raw", entry)
    assert ".zip" in str(caught.value)


def test_labels_of_unknown_names_are_counted(tmp_path: Path) -> None:
    """A name that belongs to nobody is no label of anyone."""
    spoil = added("label/googlescholar.8area.author.label.txt", "Nobody 1\n")
    raw = readers.read(tmp_path / "raw", spoiled("aminer", tmp_path / "raw", spoil))
    assert raw.notes["labels_of_no_author"] == 1


def test_quotation_marks_are_part_of_a_name(tmp_path: Path) -> None:
    """A reader that takes them for quotes joins the lines up to the next one, and their nodes lose their labels."""

    def quoted(files: Files) -> None:
        files["net_aminer/id_author.txt"] = files["net_aminer/id_author.txt"].replace("A2\n", '"A2\n')

    clean = readers.read(tmp_path, PUBLISHED["aminer"].write(tmp_path)).nodes["author"]
    found = readers.read(tmp_path / "raw", spoiled("aminer", tmp_path / "raw", quoted)).nodes["author"]
    assert clean.y is not None
    assert found.y is not None
    assert found.y.tolist() == clean.y.tolist()
