"""A grid of any number of dimensions: each node is joined to the next along each axis. Cuts and halos are known.

Labels are slabs along the first axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from graphprep.errors import UsageError
from graphprep.generators import EDGES_AT_A_TIME, labelled_nodes
from graphprep.graph import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, EdgeChunk, EdgeTable, RawGraph, Treatment

MOST_NODES = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRequest:
    """The parameters of a grid."""

    sides: tuple[int, ...]
    """nodes along each axis"""
    classes: int = 8
    features: int = 0
    dtype: str = "float32"
    signal: float = 2.0
    """distance of a class's centre from 0, in deviations of the noise"""
    seed: int = 0
    """of the features"""

    @property
    def size(self) -> tuple[int, int]:
        """Nodes and undirected edges."""
        return math.prod(self.sides), sum(math.prod(self.sides) // side * (side - 1) for side in self.sides)

    def __post_init__(self) -> None:
        if self.sides and math.prod(self.sides) > MOST_NODES:
            raise UsageError(f"--sides {'x'.join(map(str, self.sides))} are more than {MOST_NODES:,} nodes")
        if not self.sides or min(self.sides) < 1:
            raise UsageError(f"--sides {'x'.join(map(str, self.sides))} must be positive, e.g. 80x80x80")
        if not math.isfinite(self.signal):
            raise UsageError(f"--signal {self.signal} must be a finite number")
        if not 1 <= self.classes <= self.sides[0]:
            raise UsageError(f"--classes {self.classes} must be from 1 to the first side, {self.sides[0]}")


def generate(request: GridRequest, *, folder: Path) -> RawGraph:
    """The graph, its nodes numbered with the last axis fastest; features go to a file in `folder`."""
    num_nodes, num_edges = request.size
    y = np.arange(num_nodes) // (num_nodes // request.sides[0]) * request.classes // request.sides[0]

    def chunks() -> Iterator[EdgeChunk]:
        for axis, side in enumerate(request.sides):
            step = math.prod(request.sides[axis + 1 :])
            for start in range(0, num_nodes, EDGES_AT_A_TIME):
                ids = np.arange(start, min(start + EDGES_AT_A_TIME, num_nodes))
                ids = ids[ids // step % side < side - 1]
                yield EdgeChunk(ids, ids + step)

    nodes = labelled_nodes(
        y.astype(np.int64),
        num_features=request.features,
        dtype=request.dtype,
        signal=request.signal,
        seed=request.seed,
        file=folder / "x.npy",
    )
    return RawGraph(
        nodes={HOMOGENEOUS_NODE: nodes},
        edges=(EdgeTable(type=HOMOGENEOUS_EDGE, chunks=chunks, num_edges=num_edges),),
        treatment=Treatment(undirected=True),
        notes={"generator": "grid", "parameters": asdict(request), "split": "seeded, 20 and 30 nodes a class"},
    )
