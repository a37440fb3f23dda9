"""Learning edges: alike on any number of ranks and in batches of any size, as PyG computes the loss, and resumed."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch.nn import functional

from tests.trainer.dense_reference import dense_adjacency
from tests.trainer.handmade_cache import edit_json, make_cache, random_graph, seal
from tests.trainer.rank_group import Run, among_ranks, run_options, train_once
from trainer.__main__ import main
from trainer.base.traffic_log import Clock
from trainer.data.cache import open_cache
from trainer.data.edge_split import HASH_END, PartEdges
from trainer.data.negatives import Negatives
from trainer.data.part import load_part
from trainer.dist.communicator import Communicator
from trainer.dist.rank_info import RankInfo
from trainer.exchange.edge_split import find_split
from trainer.training.ranking import NAMES

pytestmark = pytest.mark.slow

WORLDS = (1, 3)
GRAPHS = {
    "undirected": random_graph(seed=1, undirected=True),
    "directed": random_graph(seed=2, weighted=True, loops_and_duplicates=True),
    "without features": random_graph(seed=6, undirected=True, num_features=0),
}
COMMON: dict[str, Any] = {
    "task": "links",
    "epochs": 6,
    "edge_split": "0.7,0.1,0.2",
    "eval_every": 3,
    "eval_negatives": 10,
}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "dot": ("undirected", {"embedding": 4}),
    "small batches": ("undirected", {"embedding": 4, "pair_batch": 7}),
    "distmult": ("directed", {"decoder": "distmult", "model": "sage", "negatives": 3, "metric": "mrr"}),
    "mlp": ("directed", {"decoder": "mlp", "model": "gat", "heads": 2, "metric": "ap"}),
    "symmetric mlp": ("undirected", {"decoder": "mlp", "disjoint_train": 0.3, "metric": "hits@10", "norm": "batch"}),
    "tensor": ("undirected", {"embedding": 4, "exchange": "tensor"}),
    "sequential": ("undirected", {"embedding": 4, "exchange": "sequential"}),
    "broadcast, from training": ("undirected", {"exchange": "broadcast", "validate_from": "training"}),
    "learnt rows": ("without features", {"embedding": 4}),
    "without mrr": ("directed", {"eval_negatives": 0, "dropout": 0.3}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("links")


@pytest.fixture(scope="module")
def caches(folder: Path) -> dict[tuple[str, int], Path]:
    shares = np.random.default_rng(2).choice(3, 60, p=[0.2, 0.3, 0.5])
    return {
        (name, world): make_cache(folder / f"{name}-{world}", graph, shares if world == 3 else shares * 0, world)
        for name, graph in GRAPHS.items()
        for world in WORLDS
    }


@pytest.fixture(scope="module")
def fitted(folder: Path, caches: dict[tuple[str, int], Path]) -> dict[tuple[str, int], Run]:
    found = {}
    for world in WORLDS:
        tasks = [
            partial(
                train_once,
                cache=str(caches[name, world]),
                save_predictions=str(folder / f"{setting}-{world}.npy"),
                save_pairs=str(folder / f"{setting}-{world}.{'csv' if setting == 'mlp' else 'pairs.pt'}"),
                save_weights=str(folder / f"{setting}-{world}.pt"),
                **COMMON | changes,
            )
            for setting, (name, changes) in SETTINGS.items()
        ]
        for setting, run in zip(SETTINGS, among_ranks(world, tasks), strict=True):
            found[setting, world] = run
    return found


@pytest.mark.parametrize("setting", SETTINGS)
def test_any_number_of_ranks_learns_the_same(fitted: dict[tuple[str, int], Run], folder: Path, setting: str) -> None:
    """A rank that splits or draws by itself, or a gradient that does not come back, makes other weights."""
    one, three = (fitted[setting, world] for world in WORLDS)
    assert len(set(one.losses)) == 2
    assert three.losses == pytest.approx(one.losses, rel=1e-5)
    for group in ("val", "test"):
        for name in NAMES:
            value, other = (run.result[f"{group}_{name}"] for run in (one, three))
            if setting == "without mrr" and name == "mrr":
                assert value is other is None
            else:
                assert 0 < value <= 1 or name.startswith("hits")
                assert other == pytest.approx(value, abs=1e-4), (group, name)
    weights = [torch.load(folder / f"{setting}-{world}.pt", weights_only=True) for world in WORLDS]
    assert weights[0].keys() == weights[1].keys()
    for name, value in weights[0].items():
        torch.testing.assert_close(weights[1][name], value, atol=2e-5, rtol=1e-4)
    rows, others = (np.load(folder / f"{setting}-{world}.npy") for world in WORLDS)
    assert rows.shape == (60, SETTINGS[setting][1].get("embedding", 8))
    np.testing.assert_allclose(others, rows, atol=1e-4)


def test_a_batch_changes_nothing(fitted: dict[tuple[str, int], Run]) -> None:
    """Guards against a mean over a batch, or a last batch that is left out; also tensor and sequential exchanges."""
    reference = fitted["dot", 1]
    for setting in ("small batches", "tensor", "sequential"):
        assert fitted[setting, 3].losses == pytest.approx(reference.losses, rel=1e-5)
        for line, of_reference in zip(fitted[setting, 3].epochs, reference.epochs, strict=True):
            assert all(line[f"val_{name}"] == pytest.approx(of_reference[f"val_{name}"], abs=1e-4) for name in NAMES)


def test_the_decoder_is_trained_and_saved(fitted: dict[tuple[str, int], Run], folder: Path) -> None:
    """Guards against weights outside of the optimiser, of checkpoints or of the gradients' sum."""
    weights = {setting: torch.load(folder / f"{setting}-3.pt", weights_only=True) for setting in SETTINGS}
    assert not torch.equal(weights["distmult"]["decoder.relation_F"], torch.ones(8))
    assert weights["mlp"]["decoder.weight_FG"].shape == (16, 8), "of both rows, side by side"
    assert weights["symmetric mlp"]["decoder.weight_FG"].shape == (8, 8)
    assert float(weights["mlp"]["decoder.bias_C"]) != 0
    assert not any("decoder" in name for name in weights["dot"])


def test_saved_pairs_are_the_test_edges_with_scores_of_the_embeddings(
    fitted: dict[tuple[str, int], Run], folder: Path
) -> None:
    """Guards against numbers of rows in place of nodes, and against scores in another order than their pairs."""
    one, three = (torch.load(folder / f"dot-{world}.pairs.pt", weights_only=True) for world in WORLDS)
    assert all(torch.equal(one[name], three[name]) for name in ("source", "destination", "is_edge"))
    rows = torch.tensor(np.load(folder / "dot-3.npy"))
    torch.testing.assert_close((rows[three["source"]] * rows[three["destination"]]).sum(1), three["score"])
    edges = set(zip(GRAPHS["undirected"].src.tolist(), GRAPHS["undirected"].dst.tolist(), strict=True))
    pairs = list(zip(one["source"].tolist(), one["destination"].tolist(), strict=True))
    assert [pair in edges for pair in pairs] == one["is_edge"].bool().tolist()
    assert int(one["is_edge"].sum()) * 2 == len(pairs) == 2 * fitted["dot", 3].result["edge_split"]["test"]
    area = roc_auc_score(one["is_edge"], one["score"])
    assert fitted["dot", 1].result["test_roc_auc"] == pytest.approx(area, abs=1e-9)
    header, *lines = (folder / "mlp-3.csv").read_text().splitlines()
    assert header == "source,destination,is_edge,score"
    directed = set(zip(GRAPHS["directed"].src.tolist(), GRAPHS["directed"].dst.tolist(), strict=True))
    for line in lines:
        source, destination, is_edge, score = line.split(",")
        assert ((int(source), int(destination)) in directed) == (is_edge == "1")
        assert float(score) == np.float32(score)


def test_what_the_pairs_cost_is_counted(fitted: dict[tuple[str, int], Run]) -> None:
    """Guards against bytes of pairs that no table has."""
    [row] = [row for row in fitted["dot", 3].result["sent_for"] if row["purpose"] == "pairs"]
    assert row["kind"] == "other"
    assert row["bytes_sent"] > 6 * 4 * 4
    assert not fitted["dot", 1].result["bytes_sent"]


def test_the_result_has_the_split(fitted: dict[tuple[str, int], Run]) -> None:
    """Guards against counts of one rank, and against self-loops or copies that count as pairs."""
    for name, setting in (("undirected", "dot"), ("directed", "mlp")):
        edges = {edge for edge in zip(GRAPHS[name].src, GRAPHS[name].dst, strict=True) if edge[0] != edge[1]}
        total = len(edges) // (2 if name == "undirected" else 1)
        pairs = fitted[setting, 3].result["edge_split"]
        assert sum(pairs.values()) == total
        if name == "undirected":
            assert (pairs["val"], pairs["test"]) == (total // 10, total // 5)
        assert pairs == fitted[setting, 1].result["edge_split"]
        assert fitted[setting, 3].result["negatives_kept"] == 0
        assert {"source", "destination", "bytes_sent"} <= fitted[setting, 3].result["pairs"][0].keys(), "of ranks"


def test_the_result_has_the_bytes_of_links(fitted: dict[tuple[str, int], Run]) -> None:
    """Guards against counts of the task under the name of other counts, which `graphprep report` reads."""
    result = fitted["dot", 3].result
    assert sum(row["bytes_sent"] for row in result["pairs"]) == result["row_bytes_sent"] > 0


def test_the_loss_is_that_of_a_dense_computation(folder: Path, caches: dict[tuple[str, int], Path]) -> None:
    """The first loss and the step of PyG's GAE: cross-entropies of edges and of random pairs, each a mean."""
    options = run_options(caches["undirected", 1], **COMMON | {"embedding": 4, "epochs": 1, "weight_decay": 0.0})
    cache, cpu = open_cache(options.cache), torch.device("cpu")
    part = load_part(cache, 0, split=0)
    edges = PartEdges(part, num_nodes=60, seed=0, is_undirected=True)
    with Communicator(RankInfo(), cpu, timeout=1.0, clock=Clock(cpu)) as communicator:
        split = find_split(options, edges.hash_k, communicator)
        run = train_once(
            communicator,
            cache=options.cache,
            save_weights=str(folder / "one.pt"),
            optimiser="sgd",
            momentum=0.0,
            lr=1e-30,
            **COMMON | {"embedding": 4, "epochs": 1},
        )
    positive = edges.between(split.test_end, HASH_END)
    random = Negatives(edges, 0).random("train", 1, len(positive))
    negative = random.between(0, len(random))
    message = split.message_part(part)
    graph = random_graph(seed=1, undirected=True)
    graph.src, graph.dst = message.ids_n[message.local.indices].numpy(), message.ids_n[message.local.row_E].numpy()
    adjacency = dense_adjacency(graph, "gcn")
    weights = torch.load(folder / "one.pt", weights_only=True)
    first, second = (weights[f"layers.{number}.weight_FG"].double() for number in range(2))
    hidden = (adjacency @ torch.tensor(graph.x, dtype=torch.float64) @ first).relu()
    rows = adjacency @ hidden @ second
    scores = [(rows[pairs.source_k] * rows[part.ids_n[pairs.row_k]]).sum(1) for pairs in (positive, negative)]
    expected = sum(
        functional.binary_cross_entropy_with_logits(score, torch.full_like(score, float(label)))
        for score, label in zip(scores, (1, 0), strict=True)
    )
    assert run.losses == [pytest.approx(float(expected), rel=1e-5)]


def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(folder: Path, caches: dict[tuple[str, int], Path]) -> None:
    """Guards against a split or draws that depend on what was computed before, on another number of ranks too."""
    options = {**COMMON, "decoder": "mlp", "eval_every": 1, "checkpoint_minutes": 0.0}
    whole, _ = among_ranks(
        1,
        [
            partial(train_once, cache=str(caches["directed", 1]), **options),
            partial(
                train_once, cache=str(caches["directed", 1]), checkpoint=str(folder / "c"), **options | {"epochs": 3}
            ),
        ],
    )
    [resumed] = among_ranks(
        3,
        [partial(train_once, cache=str(caches["directed", 3]), checkpoint=str(folder / "c"), resume=True, **options)],
    )
    assert resumed.result["resumed_after"] == 3
    assert resumed.losses == pytest.approx(whole.losses[3:], rel=1e-5)
    assert resumed.result["test_roc_auc"] == pytest.approx(whole.result["test_roc_auc"], abs=1e-4)


def test_a_cache_without_labels_suffices_and_sums_of_its_features_are_not_used(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sums in the cache are over validation and test edges too, so a run that uses them is told the answer."""
    graph = random_graph(seed=1, undirected=True)
    wrong = np.full_like(graph.x, 1e6)
    cache = make_cache(folder / "sums", graph, np.zeros(60, int), 1, aggregated=("gcn", wrong))
    for name in ("y", "train_mask", "val_mask", "test_mask"):
        array = cache / "parts/0/nodes/node" / name
        for file in sorted(array.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        array.rmdir()
    edit_json(cache / "zarr.json", num_classes={"node": 0}, num_splits={"node": 0}, task="none")
    seal(cache)
    words = [str(cache), "--task", "links", "--epochs", "2", "--input-dropout", "0", "--embedding", "4", "--json"]
    assert main(words) == 0
    output, log = capsys.readouterr()
    assert json.loads(output.splitlines()[-1])["test_roc_auc"] is not None
    assert json.loads(output.splitlines()[0])["loss"] < 100
    assert "--task links takes validation and test edges out of the graph that they were made of" in log
    assert "validation and test edges and their reverses are not in the graph" in log


def test_nothing_to_learn_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a mean over no pair."""
    graph = random_graph(num_nodes=5, num_edges=10)
    graph.src = graph.dst = np.arange(5)
    assert main([str(make_cache(folder / "loops", graph, np.zeros(5, int), 1)), "--task", "links"]) == 7
    assert "has no edge between nodes, so there is nothing to learn" in capsys.readouterr().err
