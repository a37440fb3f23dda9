"""Partition, compare, plan and export from Python give what the commands give, from whatever names their input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import graphprep as gp
from graphprep.errors import CacheError, DatasetError, TopologyError, UsageError
from graphprep.store.store import GraphStore
from pipelines.compare import compare
from tests.graphs import labelled_graph
from tests.stores import make_store

MACHINE = """
name: pair
ranks: [{name: a, machine: m}, {name: b, machine: m}]
links: [{ends: [a, b], type: cable, gbytes_per_s: 10, latency_us: 2}]
"""


@pytest.fixture
def store() -> GraphStore:
    """A small labelled graph."""
    return make_store(labelled_graph(np.random.default_rng(3), 40, 200), name="small")


def test_graphs_and_topologies_by_any_name(store: GraphStore, tmp_path: Path) -> None:
    """Guards against a function that takes a path or an object, but not both."""
    (tmp_path / "pair.yaml").write_text(MACHINE)
    machine = gp.Topology.from_text(MACHINE)
    first = gp.partition(store, topology=machine, method="random", effort="none")
    assert first.folder.name == "pair"
    for graph in ("small", store.location, Path(store.location), store):
        for topology in (MACHINE, tmp_path / "pair.yaml", str(tmp_path / "pair.yaml"), machine):
            assert gp.partition(graph, topology=topology, method="random", effort="none").key == first.key
    with pytest.raises(TopologyError, match="the topology"):
        gp.partition(store, topology="name: pair\nranks: 7\n")


def test_an_assignment_as_an_array(store: GraphStore, tmp_path: Path) -> None:
    """Guards against part numbers of another order, and arrays that pass unchecked."""
    parts = np.arange(40) % 2
    np.save(tmp_path / "parts.npy", parts)
    caches = [
        gp.partition(store, parts=2, assignment=given, out=tmp_path / f"cache-{number}")
        for number, given in enumerate([parts, torch.from_numpy(parts), parts.tolist(), tmp_path / "parts.npy"])
    ]
    for cache in caches:
        assert cache.assignment("node").tolist() == parts.tolist()
        assert cache.attributes["options"]["effort"] == "none"
    assert len({cache.key for cache in caches[:3]}) == 1
    with pytest.raises(UsageError, match="an assignment is the only start"):
        gp.partition(store, parts=2, assignment=parts, method="metis")
    with pytest.raises(RuntimeError, match=r"has shape \(40,\) and dtype float64; give one part number a node"):
        gp.partition(store, parts=2, assignment=parts * 1.0)


@pytest.mark.slow
def test_compare_plan_and_export(store: GraphStore, tmp_path: Path) -> None:
    """Guards against other figures than the commands', and objects that are not taken for their folders."""
    one = gp.partition(store, parts=2, method="random", effort="none")
    other = gp.partition(store, parts=2, method="ldg", effort="none", out=tmp_path / "other")
    compared = gp.compare(one, str(tmp_path / "other"))
    names = [str(one.folder), str(tmp_path / "other")]
    assert compared == compare(names)
    assert [row["method"] for row in compared["caches"]] == ["random", "ldg"]
    machine = gp.Topology.from_text(MACHINE)
    assert gp.compare(one, other, topology=machine, row_bytes=64)["topologies"] == ["pair"]
    with pytest.raises(UsageError, match="at least two caches"):
        gp.compare(one)

    planned = gp.plan(one, gpu="A100-40GB", hidden=16, dropout=0.2)
    assert planned["training"]["hidden"] == 16
    assert planned["training"]["input_dropout"] == 0.2
    assert planned["num_parts"] == 2
    assert not planned["is_sketch"]
    assert gp.plan(store, topology=machine, gpu="A100-40GB")["topology"] == "pair"
    with pytest.raises(UsageError, match=r"^model 'gat' cannot be planned"):
        gp.plan(one, model="gat")  # type: ignore[arg-type]

    folder = gp.export(one, tmp_path / "npz", format="npz")
    assert folder == tmp_path / "npz"
    assert any(folder.rglob("*.npz"))
    with pytest.raises(UsageError, match="give replace=True"):
        gp.export(other, tmp_path / "npz", format="npz")
    assert gp.export(other, tmp_path / "npz", format="npz", replace=True) == folder


def test_objects_that_are_something_else(store: GraphStore) -> None:
    """Guards against a path made of an object's name in memory, and against Python's own words."""
    calls: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: gp.train(store), CacheError, "a GraphStore is no partition cache; make one of a graph"),  # type: ignore[arg-type]
        (lambda: gp.partition({"x": 1}, parts=2), DatasetError, "a dict is no graph store; .*from_pyg"),  # type: ignore[arg-type]
        (lambda: gp.partition(store, parts="2"), UsageError, "parts '2' is no whole number"),  # type: ignore[arg-type]
        (lambda: gp.partition(store, extend=store), CacheError, "a GraphStore is no partition cache"),  # type: ignore[arg-type]
    ]
    for call, error, words in calls:
        with pytest.raises(error, match=words):
            call()
    cache = gp.partition(store, parts=1, method="random", effort="none")
    with pytest.raises(UsageError, match="the model is an object of dict; give its class"):
        gp.train(cache, model={})  # type: ignore[arg-type]


def test_caches_that_are_not_there() -> None:
    """Guards against a traceback of a file that is missing."""
    with pytest.raises(CacheError, match="neither a folder nor NAME/LABEL"):
        gp.compare("nowhere/flat-2", "nowhere/flat-3")
    with pytest.raises(CacheError, match="neither a folder nor NAME/LABEL"):
        gp.export("nowhere/flat-2", "out", format="npz")
