"""What a person asks of a generator: the parameters of each, and those that all have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from graphprep.errors import UsageError
from graphprep.system.options import check_options, option, required

MOST_NODES = 2**40


def _edges() -> Any:
    return required("Undirected edges that are drawn; self-loops and repetitions are dropped.", at_least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRequest:
    """What all generated graphs have: labels, features that follow them, a seed."""

    classes: int = option(8, "Number of labels.")
    features: int = option(0, "Number of features of each node; 0 for none.", at_least=0)
    dtype: Literal["float16", "float32"] = option("float32", "The type of the features.")
    signal: float = option(2.0, "Distance of a class's centre from 0, in deviations of the noise.")
    seed: int = option(0, "Seed of all random numbers.", at_least=0)

    def check_classes(self, most: int, what: str) -> None:
        """Raises:
        UsageError: no class or more than `most`.
        """
        if not 1 <= self.classes <= most:
            raise UsageError(f"--classes {self.classes} must be from 1 to {what}, {most}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SbmRequest(GraphRequest):
    """A hierarchical stochastic block model, with labels and features that follow the blocks."""

    nodes: int = required("Number of nodes.", at_least=1)
    edges: int = _edges()
    branching: int = option(8, "Blocks in a block.")
    levels: int = option(2, "Levels of blocks.")
    inside: float = option(0.8, "Probability to stay in the block, at each level.")

    @property
    def size(self) -> tuple[int, int]:
        """Nodes and undirected edges."""
        return self.nodes, self.edges

    def __post_init__(self) -> None:
        check_options(self)
        blocks = self.branching**self.levels
        if self.branching < 2 or self.levels < 1 or blocks > self.nodes:
            raise UsageError(
                f"{self.branching} blocks on each of {self.levels} levels make {blocks} blocks for {self.nodes} nodes; "
                "give --branching of at least 2, --levels of at least 1, and no more blocks than nodes"
            )
        if not 0 <= self.inside <= 1:
            raise UsageError(f"--inside {self.inside} is a probability, from 0 to 1")
        self.check_classes(blocks, "the number of blocks")


@dataclass(frozen=True, slots=True, kw_only=True)
class RmatRequest(GraphRequest):
    """An R-MAT graph, with the skewed degrees of the web."""

    scale: int = required("There are 2^SCALE nodes.", at_least=1, at_most=40)
    edges: int = _edges()
    a: float = option(0.57, "Probability of the upper left quadrant of the adjacency matrix.")
    b: float = option(0.19, "Probability of the upper right quadrant.")
    c: float = option(0.19, "Probability of the lower left quadrant.")

    @property
    def size(self) -> tuple[int, int]:
        """Nodes and undirected edges."""
        return 1 << self.scale, self.edges

    def __post_init__(self) -> None:
        check_options(self)
        if not (min(self.a, self.b, self.c) >= 0 and self.a + self.b + self.c <= 1):
            raise UsageError(f"--a {self.a}, --b {self.b} and --c {self.c} are probabilities with a sum of at most 1")
        self.check_classes(1 << self.scale, "the number of nodes")


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRequest(GraphRequest):
    """A grid of any number of dimensions."""

    sides: tuple[int, ...] = required(
        "Nodes along each axis, e.g. 80x80x80.", metavar="AxBxC", separator="x", example="80x80x80"
    )

    @property
    def size(self) -> tuple[int, int]:
        """Nodes and undirected edges."""
        return math.prod(self.sides), sum(math.prod(self.sides) // side * (side - 1) for side in self.sides)

    def __post_init__(self) -> None:
        check_options(self)
        if self.sides and math.prod(self.sides) > MOST_NODES:
            raise UsageError(f"--sides {'x'.join(map(str, self.sides))} are more than {MOST_NODES:,} nodes")
        if not self.sides or min(self.sides) < 1:
            raise UsageError(f"--sides {'x'.join(map(str, self.sides))} must be positive, e.g. 80x80x80")
        self.check_classes(self.sides[0], "the first side")


GENERATORS: dict[str, type[GraphRequest]] = {"sbm": SbmRequest, "rmat": RmatRequest, "grid": GridRequest}
