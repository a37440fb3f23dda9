"""Tensor-parallel runs over wires and precisions, and the bytes that they send."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer.parity_cases import graphs
from tests.trainer.rank_group import Run, among_ranks, train_once
from trainer.data.cache import open_cache
from trainer.data.cross_edges import missing_parts
from trainer.exchange.layer_exchanges import column_counts

WORLD, EPOCHS, WIDTH, CLASSES = 4, 6, 6, 3
NAME = "directed, weighted, uneven"
CHANGES: dict[str, dict[str, Any]] = {
    "boundary": {"exchange": "boundary"},
    "tensor": {},
    "wire bf16": {"wire": "bf16"},
    "wire fp16": {"wire": "fp16"},
    "wire int8": {"wire": "int8"},
    "bf16": {"precision": "bf16"},
    "fp16": {"precision": "fp16"},
    "weights bf16": {"weights_wire": "bf16"},
}


def test_columns_are_shared_out_evenly() -> None:
    """A last rank that gets all that is left sums for as long as several; a column that no rank has is 0 everywhere."""
    assert column_counts(64, 4) == [16, 16, 16, 16]
    assert column_counts(7, 3) == [3, 2, 2]
    assert column_counts(2, 4) == [1, 1, 0, 0]


@pytest.fixture(scope="module")
def fitted(caches: dict[tuple[str, int], Path]) -> dict[str, Run]:
    shared: dict[str, Any] = {"epochs": EPOCHS, "layers": 3, "hidden": WIDTH, "dropout": 0.3, "exchange": "tensor"}
    tasks = [partial(train_once, cache=str(caches[NAME, WORLD]), **shared | of_case) for of_case in CHANGES.values()]
    return dict(zip(CHANGES, among_ranks(WORLD, tasks), strict=True))


def row(run: Run, layer: int, direction: str) -> dict[str, Any]:
    [found] = [entry for entry in run.result["exchanges"] if (entry["layer"], entry["direction"]) == (layer, direction)]
    return found


@pytest.mark.slow
def test_losses_are_those_of_boundary(fitted: dict[str, Run]) -> None:
    """Columns that are put back in another order, or a mask of the wrong rows, give other losses."""
    assert fitted["tensor"].losses == pytest.approx(fitted["boundary"].losses, rel=1e-5)
    assert fitted["tensor"].result["exchange"] == "tensor"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        ("wire bf16", 0.01),
        ("wire fp16", 1e-3),
        ("wire int8", 0.05),
        ("bf16", 0.02),
        ("fp16", 5e-3),
        ("weights bf16", 0.02),
    ],
)
def test_half_precision_stays_near_fp32(fitted: dict[str, Run], name: str, tolerance: float) -> None:
    """A wire that is not used leaves the losses equal; one that is decoded as another type makes noise of them."""
    assert fitted[name].losses == pytest.approx(fitted["tensor"].losses, rel=tolerance)
    assert fitted[name].losses != fitted["tensor"].losses


@pytest.mark.slow
def test_bytes_are_those_of_two_exchanges_of_all_columns_but_the_own(
    fitted: dict[str, Run], caches: dict[tuple[str, int], Path]
) -> None:
    """Bytes that are counted once for two exchanges, or under another layer, hide what tensor parallelism costs."""
    graph, assignment = graphs()[NAME][0], np.fromfile(caches[NAME, WORLD] / "assignment/c/0", np.int32)
    is_cross = assignment[graph.src] != assignment[graph.dst]
    shared, summed = (
        np.bincount(assignment[np.unique(ends[is_cross])], minlength=WORLD) for ends in (graph.src, graph.dst)
    )

    def values(width: int, extra: int = 0) -> int:
        """Of one sum: rank p sends q its shared rows' columns of q, and q returns the sums of p's rows; backward the
        other way round; `extra` for each row of a message."""
        counts = column_counts(width, WORLD)
        pairs = [(p, q) for p in range(WORLD) for q in range(WORLD) if p != q]
        return sum(int(shared[p] + summed[p]) * (counts[q] + extra) for p, q in pairs if counts[q])

    for layer, width in ((2, WIDTH), (3, CLASSES)):
        forward, backward = (row(fitted["tensor"], layer, direction) for direction in ("forward", "backward"))
        assert forward["bytes_sent"] == values(width) * 4 * (2 * EPOCHS + 1)
        assert backward["bytes_sent"] == values(width) * 4 * EPOCHS
        assert (forward["width"], forward["exchanges"], forward["share_sent"]) == (width, 2 * EPOCHS + 1, 1)
        assert forward["bytes_skipped"] == 0
        of_boundary = row(fitted["boundary"], layer, "forward")
        assert forward["bytes_exact_boundary"] == of_boundary["bytes_exact_boundary"]
        assert row(fitted["wire bf16"], layer, "backward")["bytes_sent"] == values(width) * 2 * EPOCHS
        assert row(fitted["wire int8"], layer, "backward")["bytes_sent"] == values(width, extra=2) * EPOCHS
        assert row(fitted["bf16"], layer, "forward")["bytes_sent"] * 2 == forward["bytes_sent"]
    assert row(fitted["tensor"], 1, "forward") | {"seconds_by_rank": None} == row(fitted["boundary"], 1, "forward") | {
        "seconds_by_rank": None
    }
    pairs = fitted["tensor"].result["pairs"]
    assert sum(pair["bytes_sent"] for pair in pairs) == fitted["tensor"].result["row_bytes_sent"]


def test_parts_that_are_elsewhere_are_named(caches: dict[tuple[str, int], Path], tmp_path: Path) -> None:
    """A machine that has only its own parts would fail in the middle of the set-up, and the others wait for it."""
    folder = tmp_path / "partial copy"
    shutil.copytree(caches["undirected", 3], folder)
    assert missing_parts(open_cache(str(folder))) == []
    for part in (0, 2):
        shutil.rmtree(folder / f"parts/{part}")
    assert missing_parts(open_cache(str(folder))) == [0, 2]
