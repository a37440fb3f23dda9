"""What a run is expected to need, against what it takes."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer.handmade_cache import make_cache, random_graph
from tests.trainer.rank_group import among_ranks, run_options, train_once
from tests.trainer.typed_cache import Relation, TypedGraph, make_typed_cache
from trainer.base.errors import TrainingError
from trainer.data.cache import open_cache
from trainer.data.objective import Objective
from trainer.data.part import load_part
from trainer.data.typed_part import load_typed_part
from trainer.dist.communicator import Communicator
from trainer.startup.handshake import sizes_of
from trainer.startup.memory import (
    CrossSizes,
    Sizes,
    TypedSizes,
    available_bytes,
    check_memory,
    estimate_bytes,
    estimate_summary,
    with_cross_edges,
)

pytestmark = pytest.mark.slow

FACTOR = 2.0
"""How far the measured peak may be from what was expected, either way; docs/training-reference.md says so."""
MODELS: dict[str, dict[str, Any]] = {
    "gcn": {"hidden": 192, "layers": 3, "dropout": 0.5, "input_dropout": 0.0},
    "sage": {"model": "sage", "hidden": 96, "layers": 3, "dropout": 0.5, "norm": "batch"},
    "gat": {"model": "gat", "heads": 2, "hidden": 48, "layers": 3, "dropout": 0.5, "input_dropout": 0.0},
    "gcn, tensor": {"hidden": 192, "layers": 3, "dropout": 0.5, "input_dropout": 0.0, "exchange": "tensor"},
    "links": {"task": "links", "hidden": 96, "negatives": 2, "eval_negatives": 2, "input_dropout": 0.0},
    "gat, sequential": {"model": "gat", "heads": 2, "hidden": 96, "layers": 3, "exchange": "sequential"},
    "gin, edge features": {"model": "gin", "hidden": 96, "layers": 3, "edge_features": "edge_attr"},
    "sage, edge features": {"model": "sage", "hidden": 96, "layers": 3, "edge_features": "edge_attr"},
    "sage, batches": {
        "model": "sage",
        "hidden": 96,
        "batch_size": 2500,
        "fanouts": "6,6",
        "epochs": 3,
        "eval_every": 1,
    },
}
SIZES = Sizes(
    rows=1000, halo=200, largest_halo=80, sent=150, others=3000, edges=20_000, index_bytes=4, features=64, outputs=7
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    graph = random_graph(num_nodes=40_000, num_edges=400_000, num_features=64, num_classes=5)
    nodes = np.arange(40_000)
    graph.edge_attr = np.ones((len(graph.src), 16), np.float32)
    return make_cache(tmp_path_factory.mktemp("memory") / "cache", graph, (nodes % 10 < 4).astype(int), 2)


def status(name: str) -> int:
    """A figure of this process, in bytes: VmRSS, VmHWM."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name)]
    return int(line.split()[1]) * 1024


def peak_of(communicator: Communicator, *, cache: str, **changes: Any) -> tuple[dict[str, int], int]:
    """What rank 0 was expected to take, by what for, and what it took at its fullest."""
    options, opened = run_options(cache, **changes), open_cache(cache)
    if opened.is_typed_for(options.model):
        part = load_typed_part(opened, communicator.rank, split=0)
    else:
        part = load_part(opened, communicator.rank, split=0, edge_features=options.edge_features)
    sizes = sizes_of(part, opened, Objective.of(opened, options), communicator)
    if options.exchange == "tensor":
        of_ranks = communicator.all_gather_object({"sizes": asdict(sizes)})
        sizes = with_cross_edges([Sizes.of(one["sizes"]) for one in of_ranks])[communicator.rank]
    expected = estimate_bytes(options, sizes)
    del part
    before = status("VmRSS")
    train_once(communicator, cache=cache, **{"epochs": 2, "eval_every": 2, **changes})
    return expected, status("VmHWM") - before


@pytest.mark.parametrize("model", MODELS)
def test_the_expected_peak_is_near_the_measured_one(cache: Path, model: str) -> None:
    """An estimate that is far too low lets runs die after an hour; one that is far too high refuses runs that fit."""
    [(expected, measured)] = among_ranks(2, [partial(peak_of, cache=str(cache), **MODELS[model])])
    total = sum(expected.values())
    assert measured > 100e6, "too small a case: the interpreter's own needs are not counted"
    assert total / FACTOR < measured < total * FACTOR, (expected, measured)


@pytest.fixture(scope="module")
def typed_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, numbers = np.random.default_rng(0), {"author": 40_000, "paper": 30_000}
    ends = [("author", "writes", "paper"), ("paper", "by", "author"), ("paper", "cites", "paper")]
    graph = TypedGraph(
        x={"author": np.empty((40_000, 0), np.float32), "paper": rng.normal(size=(30_000, 64)).astype(np.float32)},
        relations=[
            Relation(
                source=source,
                name=name,
                destination=destination,
                src=rng.integers(0, numbers[source], 70_000),
                dst=rng.integers(0, numbers[destination], 70_000),
            )
            for source, name, destination in ends
        ],
        target="paper",
        y=rng.integers(0, 3, 30_000),
        role=rng.permutation(30_000) * 4 // 30_000,
    )
    assignment = {name: np.arange(number) % 2 for name, number in numbers.items()}
    return make_typed_cache(tmp_path_factory.mktemp("typed") / "cache", graph, assignment, 2)


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "rgcn", "hidden": 96},
        {"model": "rgat", "hidden": 96, "heads": 1},
        {"model": "hgt", "hidden": 48, "heads": 2},
        {"model": "hgt", "hidden": 48, "heads": 2, "exchange": "sequential"},
    ],
)
def test_the_expected_peak_of_several_types_is_near_the_measured_one(
    typed_cache: Path, changes: dict[str, Any]
) -> None:
    """Rows and sums of relations and learnt rows are the most that these models take, and no other model has them."""
    of_run = {**changes, "layers": 2, "dropout": 0.5}
    [(expected, measured)] = among_ranks(2, [partial(peak_of, cache=str(typed_cache), **of_run)])
    total = sum(expected.values())
    assert expected["embeddings"] == 20_000 * 96 * 36
    assert measured > 100e6
    assert total / FACTOR < measured < total * FACTOR, (expected, measured)


def test_several_types_grow_with_what_is_theirs() -> None:
    """A term that is forgotten for R-GCN makes the advice wrong."""
    typed = TypedSizes(
        sums=1500, relations=3, feature_weights=90, features=64_000, entries=4_000, learnt=300, gathered=900, sources=70
    )
    plain = run_options("c", model="rgcn", hidden=64)

    def total(changed: TypedSizes = typed, **changes: Any) -> int:
        return sum(estimate_bytes(replace(plain, **changes), replace(SIZES, typed=changed)).values())

    for name in TypedSizes.__slots__:
        grows = {"checkpoint": "c"} if name == "gathered" else {"model": "hgt"} if name == "sources" else {}
        assert total(replace(typed, **{name: 10 * getattr(typed, name)}), **grows) > total(**grows), name
    assert total(bases=2) < total() < total(checkpoint="c")
    assert total(precision="bf16") < total()
    assert total(exchange="sequential") < total() < total(exchange="broadcast")
    for model in ("rgat", "hgt"):
        assert total(model=model, heads=1) < total(model=model, heads=4)
        assert total(model=model, exchange="sequential") < total(model=model) < total(model=model, layers=4)
        assert total(model=model, precision="bf16") < total(model=model) < total(model=model, checkpoint="c")
    assert total(model="rgat") < total(model="hgt")


def test_pairs_grow_with_what_is_theirs() -> None:
    """A batch that is not counted lets a run die in its first epoch; advice that changes nothing helps nobody."""
    plain = run_options("c", hidden=64, task="links", pair_batch=50, negatives=2)

    def total(**changes: Any) -> int:
        return sum(estimate_bytes(replace(plain, **changes), SIZES).values())

    assert (
        estimate_bytes(replace(plain, task="auto"), SIZES).get("pairs", 0) == 0 < estimate_bytes(plain, SIZES)["pairs"]
    )
    assert total(pair_batch=5) < total() < total(decoder="mlp")
    assert total(pair_batch=10**9) < total(pair_batch=10**9, negatives=20)


def test_columns_of_features_are_counted() -> None:
    """Guards against a table of all nodes' features that the estimate knows nothing of, and one where rows travel."""
    by_rows = run_options("c", batch_size=50)
    by_columns = estimate_bytes(replace(by_rows, features_by="columns"), SIZES)
    assert by_columns == estimate_bytes(by_rows, SIZES) | {"columns": 4 * 1000 * 64}
    alone = replace(SIZES, others=0)
    assert "columns" not in estimate_bytes(replace(by_rows, features_by="columns"), alone)


def test_what_grows_grows_and_what_saves_saves() -> None:
    """A term that is forgotten for an option makes the advice wrong."""
    plain = run_options("c", hidden=64, layers=3, dropout=0.5)

    def total(sizes: Sizes = SIZES, **changes: Any) -> int:
        return sum(estimate_bytes(replace(plain, **changes), sizes).values())

    assert total(precision="bf16") < total()
    assert total(hidden=32) < total() < total(layers=4)
    assert total(input_dropout=0.0) < total() < total(norm="layer") < total(norm="batch")
    assert total() < total(staleness="fixed:4") < total(staleness="fixed:4", staleness_grad="fixed:4")
    assert total() < total(exchange="broadcast")
    cross = CrossSizes(ranks=4, rows=4000, sums=4000, edges=80_000)
    assert total() < total(replace(SIZES, cross=cross), exchange="tensor")
    assert total() == total(replace(SIZES, cross=cross))
    assert total() == total(replace(SIZES, cross=replace(cross, ranks=1)), exchange="tensor")
    assert total() < total(inductive=True)
    assert total() < total(model="sage")
    assert total() < total(model="gat", heads=1) < total(model="gat", heads=4)
    assert total(model="gat", exchange="sequential") < total(model="gat")
    assert total() < total(jumping="cat")
    assert total() < total(residual=True)
    assert total(replace(SIZES, halo=2000)) > total()
    with_edges = replace(SIZES, edge_features=16)
    for model in ("gat", "gin", "sage"):
        more = total(with_edges, model=model, edge_features="a") - total(model=model, edge_features="a")
        of_edges = SIZES.rows if model == "sage" else 2 * SIZES.edges
        assert more > 16 * of_edges * 4, model
    assert total(with_edges, model="gin", edge_features="a", exchange="sequential") < total(
        with_edges, model="gin", edge_features="a"
    )
    few = replace(SIZES, features=2000, entries=20_000)
    assert total(few) < total(replace(few, entries=None)) / 2
    assert total(few) < total(replace(few, halo=2000)) < total(replace(few, halo=2000, entries=40_000))
    assert total(replace(SIZES, index_bytes=8)) > total()


def facts(*available: int, device: str = "cpu", hosts: str = "hh") -> list[dict[str, Any]]:
    return [{"host": host, "device": device, "available": room} for host, room in zip(hosts, available, strict=True)]


def test_ranks_of_a_machine_share_its_memory() -> None:
    """Each of eight ranks that fits alone, refused by nobody, is a machine that swaps or kills."""
    options = run_options("c", hidden=64, layers=3)
    one = sum(estimate_bytes(options, SIZES).values())
    check_memory(facts(2 * one + 1, 2 * one + 1), options, [SIZES, SIZES])
    check_memory(facts(one + 1, one + 1, hosts="ab"), options, [SIZES, SIZES])
    with pytest.raises(TrainingError, match=r"the 2 ranks on h .* --anyway") as caught:
        check_memory(facts(2 * one - 1, 2 * one - 1), options, [SIZES, SIZES])
    assert "use " in str(caught.value)
    assert "--precision bf16" in str(caught.value)
    assert "partition into 4 parts" in str(caught.value)
    check_memory(facts(1, 1), replace(options, anyway=True), [SIZES, SIZES])


def test_what_is_advised_fits() -> None:
    """Advice that leads to the same refusal is worse than none."""
    options = run_options("c", hidden=64, layers=3)
    room = int(0.8 * sum(estimate_bytes(options, SIZES).values()))
    with pytest.raises(TrainingError) as caught:
        check_memory(facts(room, hosts="h"), options, [SIZES])
    advice = str(caught.value).partition("use ")[2].partition(", partition")[0].split(" or ")
    assert advice
    for words in advice:
        name, value = words.removeprefix("--").replace("-", "_").split()
        kind = type(getattr(options, name)) if getattr(options, name) is not None else float
        check_memory(facts(room, hosts="h"), replace(options, **{name: kind(value)}), [SIZES])


def test_the_fullest_rank_is_announced() -> None:
    """The rank that runs out first is the one to know about."""
    options = run_options("c", hidden=64, layers=3)
    said = estimate_summary(options, [SIZES, replace(SIZES, rows=5000), SIZES])
    assert said.startswith("rank 1 will need the most memory, about ")
    assert "activations" in said


def test_there_is_some_memory_here() -> None:
    """A reading that fails as 0 refuses every run, and one that fails as infinity none."""
    assert 1e6 < available_bytes() < 1e15
