"""Kept rows in the batches of a part: what the trainer reads is what it stored, in every sampler process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphprep.core.types import HOMOGENEOUS_NODE
from graphprep.sampling.batch_options import BatchOptions
from graphprep.sampling.batches import part_batches
from graphprep.sampling.row_cache.kept_rows import FIRST_WINDOW, MOST_WINDOW_BYTES, window_of
from graphprep.sampling.row_cache.policies import POLICIES
from graphprep.topology import Topology
from tests.graphs import labelled_graph
from tests.stores import make_cache, make_store

NODES, KEPT, EPOCHS = 150, 20, (3, 6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPHPREP_HOME", str(path / "home"))
        make_cache(make_store(labelled_graph(np.random.default_rng(1), NODES, 900)), Topology.flat(3), path / "cache")
    return path / "cache"


def batches_of(folder: Path, **changes: Any) -> Any:
    """Those of part 1."""
    options = {"batch_size": 8, "fanouts": [3, 2], "seed": 0, "sums": None, "is_typed": False}
    made = BatchOptions(**{**options, "node_type": HOMOGENEOUS_NODE, **changes})
    seeds = np.arange(0, NODES, 2)
    pairs = np.stack([seeds, seeds[::-1] + 1])
    return part_batches(folder, 1, seeds if made.negatives is None else pairs, made, EPOCHS)


def requested(folder: Path, steps: slice = slice(None), **changes: Any) -> list[list[int]]:
    """The nodes that each batch requests, after checks that each of its rows is the right one."""
    batches = batches_of(folder, **changes)
    run = [(epoch, step) for epoch in range(EPOCHS[0], EPOCHS[1] + 1) for step in range(batches.steps)]
    node_C = np.full(batches.num_kept[HOMOGENEOUS_NODE], -1)
    found = []
    for epoch, step in run[steps]:
        arrays = batches.make(epoch, step)
        ids_n = arrays[f"ids/{HOMOGENEOUS_NODE}"]
        rows = {key.split("/")[-1]: values for key, values in arrays.items() if key.startswith("rows/")}
        places = np.concatenate([rows["own_place"], rows["kept_place"], rows["requested_place"]])
        assert sorted(places.tolist()) == list(range(len(ids_n)))
        assert rows["requested_per_part"].sum() == len(rows["requested_place"])
        if steps == slice(None):
            np.testing.assert_array_equal(node_C[rows["kept_slot"]], ids_n[rows["kept_place"]])
            node_C[rows["stored_slot"]] = ids_n[rows["requested_place"][rows["stored_request"]]]
        found.append(ids_n[rows["requested_place"]].tolist())
    return found


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_read_was_stored(folder: Path, policy: str) -> None:
    """Guards against slots that have another row, and policies that save nothing; and two processes, each of which
    makes every second batch, agree with one."""
    cached: dict[str, Any] = {"num_kept": {HOMOGENEOUS_NODE: KEPT}, "cache_policy": policy}
    every, fewer = requested(folder), requested(folder, **cached)
    assert all(set(some) <= set(of_batch) for some, of_batch in zip(fewer, every, strict=True))
    assert sum(map(len, fewer)) < 0.95 * sum(map(len, every))
    assert requested(folder, slice(0, None, 2), **cached) == fewer[::2]
    assert requested(folder, slice(1, None, 2), **cached) == fewer[1::2]


def test_pairs_as_seeds(folder: Path) -> None:
    """Guards against plans of other batches than those of pairs and their random ones."""
    every = requested(folder, negatives=1, batch_size=20)
    for policy in ("belady", "vip"):
        cached: dict[str, Any] = {"num_kept": {HOMOGENEOUS_NODE: KEPT}, "cache_policy": policy}
        fewer = requested(folder, negatives=1, batch_size=20, **cached)
        assert sum(map(len, fewer)) < 0.95 * sum(map(len, every))


def test_belady_saves_most(folder: Path) -> None:
    """Guards against a window that the policy does not get."""
    counts = {
        policy: sum(map(len, requested(folder, num_kept={HOMOGENEOUS_NODE: KEPT}, cache_policy=policy)))
        for policy in POLICIES
    }
    assert min(counts, key=lambda policy: counts[policy]) == "belady"


def test_the_window_is_as_large_as_memory_is_for() -> None:
    """Guards against batches without end that are held."""
    assert window_of(50, 1000) == 100
    assert window_of(50, MOST_WINDOW_BYTES) == 1
    assert window_of(1, 0) == 2
    assert FIRST_WINDOW > 1
