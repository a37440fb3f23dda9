"""Weights that float32 cannot hold are rounded aloud, whatever the format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graphprep.datasets.formats.edge_weights import Rounded, rounded_in
from graphprep.datasets.importing.import_request import ImportRequest
from graphprep.datasets.importing.user_files import read_files
from graphprep.system.executor import Executor
from tests.datasets.user_graphs import edges_of, written
from tests.elsewhere import Elsewhere

WEIGHTS = [16_777_217, 123_456_789, 16_777_216, 16_777_218]
ENDS = [(0, 1), (1, 2), (2, 0), (0, 2)]
SAID = "2 weights are whole numbers above 2^24 that float32 rounds, as 16777217 to 16777216"


def text(path: Path) -> Path:
    return written(path / "e.txt", "".join(f"{a} {b} {w}\n" for (a, b), w in zip(ENDS, WEIGHTS, strict=True)))


def csv(path: Path) -> Path:
    lines = "".join(f"{a},{b},{w}.0\n" for (a, b), w in zip(ENDS, WEIGHTS, strict=True))
    return written(path / "e.csv", f"src,dst,weight\n{lines}")


def mtx(path: Path) -> Path:
    lines = "".join(f"{a + 1} {b + 1} {w}\n" for (a, b), w in zip(ENDS, WEIGHTS, strict=True))
    return written(path / "e.mtx", f"%%MatrixMarket matrix coordinate integer general\n3 3 4\n{lines}")


def parquet(path: Path) -> Path:
    src, dst = zip(*ENDS, strict=True)
    pq.write_table(pa.table({"src": src, "dst": dst, "weight": WEIGHTS}), path / "e.parquet")
    return path / "e.parquet"


def npz(path: Path) -> Path:
    np.savez(path / "e.npz", edge_index=np.array(ENDS).T, weight=np.array(WEIGHTS, np.float64))
    return path / "e.npz"


def pyg(path: Path) -> Path:
    import torch
    from torch_geometric.data import Data

    torch.save(Data(edge_index=torch.tensor(ENDS).T.contiguous(), edge_weight=torch.tensor(WEIGHTS)), path / "e.pt")
    return path / "e.pt"


@pytest.mark.parametrize("executor", [None, Elsewhere()])
@pytest.mark.parametrize("make", [text, csv, mtx, parquet, npz, pyg])
def test_rounded_weights_are_said(
    tmp_path: Path,
    make: Callable[[Path], Path],
    executor: Executor | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Guards against whole numbers above 2^24 that are changed without a word, also where other processes read."""
    path = make(tmp_path)
    raw = read_files(ImportRequest.of_one_type((path,), weights=True), executor=executor)
    assert f"{path}: {SAID}" in capsys.readouterr().err
    rounded = [float(np.float32(weight)) for weight in WEIGHTS]
    assert edges_of(raw.edges[0]) == [(*ends, weight) for ends, weight in zip(ENDS, rounded, strict=True)]


def test_fractions_and_exact_numbers_are_not_said() -> None:
    """Guards against a warning for every weight that is no sum of a few powers of two."""
    assert rounded_in(np.array([0.1, 1e-300, 2.0**60, 3.0, -(2.0**24)])) == Rounded()
    assert rounded_in(np.array([0.1], np.float32)) == Rounded()
    assert rounded_in(None) == Rounded()
    assert rounded_in(np.array([0.5, -(2.0**24) - 1])) == Rounded(1, -(2.0**24) - 1)
