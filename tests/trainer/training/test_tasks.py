"""Several labels, numbers, class weights and inductive training, alike on any number of ranks; what a run leaves."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.trainer.dense_reference import dense_adjacency
from tests.trainer.handmade_cache import Array, HandmadeGraph, make_cache, matrix_graph, random_graph
from tests.trainer.rank_group import Run, among_ranks, run_options, train_once
from trainer.__main__ import main
from trainer.training.metrics import area_under_curve

pytestmark = pytest.mark.slow

WORLDS = (1, 3)
GRAPHS = {
    "classes": random_graph(seed=3, weighted=True, loops_and_duplicates=True),
    "labels": matrix_graph(),
    "numbers": matrix_graph(regression=True),
}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "labels": ("labels", {}),
    "balanced labels": ("labels", {"class_weights": "balanced", "metric": "f1-macro"}),
    "numbers": ("numbers", {"task": "regression"}),
    "absolute errors": ("numbers", {"task": "regression", "metric": "mae", "model": "sage"}),
    "balanced classes": ("classes", {"class_weights": "balanced", "metric": "f1-macro"}),
    "listed classes": ("classes", {"class_weights": "1,0.5,2", "metric": "roc-auc"}),
    "inductive": ("classes", {"inductive": True}),
    # Validated once: with ties between epochs, rounding would decide whose weights are kept.
    "inductive, deep": (
        "classes",
        {"inductive": True, "model": "sage", "layers": 3, "norm": "batch", "dropout": 0.4, "eval_every": 20},
    ),
    "inductive, broadcast": ("classes", {"inductive": True, "exchange": "broadcast"}),
    "inductive, tensor": ("classes", {"inductive": True, "exchange": "tensor"}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tasks")


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
                save_embeddings=str(folder / f"{setting}-{world}-hidden.pt"),
                **changes,
            )
            for setting, (name, changes) in SETTINGS.items()
        ]
        for setting, run in zip(SETTINGS, among_ranks(world, tasks), strict=True):
            found[setting, world] = run
    return found


@pytest.mark.parametrize("setting", SETTINGS)
def test_ranks_do_not_matter(fitted: dict[tuple[str, int], Run], folder: Path, setting: str) -> None:
    """A divisor, a weight or an area of one rank's own nodes gives each number of ranks its own result."""
    one, three = fitted[setting, 1], fitted[setting, 3]
    assert three.losses == pytest.approx(one.losses, rel=1e-4)
    assert len(one.losses) == 1 or one.losses[-1] < one.losses[0]
    metric = one.result["metric"]
    # With 15 nodes, one whose two best scores are nearly equal moves an accuracy by 0.07.
    for name in (f"test_{metric}", f"val_{metric}"):
        assert three.result[name] == pytest.approx(one.result[name], abs=0.08)
    lines_1, lines_3 = ([line[f"val_{metric}"] for line in run.epochs] for run in (one, three))
    assert lines_3 == pytest.approx(lines_1, abs=0.08)
    assert sum(abs(a - b) > 1e-3 for a, b in zip(lines_1, lines_3, strict=True)) <= 4
    rows_1, rows_3 = (np.load(folder / f"{setting}-{world}.npy", allow_pickle=False) for world in WORLDS)
    # Batch norm takes a bias before it out again, so its gradient is rounding, of which Adam makes whole steps; the
    # running mean, which evaluation takes, is some steps behind.
    atol = 0.1 if setting == "inductive, deep" else 1e-4
    np.testing.assert_allclose(rows_1, rows_3, rtol=1e-3, atol=atol)
    hidden_1, hidden_3 = (torch.load(folder / f"{setting}-{world}-hidden.pt", weights_only=True) for world in WORLDS)
    torch.testing.assert_close(hidden_1, hidden_3, rtol=1e-3, atol=atol)
    assert hidden_1.shape == (60, 8)


def test_predictions_are_in_the_datasets_order(fitted: dict[tuple[str, int], Run], folder: Path) -> None:
    """Rows in the parts' order look just as good, and belong to other nodes."""
    graph = GRAPHS["labels"]
    for world in WORLDS:
        rows = np.load(folder / f"labels-{world}.npy", allow_pickle=False)
        assert (rows.dtype, rows.shape) == (np.float32, (60, 3))
        areas = []
        for column in range(3):
            y = graph.y[:, column]
            chosen = np.flatnonzero(graph.test & ~np.isnan(y))
            areas.append(area_under_curve(torch.from_numpy(rows[chosen, column]), torch.from_numpy(y[chosen] == 1)))
        defined = [float(area) for area in areas if not area.isnan()]
        assert np.mean(defined) == pytest.approx(fitted["labels", world].result["test_roc_auc"], abs=1e-6)


def dense_first_losses(graph: HandmadeGraph, keep: Array, weights: dict[str, torch.Tensor]) -> float:
    """The loss of the first epoch of a two-layer GCN on the graph that the kept nodes induce."""
    inside = keep[graph.src] & keep[graph.dst]
    place = keep.cumsum() - 1
    seen = HandmadeGraph(
        src=place[graph.src[inside]],
        dst=place[graph.dst[inside]],
        x=graph.x[keep],
        y=graph.y[keep],
        train=graph.train[keep],
        val=graph.val[keep],
        test=graph.test[keep],
        weight=None if graph.weight is None else graph.weight[inside],
        num_classes=graph.num_classes,
    )
    matrix, rows = dense_adjacency(seen, "gcn"), torch.from_numpy(seen.x.astype(np.float64))
    for layer in range(2):
        rows = matrix @ rows @ weights[f"model.layers.{layer}.weight_FG"].double()
        rows = rows + weights[f"model.layers.{layer}.bias_G"]
        rows = rows.relu() if layer == 0 else rows
    return float(torch.nn.functional.cross_entropy(rows, torch.from_numpy(seen.y)))


def test_inductive_training_sees_the_training_graph_alone(
    fitted: dict[tuple[str, int], Run], caches: dict[tuple[str, int], Path], folder: Path
) -> None:
    """An edge to a test node, or a degree that counts it, is knowledge that a new node would not give."""
    from tests.trainer.test_parity import network_on_one_rank

    network, _ = network_on_one_rank(caches["classes", 1])
    weights = {name: value.detach() for name, value in network.state_dict().items()}
    graph = GRAPHS["classes"]
    expected = dense_first_losses(graph, graph.train, weights)
    assert fitted["inductive", 1].losses[0] == pytest.approx(expected, rel=1e-5)
    whole = dense_first_losses(graph, np.ones(60, bool), weights)
    assert expected != pytest.approx(whole, rel=1e-3)
    # What is evaluated is the whole graph: some test node's score depends on a test node's features.
    assert np.load(folder / "inductive-3.npy").shape == (60, 3)


def test_inductive_exchanges_only_what_is_needed(fitted: dict[tuple[str, int], Run]) -> None:
    """Rows of validation and test nodes that travel in training are bytes for nothing."""
    run = fitted["inductive", 3].result
    sent = {(row["layer"], row["direction"]): row for row in run["exchanges"]}
    backward, forward = sent[2, "backward"], sent[2, "forward"]
    # Each training epoch sends the induced halo both ways, and each evaluation the whole one forward.
    assert 0 < backward["bytes_sent"] < (forward["bytes_sent"] - backward["bytes_sent"])
    assert backward["bytes_sent"] == backward["bytes_exact_boundary"]


def test_validating_from_the_training_pass_is_one_epoch_late(
    tmp_path: Path, caches: dict[tuple[str, int], Path]
) -> None:
    """Its scores are those of the weights before the step: to keep the ones after it keeps weights nobody judged."""
    common = {"cache": str(caches["classes", 1]), "epochs": 9, "lr": 0.05}
    [exact, training] = among_ranks(
        1, [partial(train_once, **common), partial(train_once, validate_from="training", **common)]
    )
    of_exact = [line["val_accuracy"] for line in exact.epochs]
    of_training = [line["val_accuracy"] for line in training.epochs]
    assert of_training[1:-1] == of_exact[:-2]
    assert of_training[-1] == of_exact[-1]
    assert training.losses == exact.losses
    best = training.result["best_epoch"]
    assert training.result["val_accuracy"] == ([*of_training[:1], *of_exact][best])
    saved = {(row["layer"], row["direction"]): row["exchanges"] for row in training.result["exchanges"]}
    spent = {(row["layer"], row["direction"]): row["exchanges"] for row in exact.result["exchanges"]}
    assert saved[2, "forward"] == spent[2, "forward"] - 8


@pytest.mark.parametrize(
    ("graph", "options", "said"),
    [
        ("labels", "--task classes", "use --task multilabel or regression"),
        ("classes", "--task regression", "use --task classes"),
        ("classes", "--metric mse", "--metric mse is no metric of the task classes"),
        ("classes", "--class-weights 1,2", "lists 2 weights and"),
        ("classes", "--class-weights 1,-2,3", "--class-weights: expected none, balanced"),
        ("numbers", "--task regression --class-weights balanced", "leave it out"),
        ("numbers", "", "give --task regression"),
        ("classes", "--validate-from training", "--validate-from training cannot be with dropout"),
        ("classes", "--validate-from training --dropout 0 --inductive", "cannot be with --inductive"),
        (
            "classes",
            "--validate-from training --dropout 0 --boundary-sampling 0.5",
            "cannot be with --boundary-sampling",
        ),
        (
            "classes",
            "--validate-from training --dropout 0 --model gat --attention-dropout 0.3",
            "cannot be with --attention-dropout",
        ),
        ("classes", "--save-predictions p.csv", "ends in neither .npy nor .pt"),
        ("classes", "--save-predictions no/such/folder/p.npy", "give another path"),
        ("classes", "--save-embeddings e.pt --layers 1", "at least --layers 2"),
        ("classes", "--resume", "--resume needs the --checkpoint folder"),
    ],
)
def test_what_does_not_suit_is_refused(
    caches: dict[tuple[str, int], Path], capsys: pytest.CaptureFixture[str], graph: str, options: str, said: str
) -> None:
    """A regression on class numbers, or weights for other classes, trains without a word and means nothing."""
    assert main([str(caches[graph, 1]), "--epochs", "2", "--device", "cpu", "-q", *options.split()]) in (2, 6, 7)
    [line] = capsys.readouterr().err.splitlines()
    assert said in line


def test_the_options_and_the_result_are_kept(
    caches: dict[tuple[str, int], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A result without the options that made it cannot be repeated."""
    output = tmp_path / "out"
    line = [str(caches["classes", 1]), "--epochs", "3", "--dropout", "0", "--json", "-q", "--output", str(output)]
    assert main(line) == 0
    lines = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert json.loads((output / "result.json").read_text()) == lines[-1]
    assert main(["--config", str(output / "config.toml")]) == 0
    again = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert [one["loss"] for one in again[:-1]] == [one["loss"] for one in lines[:-1]]


def test_tensorboard_is_asked_for_only_by_its_option(
    caches: dict[tuple[str, int], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A package that is not there must cost a sentence to those who ask for it, and nothing to the others."""
    import sys
    import types

    line = [str(caches["numbers", 1]), "--task", "regression", "--epochs", "2", "--device", "cpu", "-q"]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    assert main(line) == 0
    capsys.readouterr()
    assert main([*line, "--tensorboard", str(tmp_path)]) == 2
    assert "pip install tensorboard" in capsys.readouterr().err

    points: list[tuple[str, float, int]] = []

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            assert folder == str(tmp_path)

        def add_scalar(self, name: str, value: float, epoch: int) -> None:
            points.append((name, value, epoch))

        def flush(self) -> None:
            pass

        def close(self) -> None:
            pass

    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    assert main([*line, "--tensorboard", str(tmp_path)]) == 0
    assert {(name, epoch) for name, _, epoch in points} >= {("loss", 1), ("val_mse", 1), ("loss", 2), ("bytes_sent", 2)}
    assert run_options("c").tensorboard is None
