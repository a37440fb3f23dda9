"""The plan of a cache and of a store: sums of its parts, honest about sketches, one sentence for what is none."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphprep import open_store
from graphprep.cache.read import PartitionCache
from graphprep.core.types import Csr
from graphprep.errors import TrainingError, UsageError
from graphprep.plan import rates
from graphprep.plan.rates import Rates, first_rows, measured_rates
from graphprep.plan.trainer_memory import ExpectedMemory, expected_memory
from graphprep.plan.training import TrainingPlan, Work, epoch_work
from graphprep.report.plan_tables import print_plan
from graphprep.topology import Topology
from graphprep.traffic import LinkModel, epoch_seconds
from graphprep.traffic.tensor import CrossRows, tensor_bytes, tensor_seconds
from pipelines.planning import plan as plan_pipeline
from pipelines.planning.counts import _count_entries, _entries_a_row
from pipelines.planning.plan import plan_training
from tests.graphs import labelled_graph, typed_graph
from tests.stores import make_cache, make_store

TRAINING = TrainingPlan(hidden=8, input_dropout=0.0)


class Any1(dict[str, float]):
    """The same rate for everything."""

    def __missing__(self, key: str) -> float:
        return 1e-4


def known_rates(sample: Csr, work: Work, *, processes: int) -> Rates:
    """Rates that are known, and not measured."""
    assert sample.num_rows >= 1
    return Rates(
        edges=Any1(),
        products=Any1(),
        gradients=Any1(),
        masked=Any1(),
        passed=Any1(),
        device="cpu",
        threads=processes,
    )


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is measured."""
    monkeypatch.setattr(plan_pipeline, "measured_rates", known_rates)
    monkeypatch.setattr(plan_pipeline, "gpus_here", list)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = make_store(labelled_graph(np.random.default_rng(1), 90, 700, undirected=True))
    make_cache(store, Topology.flat(2), tmp_path / "cache")
    return tmp_path / "cache"


def test_a_plan_is_the_sum_of_its_parts(folder: Path, quick: None) -> None:
    """Guards against a plan whose communication is not the cost model's."""
    found = json.loads(json.dumps(plan_training(str(folder), TRAINING), allow_nan=False))
    from graphprep.cache.read import PartitionCache
    from graphprep.report.summary.cache_summary import traffic_of

    cache = PartitionCache(folder)
    row_bytes = TRAINING.row_bytes(5, 3)
    training = epoch_seconds(traffic_of(cache), Topology.flat(2), row_bytes)
    validation = epoch_seconds(traffic_of(cache), Topology.flat(2), row_bytes[1:])
    assert TRAINING.num_weights(5, 3) == 5 * 8 + 8 + 8 * 3 + 3
    # Each of two ranks sends half of them to the other, twice.
    weights = 2 * float(LinkModel.of(Topology.flat(2)).seconds(np.array([[0, 38], [38, 0]]), 4).max())
    assert found["weights_seconds"] == pytest.approx(weights)
    assert found["communication_seconds"] == pytest.approx(training + validation + weights)
    assert found["epoch_seconds"] == found["compute_seconds"] + found["communication_seconds"]
    for row, rank in zip(found["ranks"], cache.quality["ranks"], strict=True):
        assert (row["rows"], row["edges"], row["halo"]) == (rank["nodes"], rank["edges"], rank["halo_rows"])
        work = epoch_work(TRAINING, TRAINING.widths(5, 3), rows=row["rows"], halo=row["halo"], edges=row["edges"])
        amounts = (work.edges, work.entries, work.products, work.gradients, work.masked, work.passed)
        whole = sum(sum(amount.values()) for amount in amounts)
        assert row["compute_seconds"] == pytest.approx(1e-4 * whole)
    assert not found["is_sketch"]
    shown = io.StringIO()
    print_plan(found, shown)
    assert "not known:" in shown.getvalue()
    assert "advice:" in shown.getvalue()


def test_tensor_parallel_layers_are_planned(folder: Path, quick: None) -> None:
    """Guards against a plan of another exchange than that of the run, in bytes, seconds or memory."""
    boundary = plan_training(str(folder), TRAINING)
    tensor = plan_training(str(folder), replace(TRAINING, exchange="tensor"))
    assert boundary["layer_exchanges"] == []
    assert [(layer["layer"], layer["exchange"]) for layer in tensor["layer_exchanges"]] == [(2, "tensor")]
    store, cache = open_store("graph"), PartitionCache(folder)
    rows = CrossRows.of(store.csr(next(iter(store.num_edges))), cache.assignment("node"), 2)
    passes = [rows, rows.reversed(), rows]  # the last is a validation
    assert tensor["row_bytes"] == sum(
        int(one.sum()) for of_pass in passes for one in tensor_bytes(of_pass, 3, value_bytes=4)
    )
    model = LinkModel.of(Topology.flat(2))
    seconds = sum(tensor_seconds(model, of_pass, 3, value_bytes=4) for of_pass in passes)
    assert tensor["communication_seconds"] == pytest.approx(seconds + tensor["weights_seconds"])
    assert all(row["memory_by_purpose"]["cross adjacency"] > 0 for row in tensor["ranks"])
    sketched = plan_training("graph", replace(TRAINING, exchange="tensor"), parts=2)
    assert sketched["row_bytes"] > 0
    assert [way["staleness"] for way in tensor["ways"]] == ["none"] * 3
    auto = plan_training(str(folder), replace(TRAINING, exchange="auto"))
    [layer] = auto["layer_exchanges"]
    assert layer == {**tensor["layer_exchanges"][0], "exchange": layer["exchange"]}
    of_choice = boundary if layer["exchange"] == "boundary" else tensor
    assert auto["epoch_seconds"] == pytest.approx(of_choice["epoch_seconds"])
    shown = io.StringIO()
    print_plan(auto, shown)
    assert "layer 2, 3 wide: " in shown.getvalue()


def test_a_store_alone_is_sketched_and_said_so(folder: Path, quick: None) -> None:
    """Guards against guessed traffic, and against a sketch that passes for a partition."""
    found = plan_training("graph", TRAINING, parts=3)
    assert found["is_sketch"]
    assert sum(row["rows"] for row in found["ranks"]) == 90
    assert any("METIS" in text for text in found["unknown"])
    alone = plan_training("graph", TRAINING, parts=1)
    assert alone["communication_seconds"] == 0
    assert not alone["is_sketch"]


@pytest.mark.parametrize(
    ("name", "where", "words"),
    [
        ("cache", {"parts": 2}, "leave out --parts"),
        ("cache", {"topology": "2x2"}, "has 4 ranks and the cache 2 parts"),
        ("graph", {}, "give either --parts K or --topology"),
        ("typed", {"parts": 2}, "several node or edge types"),
    ],
)
def test_what_cannot_be_planned(folder: Path, quick: None, name: str, where: dict[str, Any], words: str) -> None:
    """Guards against a traceback, and against a plan of another thing than was asked for."""
    make_store(typed_graph(np.random.default_rng(1)), name="typed")
    with pytest.raises(UsageError, match=words):
        plan_training(str(folder) if name == "cache" else name, TRAINING, **where)


@pytest.mark.slow
def test_rates_are_measured_for_all_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a width that is planned with and was not measured."""
    sample = Csr(indptr=np.array([0, 2, 3]), indices=np.array([0, 1, 1], np.int32), num_sources=2)
    training, pairs = TrainingPlan(hidden=8), [(50, 8), (8, 3)]
    work = epoch_work(training, pairs, rows=2, halo=0, edges=3)
    seconds = measured_rates(sample, work, processes=2).seconds(work)
    assert set(seconds) == {"sums over edges", "dense products", "masks", "other passes"}
    assert all(value > 0 for value in seconds.values())
    work = epoch_work(training, pairs, rows=2, halo=0, edges=3, entries=2.0)
    seconds = measured_rates(sample, work, processes=1).seconds(work)
    assert set(seconds) == {"products of features", "sums over edges", "dense products", "masks", "other passes"}
    assert all(value > 0 for value in seconds.values())
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(TrainingError, match="graphprep doctor"):
        measured_rates(sample, work, processes=1)


def test_few_features_are_multiplied_by_their_entries() -> None:
    """Guards against bags of words that are planned as dense matrices, which the trainer does not make of them."""
    sizes = {"rows": 100, "halo": 20, "edges": 300}
    for model, paths in (("gcn", 1), ("sage", 2)):
        training = TrainingPlan(model=model, hidden=8, input_dropout=0.5, eval_every=2)
        dense = epoch_work(training, [(1000, 8), (8, 3)], **sizes)
        sparse = epoch_work(training, [(1000, 8), (8, 3)], **sizes, entries=10.0)
        assert sparse.entries == {8: 2.5 * 10 * (100 * paths + 20)}
        assert sparse.edges[8] == dense.edges[8] == 2.5 * (400 if model == "gcn" else 300)
        assert (1000, 8) in dense.products
        assert not any(1000 in pair for pair in [*sparse.products, *sparse.gradients])
        assert sparse.products[8, 3] == dense.products[8, 3]
        assert 1000 not in sparse.masked
        rank = {**sizes, "largest_halo": 20, "sent": 20, "others": 0, "index_bytes": 4, "features": 1000, "outputs": 3}
        by_form = [
            found
            for entries in (1000, None)
            for found in expected_memory([(training, None)], [{**rank, "entries": entries}], None)
            if isinstance(found, ExpectedMemory)
        ]
        assert [found.by_entries for found in by_form] == [True, False]
        held, dense_held = (found.bytes_by_purpose[0]["features"] for found in by_form)
        assert held < dense_held / 10


def test_how_full_features_are_is_sampled() -> None:
    """Guards against a matrix that is taken for an empty or a full one, and against one without rows."""
    random = np.random.default_rng(3)
    x = random.random((5000, 80)) < 1 / 16
    assert _entries_a_row(x) == pytest.approx(5, rel=0.1)
    assert _entries_a_row(x[:3]) == np.count_nonzero(x[:3]) / 3
    assert _count_entries(x) == np.count_nonzero(x)
    assert _count_entries(np.ones((5000, 80))) is _count_entries(None) is None
    assert _count_entries(x[:0]) == 0


def test_a_sample_is_the_first_rows() -> None:
    """Guards against a sample that is empty, or larger than it may be."""
    matrix = Csr(indptr=np.array([0, 5, 6]), indices=np.arange(6, dtype=np.int32) % 3, num_sources=3)
    assert first_rows(matrix).num_rows == 2
    whole, rates.MOST_SAMPLED_EDGES = rates.MOST_SAMPLED_EDGES, 4
    try:
        assert first_rows(matrix).num_rows == 1
    finally:
        rates.MOST_SAMPLED_EDGES = whole
