"""What is said of a store: splits, features, degrees, and the warnings that a person needs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from graphprep.core.types import RawGraph
from graphprep.report.summary import node_summary
from graphprep.report.summary.degrees import degree_summary, most_connected
from graphprep.report.summary.store_summary import store_summary
from graphprep.store.convert import graph_to_store
from graphprep.system import home
from tests.graphs import labelled_graph, typed_graph
from tests.stores import make_store


def changed(raw: RawGraph, **arrays: Any) -> RawGraph:
    """The same graph with other node arrays."""
    return replace(raw, nodes={"node": replace(raw.nodes["node"], **arrays)})


@pytest.fixture
def raw() -> RawGraph:
    return labelled_graph(np.random.default_rng(0), num_nodes=60, num_edges=400, undirected=True)


def warned(raw: RawGraph) -> dict[str, str]:
    """The warnings about a graph, by what they are about."""
    store = graph_to_store(
        raw, home.store_path("g"), name="g", key="0" * 64, source={"reader": "test"}, expected=None, anyway=True
    )
    return {warning["what"]: warning["text"] for warning in store_summary(store)["warnings"]}


def test_it_is_json_and_counts_what_is_there(raw: RawGraph) -> None:
    """Guards against NumPy values that JSON does not take, and against counts that do not add up."""
    summary = json.loads(json.dumps(store_summary(make_store(raw)), allow_nan=False))
    node, table = summary["nodes"]["node"], raw.nodes["node"]
    assert table.y is not None
    assert table.train_mask is not None
    assert node["count"] == summary["num_nodes"] == 60
    assert node["splits"]["train"] == [int(table.train_mask.sum())]
    assert sum(node["nodes_per_class"]) == node["labelled"] == int((table.y >= 0).sum())
    assert sum(node["first_split_per_class"]["train"]) == node["splits"]["train"][0]
    assert node["in_no_split"] == [int((table.y < 0).sum())]
    histogram = summary["edges"]["node__to__node"]["in_degree"]["histogram"]
    assert sum(row["nodes"] for row in histogram) == 60


def test_leaked_splits_are_named(raw: RawGraph) -> None:
    """Guards against test nodes that are trained on without a word."""
    assert "leaked-split" not in warned(raw)
    table = raw.nodes["node"]
    assert table.train_mask is not None
    leaky = replace(table, test_mask=table.train_mask)
    found = warned(replace(raw, nodes={"node": leaky}))["leaked-split"]
    assert f"{int(table.train_mask.sum())} nodes are in train and in test" in found


def test_what_is_wrong_with_features_is_named(raw: RawGraph) -> None:
    """Guards against NaN and empty rows that are found when the loss is no number."""
    x = np.zeros((60, 3), np.float16)
    x[:50, 0], x[:50, 1] = np.arange(50), 1
    x[7, 2] = np.nan
    found = warned(changed(raw, x=x))
    assert "1 values" in found["not-finite"]
    assert "10 of 60 rows" in found["empty-features"]
    assert "1 columns" in found["constant-features"]


def test_large_features_are_sampled_and_said_so(raw: RawGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against an inspection that reads a terabyte of features, and against a sample that is not called one."""
    monkeypatch.setattr(node_summary, "SAMPLED_BYTES", 16 * 5 * 4 * 2)
    features = store_summary(make_store(raw))["nodes"]["node"]["features"]
    assert not features["is_whole"]
    assert features["rows_looked_at"] == 30


def test_one_way_edges_duplicates_and_islands_are_named() -> None:
    """Guards against a directed graph that a person took for an undirected one."""
    found = warned(labelled_graph(np.random.default_rng(0), num_nodes=300, num_edges=200))
    assert {"one-way", "isolated", "components"} <= found.keys()
    assert "no reverse" in found["one-way"]
    found = warned(labelled_graph(np.random.default_rng(0), num_nodes=9, num_edges=200))
    assert {"duplicates", "self-loops"} <= found.keys()


def test_hubs_and_lopsided_classes_are_named() -> None:
    """Guards against a star whose centre is found out when one rank has all the work."""
    raw = labelled_graph(np.random.default_rng(0), num_nodes=400, num_edges=10)
    degree = degree_summary(np.array([399, *([1] * 399)]))
    assert degree["top_share"] == pytest.approx((399 + 3) / 798)
    y = np.zeros(400, np.int64)
    y[:3] = 1
    mask = np.ones((400, 1), np.bool_)
    none = ~mask
    found = warned(changed(raw, y=y, train_mask=mask, val_mask=none, test_mask=none))
    assert "397" in found["lopsided-classes"]
    assert "class 1, with 3" in found["scarce-classes"]


def test_several_types(raw: RawGraph) -> None:
    """Guards against a type without features, labels or edges of its own that ends the inspection."""
    summary = store_summary(make_store(typed_graph(np.random.default_rng(4))))
    assert set(summary["nodes"]) == {"author", "paper"}
    assert summary["edges"]["author__writes__paper"]["one_way"] is None
    assert "classes" not in summary["nodes"]["author"]


def test_degrees() -> None:
    """Guards against bins that lose or double the nodes at their ends."""
    degree_N = np.array([0, 0, 1, 2, 3, 4, 7, 8, 9], np.int32)
    rows = degree_summary(degree_N)["histogram"]
    assert [(row["low"], row["high"], row["nodes"]) for row in rows] == [
        (0, 0, 2),
        (1, 1, 1),
        (2, 3, 2),
        (4, 7, 2),
        (8, 9, 2),
    ]
    assert degree_summary(np.zeros(3, np.int32))["histogram"][0]["nodes"] == 3
    top = most_connected(np.array([1, 5, 0, 5], np.int32), np.array([0, 1, 9, 1], np.int32))
    assert [row["node"] for row in top] == [2, 1, 3, 0]
