"""What the drawn edges count in a sum, so that it estimates that over all edges without bias.

    gcn       w[i, j] / sqrt(d[i] d[j]), and a self-loop of 1 / d[i] at each node that has none in the graph
    mean      w[i, j] / sum of w[i, :]
    sum       w[i, j]
    messages  1

Degrees are those of the whole graph, d with the self-loops. Of a node with k of its D in-edges drawn each counts D / k
times. With all edges drawn the weights are those of trainer/sparse/normalise.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.core.csr_kernels import lacks_loop
from graphprep.core.types import Csr

Sums = Literal["gcn", "mean", "sum", "messages"]
SUMS: tuple[Sums, ...] = ("gcn", "mean", "sum", "messages")
_NONE = np.empty(0, np.float32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowFacts:
    """What the weights of edges are computed from, of all nodes N."""

    degree_N: NDArray[np.int64]
    """in-edges"""
    sum_N: NDArray[np.float32]
    """of their weights in the graph"""
    has_loop_N: NDArray[np.bool_]
    """whether one is a self-loop"""


def row_facts(matrix: Csr) -> RowFacts:
    """Read all edges once."""
    return RowFacts(
        degree_N=np.diff(matrix.indptr),
        sum_N=_row_sums(matrix),
        has_loop_N=~lacks_loop(matrix.indptr, matrix.indices),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EdgeWeights:
    """The weights of the edges of one type. Letters: N destinations, n of a batch, E drawn edges."""

    matrix: Csr
    row_factor_N: NDArray[np.float32] | None
    """what the edges into a node are multiplied by; None for 1"""
    column_factor_N: NDArray[np.float32] | None
    """what those from a node are"""
    needs_loop_N: NDArray[np.bool_] | None
    """which nodes get a self-loop; None where none do"""

    @classmethod
    def of(cls, matrix: Csr, sums: Sums) -> EdgeWeights:
        """Compute the factors of all nodes."""
        if sums == "messages":
            matrix, sums = replace(matrix, data=None), "sum"
        if sums == "sum":
            return cls(matrix=matrix, row_factor_N=None, column_factor_N=None, needs_loop_N=None)
        return cls.of_facts(matrix, row_facts(matrix), sums)

    @classmethod
    def of_facts(cls, matrix: Csr, facts: RowFacts, sums: Sums) -> EdgeWeights:
        """The same where the edges of `matrix` are elsewhere; only its row offsets are read."""
        if sums in ("sum", "messages"):
            return cls(matrix=matrix, row_factor_N=None, column_factor_N=None, needs_loop_N=None)
        degree_N = facts.sum_N
        if sums == "mean":
            return cls(
                matrix=matrix, row_factor_N=_inverse(degree_N, degree_N != 0), column_factor_N=None, needs_loop_N=None
            )
        needs_loop_N = ~facts.has_loop_N
        degree_N = degree_N + needs_loop_N
        factor_N = np.sqrt(_inverse(degree_N, degree_N > 0))
        return cls(matrix=matrix, row_factor_N=factor_N, column_factor_N=factor_N, needs_loop_N=needs_loop_N)

    def of_drawn(
        self,
        ids_n: NDArray[np.int64],
        source_E: NDArray[np.int64],
        destination_E: NDArray[np.int64],
        number_E: NDArray[np.int64],
        factor_E: NDArray[np.float32] | None = None,
        data_E: NDArray[np.float32] | None = None,
    ) -> NDArray[np.float32]:
        """The weight of each drawn edge.

        Args:
            ids_n: the destinations, by their numbers in the graph.
            source_E: where each edge begins, likewise.
            destination_E: the place of each edge's end in `ids_n`.
            number_E: which edge of the matrix it is.
            factor_E: 1 / the probability of each one; None for D / k.
            data_E: its weight in the graph, where the edges of the matrix are elsewhere.
        """
        weight_E = self.inflation(ids_n, destination_E)[destination_E] if factor_E is None else factor_E.copy()
        if self.row_factor_N is not None:
            weight_E *= self.row_factor_N[ids_n][destination_E]
        if self.column_factor_N is not None:
            weight_E *= self.column_factor_N[source_E]
        if data_E is None and self.matrix.data is not None:
            data_E = self.matrix.data[number_E]
        if data_E is not None:
            weight_E *= data_E
        return weight_E

    def inflation(self, ids_n: NDArray[np.int64], destination_E: NDArray[np.int64]) -> NDArray[np.float32]:
        """D / k of each destination: how many in-edges each of those that were drawn stands for."""
        indptr = self.matrix.indptr
        degree_n = indptr[ids_n + 1] - indptr[ids_n]
        drawn_n = np.bincount(destination_E, minlength=len(ids_n))
        factor_n: NDArray[np.float32] = (degree_n / np.maximum(drawn_n, 1)).astype(np.float32)
        return factor_n

    def of_loops(self, ids_n: NDArray[np.int64]) -> NDArray[np.float32]:
        """The weight of the self-loop of each destination, 0 for none; empty where none has one."""
        if self.needs_loop_N is None or self.row_factor_N is None:
            return _NONE
        loop_n: NDArray[np.float32] = np.square(self.row_factor_N[ids_n])
        loop_n[~self.needs_loop_N[ids_n]] = 0
        return loop_n


def _row_sums(matrix: Csr) -> NDArray[np.float32]:
    if matrix.data is None:
        return np.diff(matrix.indptr).astype(np.float32)
    sums_N: NDArray[np.float32] = _sums_of_rows(matrix.indptr, matrix.data)
    return sums_N


@njit(cache=True, nogil=True)
def _sums_of_rows(indptr, data):  # type: ignore[no-untyped-def]
    """The sum of each row's values, added in fp64 one after the other: float32 [N]."""
    sums = np.empty(len(indptr) - 1, np.float32)
    for i in range(len(sums)):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            total += data[e]
        sums[i] = total
    return sums


def _inverse(values: NDArray[np.float32], usable: NDArray[Any]) -> NDArray[np.float32]:
    inverse = np.zeros_like(values)
    np.divide(np.float32(1), values, out=inverse, where=usable)
    return inverse
