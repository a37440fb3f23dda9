"""Models of one node type learn a row a node where nodes have no features."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.trainer.dense_reference import dense_adjacency, dense_scores, is_decayed
from tests.trainer.handmade_cache import HandmadeGraph, make_cache, random_graph
from tests.trainer.models.test_rgcn import alone, gathered
from tests.trainer.rank_group import among_ranks, empty_traffic_log, run_options, train_once
from trainer.base.errors import OptionError, TrainingError
from trainer.data.cache import open_cache
from trainer.data.part import halo_ids, load_part
from trainer.exchange.exchange import Exchange
from trainer.layers.aggregate import Aggregation
from trainer.layers.first_layer import features_of
from trainer.models import Network, model_type, sums_of
from trainer.models.typed_model import remark_on_types, types_of
from trainer.sparse.dropout import Dropout
from trainer.startup.handshake import sizes_of
from trainer.startup.memory import estimate_bytes
from trainer.startup.preflight import check_task

EPOCHS, WORLDS, ROWS = 3, (1, 3), "model.inputs.learnt.0.rows_kF"
SETTINGS: dict[str, dict[str, Any]] = {
    "gcn": {"model": "gcn"},
    "sage": {"model": "sage", "layers": 3},
    "sage, max": {"model": "sage", "aggregator": "max"},
    "gin": {"model": "gin", "lr": 0.003},
    "gat": {"model": "gat", "heads": 2},
    "gatv2": {"model": "gatv2", "heads": 2, "jumping": "cat"},
    "gcn, tensor": {"model": "gcn", "exchange": "tensor"},
    "gat, sequential": {"model": "gat", "heads": 2, "exchange": "sequential"},
}


def featureless() -> HandmadeGraph:
    """A graph whose nodes have no features; no training node depends on nodes 50 .. 59."""
    graph = random_graph(seed=3, num_edges=200)
    keep = (graph.dst >= 50) | (graph.src < 50)
    graph.src, graph.dst = graph.src[keep], graph.dst[keep]
    graph.x = np.empty((60, 0), np.float32)
    graph.masks["train_mask"][50:] = False
    return graph


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    root, nodes = tmp_path_factory.mktemp("featureless"), np.arange(60)
    return {
        world: make_cache(root / f"{world}", featureless(), nodes % world, world, with_features=False)
        for world in WORLDS
    }


@pytest.fixture(scope="module")
def trained(caches: dict[int, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Any]:
    """The run of every setting on one rank and on three, and the files of runs."""
    files, runs = tmp_path_factory.mktemp("files"), dict[Any, Any]()
    for world in (3, 1):
        once = partial(train_once, cache=str(caches[world]), epochs=EPOCHS)
        tasks = [partial(once, **of) for of in SETTINGS.values()]
        more: dict[str, Any] = {"checkpoint": str(files / "c"), "save_predictions": str(files / f"{world}.npy")}
        tasks.append(partial(once, **SETTINGS["sage"], **more, **({"resume": True} if world == 1 else {})))
        tasks.append(partial(once, weight_decay=0.0, save_weights=str(files / f"{world}.pt")))
        *found, resumed, plain = among_ranks(world, tasks)
        runs |= {(name, world): run for name, run in zip(SETTINGS, found, strict=True)}
        runs |= {("resumed", world): resumed, ("plain", world): plain}
        runs |= {("scores", world): np.load(files / f"{world}.npy")}
        runs |= {("weights", world): torch.load(files / f"{world}.pt")}
    return runs


def first_weights(cache: Path, **changes: Any) -> dict[str, Tensor]:
    """The weights that a run of one rank begins with, learnt rows in the order of the graph."""
    options, opened, cpu = run_options(cache, **changes), open_cache(str(cache)), torch.device("cpu")
    with alone() as communicator:
        part = load_part(opened, 0, split=0)
        exchange = Exchange(options, part, communicator, empty_traffic_log(communicator))
        model = model_type(options, communicator)
        aggregation = Aggregation(part, exchange, communicator, sums=sums_of(options, model))
        dropout = Dropout(part.ids_n, halo_ids(part), num_nodes=60, seed=options.seed)
        features_of(options, opened, part, aggregation, dropout, cpu, sparse=False)
        sizes = {"num_features": 0, "num_classes": opened.num_classes, "num_nodes": 60}
        types = types_of(options, opened, part)
        return gathered(
            Network(model, options, aggregation, dropout, **sizes, communicator=communicator, types=types), communicator
        )


def reference_losses(cache: Path, *, is_sparse: bool = False, **changes: Any) -> list[float]:
    """The losses of dense matrices in float64; `is_sparse` moves learnt rows by torch's SparseAdam."""
    options, graph = run_options(cache, epochs=EPOCHS, **changes), featureless()
    weights = {name: one.double().requires_grad_() for name, one in first_weights(cache, **changes).items()}
    matrix, y = dense_adjacency(graph, options.model), torch.from_numpy(graph.y)
    train = torch.from_numpy(graph.masks["train_mask"][:, 0])

    def decay(name: str) -> float:
        return options.weight_decay if name == ROWS or is_decayed(options, name) else 0.0

    lazy = [ROWS] if is_sparse else []
    groups = [{"params": [one], "weight_decay": decay(name)} for name, one in weights.items() if name not in lazy]
    optimisers: list[Any] = [torch.optim.Adam(groups, lr=options.lr)]
    if is_sparse:
        optimisers.append(torch.optim.SparseAdam([weights[ROWS]], lr=options.lr))
    losses = []
    for _ in range(options.epochs):
        for one in optimisers:
            one.zero_grad()
        loss = functional.cross_entropy(dense_scores(options, weights, matrix, weights[ROWS])[train], y[train])
        loss.backward()
        if is_sparse:
            weights[ROWS].grad = weights[ROWS].grad.to_sparse(1)
        for one in optimisers:
            one.step()
        losses.append(loss.item())
    return losses


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_losses_are_those_of_dense_matrices(trained: dict[Any, Any], caches: dict[int, Path], name: str) -> None:
    """A gradient of a halo row that does not come back to its owner, or rows that are drawn by rank."""
    expected = reference_losses(caches[1], **SETTINGS[name])
    for world in WORLDS:
        assert trained[name, world].losses == pytest.approx(expected, rel=1e-4)
    assert expected[-1] < expected[0]


@pytest.mark.slow
def test_rows_go_on_on_another_number_of_ranks(trained: dict[Any, Any]) -> None:
    """Rows that are dealt to other nodes give other scores."""
    assert not trained["resumed", 1].losses
    np.testing.assert_allclose(trained["scores", 1], trained["scores", 3], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_adam_is_sparse_adam_where_every_epoch_has_all_edges(trained: dict[Any, Any], caches: dict[int, Path]) -> None:
    """A row without gradient would move by its kept moments, if it ever had a gradient before."""
    lazy = reference_losses(caches[1], is_sparse=True, weight_decay=0.0)
    for world in WORLDS:
        assert trained["plain", world].losses == pytest.approx(lazy, rel=1e-4)
        rows_KF = trained["weights", world][ROWS.removeprefix("model.")]
        first_KF = first_weights(caches[1])[ROWS]
        assert torch.equal(rows_KF[50:], first_KF[50:])
        assert (rows_KF[:50] != first_KF[:50]).any(1).sum() > 40


def test_they_are_announced_and_counted(caches: dict[int, Path]) -> None:
    """Who left features out by mistake should see what is learnt; the memory of rows may be most of a run's."""
    cache, options = open_cache(str(caches[1])), run_options(caches[1])
    check_task(cache, options)
    assert remark_on_types(options, cache) == "rows are learnt for node, without features"
    with alone() as communicator:
        part = load_part(cache, 0, split=0)
        sizes = sizes_of(part, cache, type("Outputs", (), {"num_outputs": 3})(), communicator)
    assert (sizes.learnt, sizes.gathered) == (60, 60)
    assert estimate_bytes(options, sizes)["embeddings"] == 60 * options.hidden * 4 * 9
    assert estimate_bytes(run_options(caches[1], checkpoint="c"), sizes)["embeddings"] == 60 * options.hidden * 4 * 17


@pytest.mark.parametrize(
    ("changes", "kind", "sentence"),
    [
        (
            {"model": "own.py:Model"},
            TrainingError,
            "has no node features to learn from; .* a row a node with --model gcn",
        ),
        ({"inductive": True}, OptionError, "--inductive"),
    ],
)
def test_what_learns_no_rows_is_refused(
    caches: dict[int, Path], changes: dict[str, Any], kind: type[Exception], sentence: str
) -> None:
    """A traceback about features that are not there."""
    with pytest.raises(kind, match=sentence):
        check_task(open_cache(str(caches[1])), run_options(caches[1], **changes))
