"""A small graph in Planetoid's eight files, which tests then spoil."""

from __future__ import annotations

import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

NUM_TRAIN, NUM_TEST, NUM_FEATURES, NUM_CLASSES = 4, 5, 6, 3


def parts(*, known: int = 12, skipped: tuple[int, ...] = ()) -> dict[str, Any]:
    """The eight parts; test nodes begin at `known`, without those in `skipped`."""
    rng = np.random.default_rng(3)
    numbers = [node for node in range(known, known + NUM_TEST + len(skipped)) if node not in skipped]
    num_nodes = max(numbers) + 1
    allx = sp.csr_matrix(rng.integers(0, 2, (known, NUM_FEATURES)).astype(np.float32))
    tx = sp.csr_matrix(rng.integers(0, 2, (NUM_TEST, NUM_FEATURES)).astype(np.float32))
    one_hot = np.eye(NUM_CLASSES, dtype=np.int32)
    ally, ty = (one_hot[rng.integers(0, NUM_CLASSES, rows)] for rows in (known, NUM_TEST))
    graph: dict[int, list[int]] = defaultdict(list, {node: [] for node in range(num_nodes)})
    for one, other in rng.integers(0, num_nodes, (30, 2)).tolist():
        if one not in skipped and other not in skipped:
            graph[one].append(other)
            graph[other].append(one)
    return {
        "x": allx[:NUM_TRAIN],
        "y": ally[:NUM_TRAIN],
        "allx": allx,
        "ally": ally,
        "tx": tx,
        "ty": ty,
        "graph": graph,
        "test.index": rng.permutation(numbers).tolist(),
    }


def write(folder: Path, values: dict[str, Any], name: str = "mini") -> None:
    """Write ind.NAME.*; a value that is bytes is written as it is."""
    folder.mkdir(exist_ok=True)
    for part, value in values.items():
        path = folder / f"ind.{name}.{part}"
        if isinstance(value, bytes):
            path.write_bytes(value)
        elif part == "test.index":
            path.write_text("".join(f"{node}\n" for node in value))
        else:
            path.write_bytes(pickle.dumps(value, protocol=3))
