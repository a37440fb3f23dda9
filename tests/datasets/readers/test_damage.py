"""Files of published sources that contradict themselves: one sentence with the file and what is wrong in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphprep.datasets import readers
from graphprep.errors import DatasetError
from tests.datasets.published import spoiled
from tests.datasets.published_files import NUM_NODES, Files

Spoil = Callable[[Files], Any]


def change(file: str, name: str, new: Callable[[Any], Any]) -> Spoil:
    """Change one array of an .npz file or one value of a JSON file."""
    return lambda files: files.update({file: {**files[file], name: new(files[file][name])}})


def whole(file: str, new: Callable[[Any], Any]) -> Spoil:
    return lambda files: files.update({file: new(files[file])})


def drop(file: str, name: str) -> Spoil:
    return lambda files: files[file].pop(name)


def put(place: Any, value: Any) -> Callable[[Any], Any]:
    """The array or list with one value changed."""

    def new(values: Any) -> Any:
        copy = values.copy()
        copy[place] = value
        return copy

    return new


def as_float(array: Any) -> Any:
    return array.astype(float)


def shorter(array: Any) -> Any:
    return array[:-1]


SHCHUR, YANDEX, MUSAE, WIKI = "amazon_electronics_photo.npz", "minesweeper.npz", "facebook.npz", "data.json"
SAINT, FEATURES, LABELS, ROLES = "adj_full.npz", "feats.npy", "class_map.json", "role.json"
FILM, FILM_EDGES, FILM_SPLIT = "out1_node_feature_label.txt", "out1_graph_edges.txt", "film_split_0.6_0.2_3.npz"

CASES: list[tuple[str, str, Spoil, str]] = [
    ("gnn_benchmark", SHCHUR, change(SHCHUR, "adj_indices", put(0, NUM_NODES)), "index 40, outside 0 .. 39"),
    ("gnn_benchmark", SHCHUR, change(SHCHUR, "adj_indices", put(0, -1)), "index -1, outside"),
    ("gnn_benchmark", SHCHUR, change(SHCHUR, "attr_indices", put(0, 6)), "index 6, outside 0 .. 5"),
    ("gnn_benchmark", SHCHUR, change(SHCHUR, "adj_indptr", put(3, 99)), "row pointers"),
    ("gnn_benchmark", SHCHUR, change(SHCHUR, "adj_indptr", put(0, 1)), "row pointers"),
    ("gnn_benchmark", SHCHUR, change(SHCHUR, "adj_indptr", put(-1, 99)), "indices where its rows need 99"),
    ("gnn_benchmark", SHCHUR, change(SHCHUR, "adj_indptr", shorter), "row pointers"),
    ("gnn_benchmark", SHCHUR, change(SHCHUR, "adj_indices", shorter), "indices where its rows need"),
    ("gnn_benchmark", SHCHUR, change(SHCHUR, "adj_indices", as_float), "not integers"),
    ("gnn_benchmark", SHCHUR, change(SHCHUR, "attr_data", put(1, np.nan)), "not finite"),
    ("gnn_benchmark", SHCHUR, change(SHCHUR, "attr_data", shorter), "different lengths"),
    ("gnn_benchmark", SHCHUR, change(SHCHUR, "attr_shape", put(1, 10**15)), "of memory where"),
    ("gnn_benchmark", SHCHUR, change(SHCHUR, "attr_shape", put(1, -6)), "the shape"),
    ("gnn_benchmark", SHCHUR, change(SHCHUR, "adj_shape", put(1, 41)), r"edges of the shape \(40, 41\) for 40 nodes"),
    ("gnn_benchmark", SHCHUR, change(SHCHUR, "labels", put(3, -2)), "row 3 has the class -2"),
    ("gnn_benchmark", SHCHUR, change(SHCHUR, "labels", put(3, 40)), "row 3 has the class 40"),
    ("gnn_benchmark", SHCHUR, change(SHCHUR, "labels", shorter), r"shape \(39,\), not integers of shape \(40\)"),
    ("gnn_benchmark", SHCHUR, change(SHCHUR, "labels", as_float), "not integers"),
    ("gnn_benchmark", SHCHUR, drop(SHCHUR, "labels"), "no array 'labels'; there are adj_data"),
    ("heterophilous", YANDEX, change(YANDEX, "edges", put((4, 1), NUM_NODES)), "names the node 40"),
    ("heterophilous", YANDEX, change(YANDEX, "edges", put((4, 0), -1)), "names the node -1"),
    ("heterophilous", YANDEX, change(YANDEX, "edges", np.transpose), r"not integers of shape \(any, 2\)"),
    ("heterophilous", YANDEX, change(YANDEX, "edges", as_float), "not integers"),
    ("heterophilous", YANDEX, change(YANDEX, "node_features", put((7, 0), np.nan)), "row 7 of its features"),
    ("heterophilous", YANDEX, change(YANDEX, "node_features", put((7, 0), np.inf)), "row 7 of its features"),
    ("heterophilous", YANDEX, change(YANDEX, "node_labels", put(0, -5)), "row 0 has the class -5"),
    ("heterophilous", YANDEX, change(YANDEX, "train_masks", np.ones_like), "share the node"),
    ("heterophilous", YANDEX, change(YANDEX, "val_masks", shorter), "has 3 splits but its train_mask has 4"),
    ("heterophilous", YANDEX, change(YANDEX, "val_masks", as_float), "not truth values"),
    ("heterophilous", YANDEX, change(YANDEX, "val_masks", np.transpose), "not truth values of shape"),
    ("musae", MUSAE, change(MUSAE, "edges", put((4, 1), NUM_NODES)), "names the node 40"),
    ("musae", MUSAE, change(MUSAE, "features", put((0, 0), np.nan)), "row 0 of its features"),
    ("musae", MUSAE, change(MUSAE, "features", put((0, 0), 1e300)), "row 0 of its features"),
    ("musae", MUSAE, change(MUSAE, "features", lambda x: x.astype(complex)), "not numbers"),
    ("musae", MUSAE, change(MUSAE, "target", shorter), "shape"),
    ("wikics", WIKI, change(WIKI, "links", put(2, [40])), "names the node 40"),
    ("wikics", WIKI, change(WIKI, "links", put(2, [-1])), "names the node -1"),
    ("wikics", WIKI, change(WIKI, "links", put(2, [0.5])), "its links have dtype float64"),
    ("wikics", WIKI, change(WIKI, "links", put(2, 7)), "one list for each node"),
    ("wikics", WIKI, change(WIKI, "links", put(2, [["a"]])), "its links"),
    ("wikics", WIKI, change(WIKI, "links", shorter), "links of 39 nodes"),
    ("wikics", WIKI, change(WIKI, "features", put(2, [1.0])), "no table of numbers"),
    ("wikics", WIKI, change(WIKI, "features", put(2, [float("nan")] * 6)), "row 2 of its features"),
    ("wikics", WIKI, change(WIKI, "features", put(2, [10**400] * 6)), "its features"),
    ("wikics", WIKI, change(WIKI, "labels", put(2, "a")), "its labels"),
    ("wikics", WIKI, change(WIKI, "labels", put(2, -3)), "row 2 has the class -3"),
    ("wikics", WIKI, change(WIKI, "test_mask", shorter), "a mask of 39 values for 40 nodes"),
    ("wikics", WIKI, change(WIKI, "val_masks", shorter), "has 3 splits"),
    ("wikics", WIKI, change(WIKI, "test_mask", lambda mask: [True] * len(mask)), "share the node"),
    ("wikics", WIKI, drop(WIKI, "links"), "lacks the lists links"),
    ("wikics", WIKI, whole(WIKI, lambda _: [1, 2]), "lacks the lists features"),
    ("wikics", WIKI, whole(WIKI, lambda _: b"[" * 100_000), "no JSON"),
    ("graphsaint", SAINT, change(SAINT, "indices", put(0, NUM_NODES)), "index 40, outside"),
    ("graphsaint", SAINT, change(SAINT, "format", lambda _: np.array(b"bsr")), "the format 'bsr'"),
    ("graphsaint", SAINT, change(SAINT, "shape", lambda _: np.array([41, 40])), "row pointers that do not fit 41 rows"),
    ("graphsaint", SAINT, change(SAINT, "shape", lambda _: np.array([40, 41])), "for 40 rows in feats.npy"),
    ("graphsaint", FEATURES, whole(FEATURES, put((9, 2), np.inf)), "row 9 of its features"),
    ("graphsaint", FEATURES, whole(FEATURES, lambda x: x[0]), "shape"),
    ("graphsaint", FEATURES, whole(FEATURES, lambda x: x.astype(str)), "not numbers"),
    ("graphsaint", LABELS, whole(LABELS, lambda _: {"40": 1}), "names the node 40"),
    ("graphsaint", LABELS, whole(LABELS, lambda _: {"-1": 1}), "no mapping from node numbers"),
    ("graphsaint", LABELS, whole(LABELS, lambda _: {"1": 1, "01": 1}), "names a node twice"),
    ("graphsaint", LABELS, whole(LABELS, lambda _: {"1": 1.5}), "its labels have dtype float64"),
    ("graphsaint", LABELS, whole(LABELS, lambda _: {"1": 41}), "row 1 has the class 41"),
    ("graphsaint", LABELS, whole(LABELS, lambda _: [1]), "no mapping"),
    ("graphsaint", ROLES, change(ROLES, "va", lambda nodes: [*nodes, 40]), "'va' names the node 40"),
    ("graphsaint", ROLES, change(ROLES, "va", lambda nodes: [*nodes, nodes[0]]), "'va' names a node twice"),
    ("graphsaint", ROLES, change(ROLES, "va", lambda _: ["a"]), "nodes in 'va'"),
    ("graphsaint", ROLES, change(ROLES, "va", lambda _: list(range(40))), "share the node"),
    ("graphsaint", ROLES, drop(ROLES, "te"), "lacks one of the lists"),
    ("graphsaint_labels", LABELS, drop(LABELS, "7"), "no labels for the node 7"),
    ("graphsaint_labels", LABELS, change(LABELS, "7", lambda _: [1, 2, 0]), "something else than 0 and 1"),
    ("graphsaint_labels", LABELS, change(LABELS, "7", lambda _: [1]), "no table of numbers"),
    ("graphsaint_labels", LABELS, change(LABELS, "7", lambda _: 1), "no table of numbers"),
    ("reddit", "reddit.zip", change("reddit_data.npz", "label", put(0, -2)), "row 0 has the class -2"),
    ("reddit", "reddit.zip", change("reddit_data.npz", "feature", put((3, 0), np.nan)), "row 3 of its features"),
    ("reddit", "reddit.zip", change("reddit_data.npz", "node_types", shorter), "shape"),
    ("reddit", "reddit.zip", drop("reddit_data.npz", "node_types"), "no array 'node_types'"),
    ("reddit", "reddit.zip", whole("reddit_graph.npz", lambda _: b"PK\x03\x04"), "no zip archive"),
    ("geom_gcn", FILM, whole(FILM, lambda text: text + "40\t1\n"), "line 42 has 2 fields, not 3"),
    ("geom_gcn", FILM, whole(FILM, lambda text: text + "40\tx\t1\n"), "line 42 has 'x'"),
    ("geom_gcn", FILM, whole(FILM, lambda text: text + "40\t-1\t1\n"), "line 42 has '-1'"),
    ("geom_gcn", FILM, whole(FILM, lambda text: text + "41\t1\t1\n"), "do not name each of the nodes 0 .. 40 once"),
    ("geom_gcn", FILM, whole(FILM, lambda text: text + "40\t999999999\t1\n"), "names the feature 999,999,999"),
    ("geom_gcn", FILM, whole(FILM, lambda text: text + "40\t1\t99\n"), "row 40 has the class 99"),
    ("geom_gcn", FILM, whole(FILM, lambda _: "heading\n"), "no lines after its heading"),
    ("geom_gcn", FILM_EDGES, whole(FILM_EDGES, lambda text: text + "1\t40\n"), "names the node 40"),
    ("geom_gcn", FILM_EDGES, whole(FILM_EDGES, lambda text: text + "1 2\n"), "1 fields, not 2"),
    ("geom_gcn", FILM_SPLIT, change(FILM_SPLIT, "val_mask", np.ones_like), "share the node"),
    ("geom_gcn", FILM_SPLIT, change(FILM_SPLIT, "val_mask", lambda mask: mask * 2), "something else than 0 and 1"),
    ("geom_gcn", FILM_SPLIT, change(FILM_SPLIT, "val_mask", shorter), "shape"),
]


@pytest.mark.parametrize(("source", "file", "spoil", "words"), CASES)
def test_files_that_contradict(tmp_path: Path, source: str, file: str, spoil: Spoil, words: str) -> None:
    """What would index out of bounds, train on a NaN or test on training nodes is an error before anything is made."""
    entry = spoiled(source, tmp_path / "raw", spoil)
    with pytest.raises(DatasetError, match=words) as caught:
        readers.read(tmp_path / "raw", entry)
    assert str(caught.value).startswith(f"{tmp_path / 'raw' / file} is damaged")
