"""Learning arrays of edges: alike on any number of ranks, each label with its own edge, by shares or a given split."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from tests.trainer.handmade_cache import Array, HandmadeGraph, make_cache, random_graph
from tests.trainer.rank_group import Run, among_ranks, train_once
from trainer.__main__ import main

pytestmark = pytest.mark.slow

WORLDS = (1, 3)


def labelled_graph() -> HandmadeGraph:
    """A graph whose edges have features, a class and a number that these say something about, and a role."""
    graph, rng = random_graph(seed=4, loops_and_duplicates=True), np.random.default_rng(5)
    number = len(graph.src)
    price = rng.normal(size=(number, 2)).astype(np.float32)
    kind = (price[:, 0] > 0).astype(np.int32) + (price[:, 1] > 0.5)
    kind[rng.random(number) < 0.1] = -1
    amount = price[:, :1] * 2 + graph.x[graph.src, :1]
    amount[rng.random(number) < 0.1] = np.nan
    role = rng.choice(3, number, p=[0.6, 0.2, 0.2]).astype(np.int8)
    graph.edge_arrays = {"price": price, "kind": kind, "amount": amount.astype(np.float32), "role": role}
    return graph


GRAPH = labelled_graph()
COMMON: dict[str, Any] = {"task": "edges", "epochs": 30, "lr": 0.05, "eval_every": 10, "edge_split": "0.6,0.2,0.2"}
SETTINGS: dict[str, dict[str, Any]] = {
    "classes": {"edge_label": "kind", "edge_features": "price", "embedding": 4},
    "small batches": {"edge_label": "kind", "edge_features": "price", "embedding": 4, "pair_batch": 30},
    "given split": {
        "edge_label": "kind",
        "edge_split": "role",
        "metric": "f1-macro",
        "class_weights": "balanced",
        "model": "gat",
        "edge_features": "price",
    },
    "numbers": {"edge_label": "amount", "model": "sage"},
}


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder, shares = tmp_path_factory.mktemp("edge labels"), np.random.default_rng(2).choice(3, 60, p=[0.2, 0.3, 0.5])
    return {world: make_cache(folder / str(world), GRAPH, shares * (world > 1), world) for world in WORLDS}


@pytest.fixture(scope="module")
def fitted(caches: dict[int, Path]) -> dict[tuple[str, int], Run]:
    found = {}
    for world in WORLDS:
        folder = caches[world].parent
        tasks = [
            partial(
                train_once,
                cache=str(caches[world]),
                save_pairs=str(folder / f"{setting}-{world}.csv"),
                save_weights=str(folder / f"{setting}-{world}.pt"),
                **COMMON | changes,
            )
            for setting, changes in SETTINGS.items()
        ]
        for setting, run in zip(SETTINGS, among_ranks(world, tasks), strict=True):
            found[setting, world] = run
    return found


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def edges_with(array: Array) -> dict[tuple[int, int], list[Any]]:
    """The values of the edges between two nodes; edges may repeat."""
    found: dict[tuple[int, int], list[Any]] = {}
    for source, destination, value in zip(GRAPH.src.tolist(), GRAPH.dst.tolist(), array.tolist(), strict=True):
        found.setdefault((source, destination), []).append(value)
    return found


@pytest.mark.parametrize("setting", SETTINGS)
def test_any_number_of_ranks_learns_the_same(fitted: dict[tuple[str, int], Run], setting: str) -> None:
    """A label that is with another edge on some rank, or a mean over one rank's edges, makes another loss."""
    one, three = (fitted[setting, world] for world in WORLDS)
    assert three.losses == pytest.approx(one.losses, rel=1e-4)
    assert one.losses[-1] < one.losses[0]
    metric = one.result["metric"]
    for group in ("val", "test"):
        assert three.result[f"{group}_{metric}"] == pytest.approx(one.result[f"{group}_{metric}"], abs=1e-3)
    assert three.result["split_counts"] == one.result["split_counts"]


def test_features_of_edges_and_batches(fitted: dict[tuple[str, int], Run]) -> None:
    """Guards against features of the batch before, and against a decoder that does not read them."""
    assert fitted["small batches", 3].losses == pytest.approx(fitted["classes", 1].losses, rel=1e-4)
    assert fitted["classes", 3].result["test_accuracy"] > 0.8, "the class is in the features of the edge"


def test_saved_edges_have_their_own_labels(fitted: dict[tuple[str, int], Run], caches: dict[int, Path]) -> None:
    """Guards against labels in another order than edges, and against a split that is not the given one."""
    folder, kinds, roles = (
        caches[3].parent,
        edges_with(GRAPH.edge_arrays["kind"]),
        edges_with(GRAPH.edge_arrays["role"]),
    )
    rows = rows_of(folder / "given split-3.csv")
    assert list(rows[0]) == ["source", "destination", "label", "prediction", "score_0", "score_1", "score_2"]
    known = (GRAPH.edge_arrays["role"] == 2) & (GRAPH.edge_arrays["kind"] >= 0)
    assert len(rows) == known.sum() == fitted["given split", 3].result["split_counts"]["test"]
    for row in rows:
        ends = int(row["source"]), int(row["destination"])
        assert int(row["label"]) in kinds[ends]
        assert 2 in roles[ends]
    label, prediction = ([int(row[name]) for row in rows] for name in ("label", "prediction"))
    expected = f1_score(label, prediction, average="macro")
    assert fitted["given split", 3].result["test_f1_macro"] == pytest.approx(expected)
    rows, amounts = rows_of(folder / "numbers-3.csv"), edges_with(GRAPH.edge_arrays["amount"][:, 0])
    assert all(
        any(float(row["label"]) == pytest.approx(one) for one in amounts[int(row["source"]), int(row["destination"])])
        for row in rows
    )
    errors = [(float(row["label"]) - float(row["score_0"])) ** 2 for row in rows]
    assert fitted["numbers", 3].result["test_mse"] == pytest.approx(np.mean(errors), rel=1e-4)


def test_the_decoder_reads_both_rows_and_the_features(
    fitted: dict[tuple[str, int], Run], caches: dict[int, Path]
) -> None:
    """Guards against a decoder of one end."""
    assert fitted["classes", 3].result["model"] == "gcn"
    weights = torch.load(caches[3].parent / "classes-3.pt", weights_only=True)
    assert weights["decoder.weight_FG"].shape == (4 + 4 + 2, 8)
    assert weights["decoder.weight_GC"].shape == (8, 3)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--edge-label", "color"], "have no color; give --edge-label amount or kind or price or role"),
        (["--edge-label", "kind", "--edge-split", "color"], "have no color with one number an edge"),
        (["--edge-label", "kind", "--edge-split", "price"], "have no price with one number an edge"),
        (["--edge-label", "kind", "--metric", "mse"], "--metric mse is no metric of the task classes"),
        (["--edge-label", "kind", "--class-weights", "1,2"], "kind has 3 classes"),
        (["--edge-label", "amount", "--class-weights", "balanced"], "numbers are learnt"),
    ],
)
def test_what_does_not_fit_is_refused(
    caches: dict[int, Path], capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    """Guards against a traceback, or a run that learns something else."""
    assert main([str(caches[1]), "--task", "edges", *words]) in (2, 7)
    assert sentence in capsys.readouterr().err
