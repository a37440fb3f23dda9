"""Sums of neighbours' features (A' X), computed when the cache is written: the input of a model's first layer.

    gcn     A'[i, j] = w[i, j] / sqrt(d[i] d[j]) over the edges and a self-loop of weight 1 at each node that has none;
            d is the weighted in-degree with these loops, in the whole graph. 1/sqrt(d) is 0 where d is not above 0
            (Kipf and Welling, Semi-supervised classification with graph convolutional networks, 2017)
    mean    A'[i, j] = w[i, j] / sum of w[i, :]; 0 where that sum is 0
            (Hamilton et al., Inductive representation learning on large graphs, 2017)

A' X has a row a node, independent of the parts. It is computed part by part from the files of the finished parts: the
rows of X are mapped, in the part or with the owners of its halo, and added from there one edge after another; those of
half precision are gathered and widened some edges at a time. So memory holds a piece of the edges, a piece of the sums,
and 9 bytes a node for factors and loops. Sums are in float64, so that their order does not matter.

Letters: n nodes of a part, E edges of a block, F features, P parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphprep.cache.array_writer import FolderWriter
from graphprep.cache.feature_rows import as_type
from graphprep.cache.format import X_AGGREGATED, part_path
from graphprep.cache.read import block_path, map_array
from graphprep.cache.resume import ResumableSteps
from graphprep.core import bfloat16
from graphprep.core.csr_kernels import lacks_loop
from graphprep.core.types import EdgeType
from graphprep.system import progress
from graphprep.system.threads import cores, side_by_side

MOST_PIECE_BYTES, LEAST_PIECE_BYTES = 64_000_000, 1_000_000
"""Gathered rows of X, and sums, are in memory in pieces of about this size, an eighth of a thread's memory budget
if that is less."""


def aggregation_steps(num_parts: int) -> list[str]:
    """The names of all steps."""
    return [f"aggregated-{part}" for part in range(num_parts)]


def aggregate(
    steps: ResumableSteps,
    kind: EdgeType,
    how: str,
    *,
    x_folder: Path,
    dtype: np.dtype[Any],
    num_parts: int,
    budget: int,
) -> None:
    """Write `x_aggregated` of all parts.

    Args:
        steps: of the cache, with all parts in its folder; what an earlier run has finished is kept.
        kind: the one edge type.
        how: gcn or mean.
        x_folder: where each part's x lies by its path in a cache; the cache's own folder, or another.
        dtype: of what is written.
        num_parts: P.
        budget: bytes that may be in memory.

    Raises:
        OSError: the disk is full.
    """
    names = aggregation_steps(num_parts)
    if all(map(steps.has, names)):
        for name in names:
            steps.keep(name)
        return
    workers = min(cores(), num_parts)
    with progress.task("summing the features of neighbours", total=num_parts, unit="parts") as task:
        factors = [_factors(steps.folder, kind, how, part) for part in range(num_parts)]
        neighbours = _Neighbours(
            folder=steps.folder,
            x_folder=x_folder,
            kind=kind,
            factors_P=factors,
            dtype=dtype,
            piece_bytes=max(LEAST_PIECE_BYTES, min(MOST_PIECE_BYTES, budget // workers // 8)),
        )

        def step(part: int) -> None:
            steps.run(names[part], partial(neighbours.write, part))
            task.advance()

        side_by_side([partial(step, part) for part in range(num_parts)], workers=workers)


class _Factors(NamedTuple):
    """Factors of the edges of a part, in addition to their own weights."""

    as_row_n: NDArray[np.float64]
    as_column_n: NDArray[np.float64] | None
    """None for 1"""
    needs_loop_n: NDArray[np.bool_] | None
    """None where no loops are added"""


def _factors(folder: Path, kind: EdgeType, how: str, part: int) -> _Factors:
    degree_n = map_array(folder, f"{part_path(part)}/nodes/{kind.destination}/degree").astype(np.float64)
    if how == "mean":
        return _Factors(np.divide(1.0, degree_n, out=np.zeros_like(degree_n), where=degree_n != 0), None, None)
    local = block_path(part, kind, part)
    needs_loop_n = lacks_loop(map_array(folder, f"{local}/indptr"), map_array(folder, f"{local}/indices"))
    degree_n += needs_loop_n
    factor_n = np.zeros_like(degree_n)
    np.divide(1.0, np.sqrt(degree_n, where=degree_n > 0, out=factor_n), out=factor_n, where=degree_n > 0)
    return _Factors(factor_n, factor_n, needs_loop_n)


class _Block(NamedTuple):
    """The in-edges of a part from one owner, mapped."""

    indptr: NDArray[np.integer[Any]]
    indices_E: NDArray[np.integer[Any]]
    weight_E: NDArray[np.float32]
    row_H: NDArray[np.integer[Any]] | None
    """the owner's row of each column; None where that is the column"""
    x_nF: NDArray[Any]
    """of the owner"""
    factor_n: NDArray[np.float64] | None
    """of the owner, None for 1"""

    def pieces(self, start: int, stop: int, edges_at_a_time: int) -> Iterator[tuple[int, Any, Any, Any]]:
        """First edge, weights [k] in float64, and sources of the edges of rows start .. stop-1: the sources' rows [k]
        in float32 values [., F]."""
        end = int(self.indptr[stop])
        for first in range(int(self.indptr[start]), end, edges_at_a_time):
            edges = slice(first, min(end, first + edges_at_a_time))
            row_k = self.indices_E[edges] if self.row_H is None else self.row_H[self.indices_E[edges]]
            weight_k = self.weight_E[edges].astype(np.float64)
            if self.factor_n is not None:
                weight_k *= self.factor_n[row_k]
            if self.x_nF.dtype == np.float32:
                yield first, weight_k, row_k, self.x_nF
            else:
                yield first, weight_k, np.arange(len(row_k), dtype=row_k.dtype), _float32(self.x_nF[row_k])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Neighbours:
    """Writes the sums of one part after another."""

    folder: Path
    x_folder: Path
    kind: EdgeType
    factors_P: list[_Factors]
    dtype: np.dtype[Any]
    piece_bytes: int

    def write(self, part: int, writer: FolderWriter) -> None:
        """Write the sums of one part."""
        blocks = [self._block(part, owner) for owner in range(len(self.factors_P))]
        x_nF, factors = blocks[part].x_nF, self.factors_P[part]
        num_rows, width = x_nF.shape
        path = f"{part_path(part)}/nodes/{self.kind.destination}/{X_AGGREGATED}"
        target = writer.open_array(path, (num_rows, width), self.dtype)
        rows_at_a_time = max(1, self.piece_bytes // (8 * max(1, width)))
        for start in range(0, num_rows, rows_at_a_time):
            stop = min(num_rows, start + rows_at_a_time)
            sums_nF = np.zeros((stop - start, width))
            for block in blocks:
                for first, weight_k, row_k, values in block.pieces(start, stop, max(1, rows_at_a_time // 2)):
                    _add(block.indptr, start, first, weight_k, row_k, values, sums_nF)
            as_row_n = factors.as_row_n[start:stop, None]
            if factors.needs_loop_n is not None:
                loops = np.flatnonzero(factors.needs_loop_n[start:stop])
                sums_nF[loops] += as_row_n[loops] * _float32(x_nF[start:stop][loops])
            sums_nF *= as_row_n
            target[start:stop] = as_type(sums_nF, self.dtype)
        writer.seal(path, target)

    def _block(self, part: int, owner: int) -> _Block:
        path, nodes = block_path(part, self.kind, owner), f"{part_path(owner)}/nodes/{self.kind.source}"
        return _Block(
            indptr=map_array(self.folder, f"{path}/indptr"),
            indices_E=map_array(self.folder, f"{path}/indices"),
            weight_E=map_array(self.folder, f"{path}/data"),
            row_H=None if owner == part else map_array(self.folder, f"{nodes}/send_{part}"),
            x_nF=map_array(self.x_folder, f"{nodes}/x"),
            factor_n=self.factors_P[owner].as_column_n,
        )


def _float32(rows: NDArray[Any]) -> NDArray[np.float32]:
    return np.ascontiguousarray(bfloat16.to_float32(rows), np.float32)


@njit(cache=True, nogil=True)
def _add(indptr, first_row, first_edge, weight_k, row_k, values, sums_nF):  # type: ignore[no-untyped-def]
    """Add to the sums, which begin at `first_row`, the weighted rows of `values` [., F] that edges first_edge,
    first_edge + 1, ... come from."""
    row = first_row
    for k in range(len(weight_k)):
        while indptr[row + 1] <= first_edge + k:
            row += 1
        weight, sums_F, values_F = weight_k[k], sums_nF[row - first_row], values[row_k[k]]
        for f in range(len(values_F)):
            sums_F[f] += weight * values_F[f]
