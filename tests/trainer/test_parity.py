"""k ranks give what one rank gives, and one rank gives what dense matrices give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.trainer.dense_reference import dense_adjacency, dense_losses, dense_scores
from tests.trainer.parity_cases import CASES, DENSE, EPOCHS, SETTINGS, WORDS, graphs, worlds_of
from tests.trainer.rank_group import Run, empty_traffic_log, run_options
from trainer.base.pass_context import PassContext
from trainer.base.traffic_log import Clock
from trainer.data.cache import open_cache
from trainer.data.part import halo_ids, load_part
from trainer.dist.communicator import Communicator
from trainer.dist.rank_info import RankInfo
from trainer.exchange.exchange import Exchange
from trainer.layers.aggregate import Aggregation
from trainer.layers.inputs import Features
from trainer.models import Network, model_type, sums_of
from trainer.sparse.dropout import Dropout
from trainer.sparse.feature_rows import DenseRows

pytestmark = pytest.mark.slow

TOLERANCE = 1e-4
SEVERAL = [(name, setting, world) for name, setting in CASES for world in worlds_of(name, setting) if world > 1]


@pytest.mark.parametrize(("name", "setting", "world"), SEVERAL)
def test_ranks_reproduce_one_rank(runs: dict[Any, Run], name: str, setting: str, world: int) -> None:
    """A wrong halo column, a missing transpose, an averaged gradient or a mean over local nodes changes the losses."""
    one, several = runs[name, setting, 1], runs[name, setting, world]
    assert len(one.losses) == EPOCHS
    assert several.losses == pytest.approx(one.losses, rel=TOLERANCE)
    if not SETTINGS[setting].get("dropout"):
        assert min(one.losses) < one.losses[0]


@pytest.mark.parametrize(("name", "setting"), CASES)
def test_ranks_agree_on_accuracy(runs: dict[Any, Run], name: str, setting: str) -> None:
    """Counting a node twice, or averaging the accuracies of unequal parts, changes the accuracy."""
    for world in worlds_of(name, setting):
        result = runs[name, setting, world].result
        assert result["val_accuracy"] == pytest.approx(runs[name, setting, 1].result["val_accuracy"], abs=0.08)
        assert round(result["test_accuracy"] * 15, 6) == round(result["test_accuracy"] * 15)


@pytest.mark.parametrize(("name", "setting"), [case for case in CASES if case[1] in DENSE])
def test_one_rank_reproduces_dense_matrices(
    runs: dict[Any, Run], caches: dict[Any, Path], name: str, setting: str
) -> None:
    """All ranks could share a mistake: a missing self-loop, a mean over out-edges, a wrong weight decay."""
    graph, _ = graphs()[name]
    options = run_options(caches[name, 1], epochs=EPOCHS, **SETTINGS[setting])
    network, features = network_on_one_rank(caches[name, 1], **SETTINGS[setting])
    first_weights = {key: value.detach().clone() for key, value in network.state_dict().items()}
    matrix, x = dense_adjacency(graph, options.model), torch.from_numpy(graph.x.astype(np.float64))
    expected = dense_scores(options, {key: value.double() for key, value in first_weights.items()}, matrix, x)
    rows = load_global_ids(caches[name, 1])
    with torch.no_grad():
        torch.testing.assert_close(
            network(features, PassContext.evaluation(1)).double(), expected[rows], rtol=1e-4, atol=1e-5
        )
    assert runs[name, setting, 1].losses == pytest.approx(dense_losses(options, first_weights, graph), rel=TOLERANCE)


@pytest.mark.parametrize("setting", WORDS)
def test_entries_stand_for_a_matrix(runs: dict[Any, Run], setting: str) -> None:
    """A mask of other entries, a value of another row's or a gradient that is left out changes the losses."""
    graph = "few words a node"
    for world in worlds_of(graph, f"{setting}, dense features"):
        by_entries, dense = (runs[graph, name, world] for name in (setting, f"{setting}, dense features"))
        assert by_entries.losses == pytest.approx(dense.losses, rel=TOLERANCE)
        if world > 1:
            of_entries, of_dense = (
                next(row for row in run.result["exchanges"] if (row["layer"], row["direction"]) == (1, "forward"))
                for run in (by_entries, dense)
            )
            for name in ("width", "exchanges", "bytes_exact_boundary", "bytes_whole_block_broadcast", "bytes_skipped"):
                assert of_entries[name] == of_dense[name]
            assert of_entries["bytes_sent"] < of_dense["bytes_sent"] / 5


def test_first_weights_do_not_depend_on_the_global_random_state(caches: dict[Any, Path]) -> None:
    """Weights that came from the per-rank dropout stream would differ between ranks and numbers of ranks."""
    torch.manual_seed(1)
    one, _ = network_on_one_rank(caches["undirected", 1])
    torch.manual_seed(2)
    other, _ = network_on_one_rank(caches["undirected", 1])
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def network_on_one_rank(cache_folder: Path, **changes: Any) -> tuple[Network, Features]:
    """The network and the features that a run of one rank would begin with."""
    options, cache, cpu = run_options(cache_folder, **changes), open_cache(str(cache_folder)), torch.device("cpu")
    communicator = Communicator(RankInfo(), cpu, timeout=1.0, clock=Clock(cpu))
    part = load_part(cache, 0, split=0, edge_features=options.edge_features)
    exchange = Exchange(options, part, communicator, empty_traffic_log(communicator))
    model = model_type(options, communicator)
    aggregation = Aggregation(part, exchange, communicator, sums=sums_of(options, model))
    dropout = Dropout(part.ids_n, halo_ids(part), num_nodes=cache.num_nodes, seed=options.seed)
    features = Features(DenseRows(part.x_nF.float()), aggregation, dropout, share=options.first_dropout)
    sizes = {"num_features": cache.num_features, "num_classes": cache.num_classes, "num_nodes": cache.num_nodes}
    sizes["num_edge_features"] = part.num_edge_features
    return Network(model, options, aggregation, dropout, **sizes, communicator=communicator).eval(), features


def load_global_ids(cache_folder: Path) -> torch.Tensor:
    """The node behind every row of part 0."""
    return torch.from_numpy(np.fromfile(cache_folder / "parts/0/nodes/node/global_ids/c/0", np.int64))
