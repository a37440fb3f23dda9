"""CSR matrices whose arrays are files: written front to back as sorted pieces come, then mapped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphprep.core import csr
from graphprep.core.types import Csr
from graphprep.system.files.scratch import RowSink


def in_files(
    pieces: Iterator[Csr],
    *,
    num_rows: int,
    num_sources: int,
    num_edges: int,
    folder: Path,
    memory_bytes: int,
    stage: str,
    named: bool = False,
) -> Csr:
    """Row ranges in order, joined; an array of up to `memory_bytes` stays in memory.

    Args:
        pieces: each one's indptr starts at 0; all have data or none.
        num_rows, num_sources, num_edges: of the whole.
        folder: for files, which are gone with the arrays.
        memory_bytes: what an array may take in memory.
        stage: what is going on, for the error.
        named: whether files have names, by which other processes map them; see `RowSink`.

    Raises:
        NoRoomError: the disk is full.
    """

    def sink(length: int, dtype: type[np.generic]) -> RowSink:
        return RowSink((length,), np.dtype(dtype), folder, memory_bytes=memory_bytes, stage=stage, named=named)

    offsets, columns = sink(num_rows + 1, np.int64), sink(num_edges, csr.index_dtype(num_sources))
    weights: RowSink | None = None
    offsets.add(np.zeros(1, np.int64))
    base = 0
    for piece in pieces:
        offsets.add(np.asarray(piece.indptr[1:] + base))
        columns.add(piece.indices)
        if piece.data is not None:
            weights = weights or sink(num_edges, np.float32)
            weights.add(piece.data)
        base += piece.num_edges
    data: NDArray[np.float32] | None = None if weights is None else weights.array()
    return Csr(indptr=offsets.array(), indices=columns.array(), data=data, num_sources=num_sources)
