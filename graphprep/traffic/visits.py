"""How often mini-batches need the rows of nodes, from the fanouts alone, and so which rows ranks fetch from others.

A batch needs a node's row if the node is a seed or was drawn in a hop. Node v is in the frontier of a hop with
probability p(v); for each edge u -> v then, v draws u with probability min(1, fanout / degree of v). Draws of different
nodes are taken to be independent of each other, and so are the nodes of a frontier (VIP, Kaler et al. 2023,
"Communication-efficient graph neural networks with probabilistic neighborhood expansion analysis and caching",
SALIENT++). In each hop all nodes that were met so far draw, as in DGL's blocks.

Letters: N nodes of a type, E edges of a type, P parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.core.types import Csr, EdgeType
from graphprep.traffic.counts import Assignments, Matrices

Probabilities = dict[str, NDArray[np.float64]]
Draw = Callable[[EdgeType, int, NDArray[np.float64], NDArray[np.float64]], None]
"""does what `multiply_misses` does, for an edge type"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchShape:
    """The mini-batches of a run."""

    fanouts: tuple[int, ...]
    """neighbours a node and edge type in each hop, from the seeds on; below 0 is all"""
    batch_size: int
    """training nodes of all ranks in a step"""

    def seed_probabilities(self, training_masks: Mapping[str, NDArray[np.bool_]]) -> Probabilities:
        """How probable it is that each node is a seed of a step, by type."""
        count = sum(int(mask_N.sum()) for mask_N in training_masks.values())
        share = min(1.0, self.batch_size / max(count, 1))
        return {name: np.where(mask_N, share, 0.0) for name, mask_N in training_masks.items()}

    def fanouts_by_type(self, matrices: Matrices) -> dict[EdgeType, tuple[int, ...]]:
        """The fanouts of each edge type."""
        return dict.fromkeys(matrices, self.fanouts)


def visit_probabilities(
    matrices: Matrices,
    num_nodes: Mapping[str, int],
    fanouts: Mapping[EdgeType, Sequence[int]],
    seed_probability: Mapping[str, NDArray[np.float64]],
) -> Probabilities:
    """The probability that a batch needs the row of each node, by type: float64 [N]. See `visits_by_hop`."""
    return visits_by_hop(matrices, num_nodes, fanouts, seed_probability)[-1]


def visits_by_hop(
    matrices: Matrices,
    num_nodes: Mapping[str, int],
    fanouts: Mapping[EdgeType, Sequence[int]],
    seed_probability: Mapping[str, NDArray[np.float64]],
) -> list[Probabilities]:
    """The probabilities that a batch has met each node before the first hop, and after each hop.

    Args:
        matrices: in-edges of every edge type.
        num_nodes: by type.
        fanouts: of each edge type in each hop, from the seeds on; below 0 is all.
        seed_probability: by type, how probable it is that each node is a seed of a batch. Types without seeds may be
            left out.
    """

    def draw(
        kind: EdgeType, fanout: int, missed_rows: NDArray[np.float64], missed_sources: NDArray[np.float64]
    ) -> None:
        multiply_misses(matrices[kind], fanout, missed_rows, missed_sources)

    return visits_of_draws(draw, num_nodes, fanouts, seed_probability)


def visits_of_draws(
    draw: Draw,
    num_nodes: Mapping[str, int],
    fanouts: Mapping[EdgeType, Sequence[int]],
    seed_probability: Mapping[str, NDArray[np.float64]],
) -> list[Probabilities]:
    """As `visits_by_hop`, by what one hop does to the nodes that edges of a type begin at."""
    missed = {
        name: 1 - np.asarray(seed_probability.get(name, np.zeros(count)), np.float64)
        for name, count in num_nodes.items()
    }
    found = [{name: 1 - each for name, each in missed.items()}]
    for hop in range(max((len(numbers) for numbers in fanouts.values()), default=0)):
        before = {name: each.copy() for name, each in missed.items()}
        for kind, numbers in fanouts.items():
            draw(kind, numbers[hop], before[kind.destination], missed[kind.source])
        found.append({name: 1 - each for name, each in missed.items()})
    return found


def fetched_rows(
    matrices: Matrices,
    assignments: Assignments,
    training_masks: Mapping[str, NDArray[np.bool_]],
    num_parts: int,
    batches: BatchShape,
) -> NDArray[np.float64]:
    """float64 [P, P]: the rows of part p that part q needs for a step, on average; the diagonal is 0.

    Each part draws for the seeds that it has.
    """
    num_nodes = {name: len(part_N) for name, part_N in assignments.items()}
    seeds = batches.seed_probabilities(training_masks)
    fanouts = batches.fanouts_by_type(matrices)
    rows_PP = np.zeros((num_parts, num_parts))
    for part in range(num_parts):
        own = {name: np.where(assignments[name] == part, of_type, 0.0) for name, of_type in seeds.items()}
        for name, needed_N in visit_probabilities(matrices, num_nodes, fanouts, own).items():
            rows_PP[:, part] += np.bincount(assignments[name], weights=needed_N, minlength=num_parts)
    np.fill_diagonal(rows_PP, 0.0)
    return rows_PP


def multiply_misses(
    matrix: Csr, fanout: int, missed_rows: NDArray[np.float64], missed_sources: NDArray[np.float64]
) -> None:
    """Let the rows of a matrix draw.

    Args:
        matrix: in-edges.
        fanout: neighbours a node; below 0 is all.
        missed_rows: the probability of each row not to be met so far.
        missed_sources: that of each source; multiplied by that of each row that it leads to not to draw it.
    """
    _draw(matrix.indptr, matrix.indices, fanout, missed_rows, missed_sources)


@njit(cache=True, nogil=True)
def _draw(indptr, indices, fanout, missed_rows, missed_sources):  # type: ignore[no-untyped-def]
    """Multiply the probability that a node is not met by that of each node it leads to not to draw it."""
    for row in range(len(indptr) - 1):
        degree = indptr[row + 1] - indptr[row]
        if degree == 0 or missed_rows[row] == 1:
            continue
        drawn = 1.0 if fanout < 0 or fanout >= degree else fanout / degree
        stays = 1 - drawn * (1 - missed_rows[row])
        for e in range(indptr[row], indptr[row + 1]):
            missed_sources[indices[e]] *= stays
