"""All ways to train, on a simulated GPU: the losses are the CPU's, and the host waits for no more than it has to.

`EVERY_EPOCH` and `VALIDATED` say what it waits for. Rows for gloo are copied to the host's memory on top of that; ranks
with a GPU each have NCCL, which takes them from the GPU.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.graphs import labelled_graph
from tests.trainer.exchange.test_relay import TWO_OF_TWO, relayed_cache
from tests.trainer.handmade_cache import make_cache, matrix_graph, random_graph
from tests.trainer.models.test_own import PAGE
from tests.trainer.models.test_rgcn import few_words, spread
from tests.trainer.on_device import Comparison, among_device_ranks, compare, on_simulated_device, resume
from tests.trainer.parity_cases import graphs
from tests.trainer.rank_group import train_once
from tests.trainer.typed_cache import make_typed_cache, typed_graph
from trainer.base.precision import LossScale
from trainer.dist.communicator import Communicator
from trainer.exchange.saturation import Saturation
from trainer.training import fit

EPOCHS, VALIDATES_EVERY = 5, 2
PLAIN_EPOCH, VALIDATED_EPOCH = 3, 4
"""Neither is the first or the last."""
EVERY_EPOCH = {("to host", "trainer/training/fit.py", "Fit._update_by"): 1}
"""The loss, whether it, the gradient and the weights are finite, and whether some rank stops or saves."""
VALIDATED = {("to host", "trainer/training/metrics.py", "measure"): 1}
"""The sums that the metric is made of; early stopping and the best weights follow from the metric."""
AREA = {("to host", "trainer/training/metrics.py", "_roc_auc"): 1}
SATURATED = {("item", "trainer/exchange/saturation.py", "Saturation.count"): 1}
TOTALS = {("to host", "trainer/dist/communicator.py", "Communicator.all_reduce_numbers"): 1}
"""By NCCL: the bytes that all ranks have sent."""
WHO_SENDS = ("to host", "trainer/dist/communicator.py", "Communicator.all_gather_flag")
CHANGE = ("to host", "trainer/exchange/halo_exchange.py", "relative_change")
STALE = {"warmup": 1, "settle": 0}

Case = tuple[str, dict[str, Any]]
"""A graph and options"""
ONE: dict[str, Case] = {
    "gcn": ("plain", {}),
    "sage": ("plain", {"model": "sage"}),
    "sage, max": ("plain", {"model": "sage", "aggregator": "max"}),
    "gin": ("plain", {"model": "gin", "lr": 0.001}),
    "gat": ("plain", {"model": "gat", "heads": 2}),
    "gatv2": ("plain", {"model": "gatv2", "heads": 2}),
    "rgcn": ("typed", {"model": "rgcn", "bases": 2}),
    "rgcn, few words": ("typed words", {"model": "rgcn"}),
    "rgat": ("typed", {"model": "rgat", "heads": 2}),
    "hgt": ("typed", {"model": "hgt", "heads": 2}),
    "gin, edge features": ("plain", {"model": "gin", "lr": 0.001, "edge_features": "weights"}),
    "sage, edge features": ("plain", {"model": "sage", "edge_features": "weights"}),
    "bf16": ("plain", {"precision": "bf16"}),
    "fp16": ("plain", {"precision": "fp16", "model": "sage"}),
    "batch norm": ("plain", {"norm": "batch", "layers": 3}),
    "layer norm, residual": ("plain", {"norm": "layer", "layers": 3, "residual": True, "jumping": "cat"}),
    "input dropout": ("plain", {"input_dropout": 0.2, "dropout": 0.4}),
    "inductive": ("plain", {"inductive": True}),
    "roc-auc": ("plain", {"metric": "roc-auc"}),
    "labels": ("labels", {"metric": "roc-auc"}),
    "labels, f1": ("labels", {"metric": "f1-macro", "class_weights": "balanced"}),
    "numbers": ("numbers", {"task": "regression"}),
    "sgd": ("plain", {"optimiser": "sgd", "momentum": 0.9, "clip_norm": 0.1, "schedule": "cosine"}),
    "validated by training": ("plain", {"validate_from": "training"}),
    "few words": ("words", {}),
    "own model": ("plain", {"model": "own"}),
}
SEVERAL: dict[str, Case] = {
    "boundary": ("plain", {"exchange": "boundary"}),
    "broadcast": ("plain", {"exchange": "broadcast"}),
    "sequential": ("plain", {"exchange": "sequential", "model": "sage"}),
    "tensor": ("plain", {"exchange": "tensor"}),
    "sage, max": ("plain", {"model": "sage", "aggregator": "max"}),
    "gin": ("plain", {"model": "gin", "lr": 0.001}),
    "gat": ("plain", {"model": "gat", "heads": 2}),
    "gatv2, sequential": ("plain", {"model": "gatv2", "heads": 2, "exchange": "sequential"}),
    "rgcn": ("typed", {"model": "rgcn"}),
    "rgcn, sampled": ("typed", {"model": "rgcn", "boundary_sampling": 0.5}),
    "rgat, sequential": ("typed", {"model": "rgat", "heads": 2, "exchange": "sequential"}),
    "hgt": ("typed", {"model": "hgt", "heads": 2}),
    "gin, edge features": ("plain", {"model": "gin", "lr": 0.001, "edge_features": "weights"}),
    "batch norm": ("plain", {"norm": "batch"}),
    "input dropout": ("plain", {"input_dropout": 0.2}),
    "inductive": ("plain", {"inductive": True, "exchange": "tensor"}),
    "few words": ("words", {"input_dropout": 0.2}),
    "sampled": ("plain", {"boundary_sampling": 0.5}),
    "sampled, sequential": ("plain", {"boundary_sampling": 0.5, "exchange": "sequential"}),
    "fixed": ("plain", {"staleness": "fixed:2", "staleness_grad": "fixed:2", **STALE}),
    "adaptive": ("plain", {"staleness": "adaptive:2", "staleness_grad": "adaptive:2", **STALE}),
    "variation": ("plain", {"staleness": "variation:0.1", "staleness_grad": "variation:0.1", **STALE}),
    "wire bf16": ("plain", {"wire": "bf16", "weights_wire": "bf16"}),
    "wire fp16": ("plain", {"wire": "fp16"}),
    "wire int8": ("plain", {"wire": "int8", "error_feedback": True}),
    "precision bf16": ("plain", {"precision": "bf16"}),
    "precision fp16": ("plain", {"precision": "fp16"}),
    "roc-auc": ("plain", {"metric": "roc-auc"}),
}
RELAYED: dict[str, Case] = {
    "relays": ("relays", {}),
    "relays, bf16": ("relays", {"wire": "bf16"}),
    "relays, sampled": ("relays", {"boundary_sampling": 0.5}),
    "relays, adaptive": ("relays", {"staleness": "adaptive:2", **STALE}),
}
BY_NCCL = {
    3: (
        "boundary",
        "broadcast",
        "sequential",
        "tensor",
        "rgcn",
        "batch norm",
        "inductive",
        "few words",
        "sampled, sequential",
        "variation",
        "wire fp16",
        "wire int8",
    ),
    4: tuple(RELAYED),
}
"""Those that are also run as if by NCCL, by number of ranks."""
ROUNDED = ("bf16", "fp16", "int8")
"""What is rounded on the way is rounded elsewhere after another order of additions."""
WORLDS = {
    1: ONE,
    2: {name: case for name, case in SEVERAL.items() if name not in BY_NCCL[3]},
    3: {name: SEVERAL[name] for name in BY_NCCL[3]},
    4: RELAYED,
}
CASES = [(world, name) for world, cases in WORLDS.items() for name in cases]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, str], Path]:
    """Caches by number of parts and graph."""
    root, found = tmp_path_factory.mktemp("device"), dict[tuple[int, str], Path]()
    plain, assign = graphs()["directed, weighted, uneven"]
    by_name = {
        "plain": plain,
        "words": graphs()["few words a node"][0],
        "labels": matrix_graph(),
        "numbers": matrix_graph(regression=True),
    }
    for world in (1, 2, 3):
        for name, graph in by_name.items():
            found[world, name] = make_cache(root / f"{name}-{world}", graph, assign(world), world)
        for name, typed in {"typed": typed_graph(), "typed words": few_words()}.items():
            found[world, name] = make_typed_cache(root / f"{name}-{world}", typed, spread(typed, world), world)
    relayed = labelled_graph(np.random.default_rng(5), 150, 1500, weighted=True)
    found[4, "relays"] = relayed_cache(relayed, TWO_OF_TWO, root)
    return found


@pytest.fixture(scope="module")
def own_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The model of docs/training.md."""
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path_factory.mktemp("own") / "two_means.py"
    file.write_text(code)
    return f"{file}:TwoMeans"


@pytest.fixture(scope="module")
def found(
    folders: dict[tuple[int, str], Path], own_model: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[Any, Any]:
    """Every case on the CPU and on the device, by number of ranks and name."""
    outcomes: dict[Any, Any] = {}
    for world, cases in WORLDS.items():
        tasks: dict[Any, Any] = {}
        for name, (graph, changes) in cases.items():
            of_run = {"epochs": EPOCHS, "eval_every": VALIDATES_EVERY, "dropout": 0.3, **changes}
            if of_run.get("model") == "own":
                of_run["model"] = own_model
            nccl = name in BY_NCCL.get(world, ())
            tasks[world, name] = partial(compare, cache=str(folders[world, graph]), nccl=nccl, **of_run)
        if world in (1, 3):
            saved = tmp_path_factory.mktemp("saved")
            cache = str(folders[world, "typed"])
            tasks[world, "resumed"] = partial(resume, cache=cache, folder=str(saved), model="rgcn", dropout=0.3)
            tasks[world, "overflow"] = partial(overflow, cache=str(folders[world, "plain"]))
            tasks[world, "saturation"] = saturation
            tasks[world, "rows"] = partial(save_rows, cache=cache, folder=str(saved))
        outcomes |= among_device_ranks(world, tasks)
    return outcomes


@pytest.mark.slow
@pytest.mark.parametrize(("world", "name"), CASES)
def test_losses_are_the_cpus(found: dict[Any, Comparison], world: int, name: str) -> None:
    """On a GPU a tensor that was left on the CPU ends the run; so may one that is read where it should be copied."""
    _, changes = WORLDS[world][name]
    of_cpu, of_device = found[world, name].on_cpu, found[world, name].on_device
    is_rounded = any(value in ROUNDED for value in changes.values())
    assert len(of_cpu.losses) == 3
    assert of_device.losses == pytest.approx(of_cpu.losses, rel=1e-2 if is_rounded else 1e-4)
    assert of_device.result["device"] == "simulated"
    for key in ("epochs", "row_bytes_sent", "weight_bytes_sent", "bytes_skipped", "parameters"):
        assert of_device.result[key] == of_cpu.result[key], key


@pytest.mark.slow
@pytest.mark.parametrize(("world", "name"), CASES)
def test_a_steady_epoch_waits_once_and_once_more_where_it_validates(
    found: dict[Any, Comparison], world: int, name: str
) -> None:
    """A GPU idles after each wait until the host has started more work: 30 of them in an epoch take longer than it."""
    graph, changes = WORLDS[world][name]
    comparison = found[world, name]
    every_epoch = Counter(EVERY_EPOCH)
    if "variation" in name:
        # It has to know how far rows have changed: forward and backward, in the one layer whose input changes.
        every_epoch[CHANGE] = 2
    metric = AREA if changes.get("metric") == "roc-auc" else VALIDATED
    validated = every_epoch + Counter(metric)
    if changes.get("wire") == "fp16":
        validated += Counter(SATURATED)
    plain, with_metric = (comparison.hidden(epoch) for epoch in (PLAIN_EPOCH, VALIDATED_EPOCH))
    if "words" in graph or any(word in name for word in ("gat", "hgt", "gin, edge")):
        # Sparse features have the values of the epoch's dropout; scores weigh edges, and messages are made for some.
        plain, with_metric = without_sparse(plain), without_sparse(with_metric)
    assert plain == every_epoch
    assert with_metric == validated


@pytest.mark.slow
@pytest.mark.parametrize(("world", "name"), [(world, name) for world, names in BY_NCCL.items() for name in names])
def test_nccl_gets_what_is_on_the_device_and_makes_nobody_wait(
    found: dict[Any, Comparison], world: int, name: str
) -> None:
    """A tensor of the CPU that is given to NCCL ends the run; a copy to the host before each send halves its speed."""
    graph, changes = WORLDS[world][name]
    comparison = found[world, name]
    assert comparison.by_nccl is not None
    assert comparison.by_nccl.losses == pytest.approx(comparison.on_device.losses, rel=1e-6)
    assert comparison.by_nccl.result["row_bytes_sent"] == comparison.on_device.result["row_bytes_sent"]
    every_epoch = Counter(EVERY_EPOCH)
    if name == "variation":
        every_epoch += Counter({CHANGE: 2, WHO_SENDS: 2})
    validated = every_epoch + Counter(VALIDATED) + Counter(TOTALS)
    if changes.get("wire") == "fp16":
        validated += Counter(SATURATED)
    plain, with_metric = (comparison.all_by_nccl(epoch) for epoch in (PLAIN_EPOCH, VALIDATED_EPOCH))
    if graph == "words":
        plain, with_metric = without_sparse(plain), without_sparse(with_metric)
    assert plain == every_epoch
    assert with_metric == validated


def without_sparse(waits: Counter[tuple[str, str, str]]) -> Counter[tuple[str, str, str]]:
    return Counter({wait: number for wait, number in waits.items() if wait[0] != "sparse tensor"})


@pytest.mark.slow
@pytest.mark.parametrize("world", [1, 3])
def test_a_checkpoint_of_the_device_is_resumed_there(found: dict[Any, Any], world: int) -> None:
    """State that is loaded to the CPU's memory, or saved with the device's, ends the run that needs it."""
    whole, rest = found[world, "resumed"]
    assert rest == pytest.approx(whole, rel=1e-4)


class TooLarge(LossScale):
    """A scale under which the first gradients overflow."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.factor = 2.0**25


def overflow(communicator: Communicator, *, cache: str) -> list[float]:
    """The losses of a run on the device that begins with a loss scale that is too large."""
    usual, fit.LossScale = fit.LossScale, TooLarge  # type: ignore[misc]
    with on_simulated_device(communicator):
        run = train_once(communicator, cache=cache, precision="fp16", epochs=16)
    fit.LossScale = usual  # type: ignore[misc]
    return run.losses


@pytest.mark.slow
@pytest.mark.parametrize("world", [1, 3])
def test_a_step_that_overflows_is_left_out(found: dict[Any, Any], world: int) -> None:
    """What GradScaler does: no step on gradients that are not finite, and half the scale."""
    losses = found[world, "overflow"]
    assert losses[0] == losses[1]
    assert losses[-1] < losses[0]


def saturation(communicator: Communicator) -> list[dict[str, Any]]:
    """The table of values beyond fp16's range, of which each rank has one more than the one before."""
    with on_simulated_device(communicator):
        counts = Saturation(rank=communicator.rank, world=communicator.world, device=communicator.device)
        rows = torch.full((communicator.rank + 1, 1), 7e4, device=communicator.device)
        counts.note(2, "forward", rows, 65504.0)
        assert counts.count() == communicator.rank + 1
        return counts.table(communicator.all_reduce)


@pytest.mark.slow
@pytest.mark.parametrize("world", [1, 3])
def test_values_beyond_the_range_of_fp16_are_counted(found: dict[Any, Any], world: int) -> None:
    """Counts stay on the device until they are read."""
    expected = {"layer": 2, "direction": "forward", "values": world * (world + 1) // 2, "largest": 7e4}
    assert found[world, "saturation"] == [expected]


def save_rows(communicator: Communicator, *, cache: str, folder: str) -> list[str]:
    """Files of scores and embeddings, from the CPU, from the device, and as if by NCCL."""
    files = [f"{folder}/{where}-{what}.npy" for where in ("cpu", "device", "nccl") for what in ("scores", "rows")]
    train = partial(train_once, communicator, cache=cache, model="rgcn", epochs=3)
    train(save_predictions=files[0], save_embeddings=files[1])
    for nccl, (scores, rows) in ((False, files[2:4]), (True, files[4:])):
        with on_simulated_device(communicator, nccl=nccl):
            train(save_predictions=scores, save_embeddings=rows)
    return files


@pytest.mark.slow
@pytest.mark.parametrize("world", [1, 3])
def test_rows_are_saved_from_the_device(found: dict[Any, Any], world: int) -> None:
    """A file is written from the host's memory, and its rows are gathered by gloo."""
    *of_cpu, scores, rows, scores_by_nccl, rows_by_nccl = (np.load(file) for file in found[world, "rows"])
    for saved in ((scores, rows), (scores_by_nccl, rows_by_nccl)):
        for one, expected in zip(saved, of_cpu, strict=True):
            np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-5)


def test_one_quick_run(tmp_path: Path) -> None:
    """The same as the slow tests, of one case that `make fast` does not leave out."""
    cache = make_cache(tmp_path / "c", random_graph(seed=3), np.arange(60) % 2, 2)
    task = partial(compare, cache=str(cache), epochs=4, eval_every=2, dropout=0.3, boundary_sampling=0.5)
    comparison = among_device_ranks(2, {"run": task})["run"]
    assert comparison.on_device.losses == pytest.approx(comparison.on_cpu.losses, rel=1e-4)
    assert comparison.hidden(PLAIN_EPOCH) == EVERY_EPOCH
