"""Graphs of any size from a seed: edges and features come in chunks, each from its own stream of random numbers.

A chunk's stream depends on the seed and on the chunk's number alone, so a graph can be read again, and is the same on
every machine, without being held in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphprep import progress
from graphprep.graph import NodeTable
from graphprep.publish import reserve
from graphprep.split import seeded_split

EDGES_AT_A_TIME = 1 << 20
ROWS_AT_A_TIME = 1 << 16


def chunk_sizes(num_edges: int) -> Iterator[tuple[int, int]]:
    """(number, edges) of each chunk."""
    for number, start in enumerate(range(0, num_edges, EDGES_AT_A_TIME)):
        yield number, min(EDGES_AT_A_TIME, num_edges - start)


def labelled_nodes(
    y: NDArray[np.int64], *, num_features: int, dtype: str, signal: float, seed: int, file: Path
) -> NodeTable:
    """Nodes whose features are their class's centre, `signal` times, plus noise of deviation 1; a seeded split.

    Args:
        y: int64 [N], the classes.
        num_features: F; 0 for none.
        dtype: of the features, float16 or float32.
        signal: length of the centres, in deviations of the noise.
        seed: of centres and noise.
        file: where the features go, row range by row range; they are returned as a memory map of it.
    """
    split = seeded_split(y, seed=seed)
    x = None
    if num_features:
        file.parent.mkdir(parents=True, exist_ok=True)
        centres = np.random.default_rng([seed, 1]).standard_normal((int(y.max(initial=0)) + 1, num_features))
        centres *= signal / np.linalg.norm(centres, axis=1, keepdims=True)
        x = np.lib.format.open_memmap(file, mode="w+", dtype=dtype, shape=(len(y), num_features))
        reserve(file)
        with progress.task("drawing features", total=len(y), unit="rows") as task:
            for start in range(0, len(y), ROWS_AT_A_TIME):
                labels = y[start : start + ROWS_AT_A_TIME]
                noise = np.random.default_rng([seed, 2, start]).standard_normal((len(labels), num_features), np.float32)
                x[start : start + len(labels)] = noise + centres[labels]
                task.advance(len(labels))
    return NodeTable(num_nodes=len(y), x=x, y=y, **split._asdict())
