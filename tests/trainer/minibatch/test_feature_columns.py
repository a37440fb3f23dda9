"""Batches whose features are shared out by columns: the same steps as by rows, and the bytes that were counted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphprep.sampling.batches import BatchOptions, part_batches
from tests.sampling.test_temporal_batches import NODES as TIMED_NODES
from tests.sampling.test_temporal_batches import timed_graph
from tests.trainer.handmade_cache import HandmadeGraph, make_cache, random_graph
from tests.trainer.minibatch.in_process import train_in_process
from tests.trainer.rank_group import Run, among_ranks
from trainer.base.errors import TrainingError
from trainer.dist.communicator import Communicator
from trainer.minibatch.column_table import load_column_table
from trainer.training.features_by import FirstLayerCounts, step_bytes

pytestmark = pytest.mark.slow

NODES, SIZE, EPOCHS, HIDDEN = 60, 16, 2, 8
WORLDS = (1, 2, 4)
COMMON: Mapping[str, Any] = {"epochs": EPOCHS, "dropout": 0.3, "batch_size": SIZE, "fanouts": "3,2", "hidden": HIDDEN}
RUNS: Mapping[str, dict[str, Any]] = {
    "gcn": {},
    "sage, evaluation by batches": {"model": "sage", "residual": True, "eval_fanouts": "3,3"},
    "sage, max, one layer": {"model": "sage", "aggregator": "max", "layers": 1, "fanouts": "3"},
    "gin, owners": {"model": "gin", "norm": "layer", "lr": 0.001, "sample_from": "owners"},
    "ladies, jumping": {"sampler": "ladies", "fanouts": "20,20", "jumping": "cat"},
    "vertices": {"sampler": "vertices", "fanouts": None, "input_dropout": 0.0},
    "links": {"task": "links", "batch_size": 40},
    "times of labelled edges": {"task": "edges", "edge_label": "kind", "time": "edges", "model": "sage"},
    "some ranks without a seed": {"batch_size": 2, "epochs": 1},
}
GRAPHS = {"fewer columns than ranks": "narrow", "times of labelled edges": "timed"}
FOUR = ("gcn", "some ranks without a seed", "fewer columns than ranks")
WIDE = 40
"""features of the graph of which columns are fewer bytes than rows"""


def wrong_columns(communicator: Communicator, *, graph: HandmadeGraph, parts: Any, data_type: torch.dtype) -> int:
    """How many ranks have other columns than those of all nodes that they should have."""
    ids_n = torch.from_numpy(np.flatnonzero(parts == communicator.rank))
    x = torch.from_numpy(graph.x)
    table = load_column_table(x[ids_n], ids_n, len(x), data_type, communicator)
    expected = x[:, table.columns].to(data_type)
    return communicator.all_reduce_numbers([int(not torch.equal(table.rows_NW, expected))])[0]


def refused(communicator: Communicator, *, cache: str) -> str:
    """What a rank says of a model that adds whole rows of features."""
    with pytest.raises(TrainingError) as found:
        train_in_process(
            communicator, cache=cache, **{**COMMON, "hidden": 6, "residual": True, "features_by": "columns"}
        )
    return str(found.value)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, int], Any]:
    """Runs by name, what travels and number of ranks; and what else several ranks are needed for."""
    folder, rng = tmp_path_factory.mktemp("columns"), np.random.default_rng(1)
    graphs = {
        "plain": random_graph(num_nodes=NODES, num_edges=400, weighted=True, loops_and_duplicates=True),
        "narrow": random_graph(num_nodes=NODES, num_edges=400, num_features=3),
        "wide": random_graph(num_nodes=NODES, num_edges=400, num_features=WIDE),
    }
    found: dict[tuple[str, str, int], Any] = {}
    for world in WORLDS:
        parts = rng.integers(0, world, NODES)
        timed = timed_graph()
        timed.edge_arrays["kind"] = np.random.default_rng(2).integers(0, 3, len(timed.src))
        caches = {
            name: str(make_cache(folder / f"{name}-{world}", graph, parts, world)) for name, graph in graphs.items()
        }
        of_timed = parts[np.arange(TIMED_NODES) % NODES]
        caches["timed"] = str(make_cache(folder / f"timed-{world}", timed, of_timed, world))
        tasks: dict[tuple[str, str], Any] = {}
        for name, options in {**RUNS, "fewer columns than ranks": {}}.items():
            cache = caches[GRAPHS.get(name, "plain")]
            if world < 4 or name in FOUR:
                how = "rows" if world == 1 else "columns"
                tasks[name, how] = partial(train_in_process, cache=cache, **{**COMMON, **options, "features_by": how})
        if world == 2:
            tasks["gcn", "rows"] = partial(train_in_process, cache=caches["plain"], **COMMON)
            checkpoint = {**COMMON, "cache": caches["plain"], "checkpoint": str(folder / "checkpoint")}
            tasks["half", "rows"] = partial(train_in_process, **{**checkpoint, "epochs": 1})
            tasks["resumed", "columns"] = partial(train_in_process, **checkpoint, resume=True, features_by="columns")
            for name, options in {
                "wide": {"hidden": 4, "epochs": 5, "input_dropout": 0.0},
                "narrow": {"hidden": 64},
                "wide, kept": {"hidden": 4, "epochs": 5, "remote_row_cache": "1"},
            }.items():
                cache = caches[name.split(",")[0]]
                tasks[name, "auto"] = partial(
                    train_in_process, cache=cache, **{**COMMON, **options, "features_by": "auto"}
                )
            tasks["columns", "of wide"] = partial(
                wrong_columns, graph=graphs["wide"], parts=parts, data_type=torch.bfloat16
            )
            tasks["whole rows", "refused"] = partial(refused, cache=caches["plain"])
        if world == 4:
            tasks["columns", "of narrow"] = partial(
                wrong_columns, graph=graphs["narrow"], parts=parts, data_type=torch.float32
            )
        outcomes = among_ranks(world, list(tasks.values()))
        found |= {(*key, world): outcome for key, outcome in zip(tasks, outcomes, strict=True)}
        found["caches", "", world] = caches
    return found


@pytest.mark.parametrize(("name", "world"), [*((name, 2) for name in RUNS), *((name, 4) for name in FOUR)])
def test_the_steps_are_those_by_rows(trained: Any, name: str, world: int) -> None:
    """Guards against products of other columns, masks of other nodes, sums made twice, and gradients of own batches."""
    one, several = trained[name, "rows", 1], trained[name, "columns", world]
    np.testing.assert_allclose(several.losses, one.losses, rtol=1e-5)
    assert len(set(one.losses)) == len(one.losses)
    metric = f"val_{one.result['metric']}"
    assert several.result[metric] == pytest.approx(one.result[metric], abs=1e-6)
    facts = several.result["mini_batches"]
    assert (facts["features_by"], facts["rows_fetched"]) == ("columns", 0)
    assert [row for row in several.result["exchanges"] if row["direction"] == "batches" and row["layer"] == 0] == []


def drawn_bytes(cache: str, run: Run) -> Any:
    """The bytes of both ways by the counts of all batches of a GCN's run on two ranks."""
    graph = random_graph(num_nodes=NODES, num_edges=400, weighted=True, loops_and_duplicates=True)
    options = BatchOptions(batch_size=SIZE, fanouts=[3, 2], seed=0, sums="gcn", is_typed=False, node_type="node")
    of_parts = [part_batches(Path(cache), part, np.flatnonzero(graph.train), options, (1, EPOCHS)) for part in range(2)]
    steps = run.result["mini_batches"]["steps_an_epoch"]
    counts = []
    for epoch in range(1, EPOCHS + 1):
        for step in range(steps):
            drawn = [batches.make(epoch, step) for batches in of_parts]
            counts.append(
                [
                    FirstLayerCounts.of_batch({k: torch.from_numpy(v) for k, v in arrays.items()}, "node")
                    for arrays in drawn
                ]
            )
    common = {"row_bytes": 6 * 4, "miss_share": 1.0, "bytes_before": 0.0}
    return counts, [step_bytes(each, hidden_bytes=HIDDEN * 4, **common) for each in counts]


def sent(run: Run, purpose: str) -> int:
    return sum(row["bytes_sent"] for row in run.result["sent_for"] if row["purpose"] == purpose)


def test_the_counted_bytes_are_those_that_were_sent(trained: Any) -> None:
    """Guards against a choice by other bytes than the run's. Messages of columns have an end more and are padded."""
    rows, columns = trained["gcn", "rows", 2], trained["gcn", "columns", 2]
    counts, expected = drawn_bytes(trained["caches", "", 2]["plain"], rows)
    [of_rows] = [one for one in rows.result["exchanges"] if one["direction"] == "batches"]
    requested = sum(one.requested for of_step in counts for one in of_step)
    assert of_rows["bytes_sent"] == requested * 6 * 4
    assert sum(step.rows for step in expected) == requested * (6 * 4 + 8)
    [of_columns] = [one for one in columns.result["exchanges"] if one["direction"] == "batches"]
    assert (of_columns["layer"], of_columns["width"]) == (1, HIDDEN)
    assert of_columns["bytes_sent"] == 2 * 4 * HIDDEN * sum(one.computed for of_step in counts for one in of_step)
    topology = sent(columns, "who sends") - sum(2 * 4 * 8 for _ in counts)  # but for its lengths
    difference = topology - (sum(step.columns for step in expected) - of_columns["bytes_sent"])
    assert 0 <= difference <= len(counts) * 2 * (8 + 2 * 4)


def test_auto_chooses_the_fewer_bytes(trained: Any) -> None:
    """Guards against a choice that is the same for all widths, or that knows nothing of rows that are kept."""
    found = {name: trained[name, "auto", 2].result["mini_batches"] for name in ("wide", "narrow", "wide, kept")}
    assert {name: facts["features_by"] for name, facts in found.items()} == {
        "wide": "columns",
        "narrow": "rows",
        "wide, kept": "rows",
    }


def test_a_run_goes_on_by_the_other_way(trained: Any) -> None:
    """Guards against weights of which a checkpoint has some rows alone."""
    whole, resumed = trained["gcn", "rows", 1], trained["resumed", "columns", 2]
    assert resumed.result["resumed_after"] == 1
    assert resumed.losses == pytest.approx(whole.losses[1:], rel=1e-5)


def test_ranks_get_their_columns(trained: Any) -> None:
    """Guards against rows in another order than the dataset's, and ranks that have none."""
    assert trained["columns", "of wide", 2] == trained["columns", "of narrow", 4] == 0


def test_whole_rows_are_refused(trained: Any) -> None:
    """Guards against a model that gets some columns where it asks for all."""
    assert (
        "layer 1 of the model needs whole rows of the features; use --features-by rows"
        in (trained["whole rows", "refused", 2])
    )
