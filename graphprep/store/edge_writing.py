"""The edges of a store, written by ranges that are whole files of it, so that no two workers write to the same one.

A range is made from the sorted pieces alone and written in one go: done again, by the same worker or another, it gives
the same bytes. At a local path Zarr writes a file under another name first, and renames it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zarr

from graphprep.core.csr_pieces import EdgePieces
from graphprep.core.types import row_bytes
from graphprep.errors import DatasetError
from graphprep.store.location import translate_remote_errors
from graphprep.store.store import absent_files
from graphprep.system import progress
from graphprep.system.executor import Executor
from graphprep.system.home import is_url

if TYPE_CHECKING:
    from zarr.core.array_spec import ArrayConfigParams

EVERY_CHUNK: ArrayConfigParams = {"write_empty_chunks": True}
"""Zarr's setting, which does not lie in a store: chunks of zeros are written like others."""
COPIES = 3
"""of a range that are held while it is written: as it is, compressed by chunks, and the file"""
BEGUN = "*.partial"
"""what Zarr calls files that are not whole yet"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayRange:
    """Some entries of one array."""

    path: str
    """of the array in the store"""
    start: int
    stop: int


def write_by_ranges(
    place: str,
    arrays: Mapping[str, zarr.Array[Any]],
    edges: EdgePieces,
    *,
    executor: Executor,
    task: progress.Task,
) -> None:
    """Fill the arrays of one edge type.

    Args:
        place: path or URL of the store that is being written.
        arrays: indptr, indices and, of weighted edges, data: empty ones, by their names in a CSR.
        edges: what they are to hold.
        executor: of the ranges; its workers reach the place, and the files of `edges`, under the same path.
        task: its progress is advanced by the bytes written.

    Raises:
        DatasetError: a URL cannot be written to, or what the workers wrote is not there.
    """
    ranges = [
        ArrayRange(path=array.path, start=start, stop=min(start + rows_a_file(array), array.shape[0]))
        for array in arrays.values()
        for start in range(0, array.shape[0], rows_a_file(array))
    ]
    by_path = {array.path: array for array in arrays.values()}
    needed = max((rows_a_file(array) * row_bytes(array) for array in arrays.values()), default=0) * COPIES
    for piece, _ in zip(ranges, executor.map(_written, ranges, place, edges, needed=needed), strict=True):
        task.advance((piece.stop - piece.start) * row_bytes(by_path[piece.path]))
    if executor.is_elsewhere:
        _check_files(place, by_path)


def rows_a_file(array: zarr.Array[Any]) -> int:
    """How many rows of an array lie in one file: in a shard, or in its only chunk."""
    return int((array.shards or array.chunks)[0])


def _written(piece: ArrayRange, place: str, edges: EdgePieces) -> None:
    with translate_remote_errors(place):
        array = zarr.open_array(place, path=piece.path, mode="r+", zarr_format=3).with_config(EVERY_CHUNK)
        array[piece.start : piece.stop] = edges.entries(Path(piece.path).name, piece.start, piece.stop)


def _check_files(place: str, arrays: Mapping[str, zarr.Array[Any]]) -> None:
    """Remove what workers that are gone had begun, and see that all files are there.

    Raises:
        DatasetError: some are not.
    """
    for path, array in arrays.items():
        if not is_url(place):
            for begun in (Path(place) / path).rglob(BEGUN):
                begun.unlink(missing_ok=True)
        absent, files = absent_files(array)
        if absent:
            raise DatasetError(
                f"{place}: {absent} of the {files} files of {path} that the workers of --dask wrote are not there; let "
                "them reach the store under the same path or URL, or leave --dask away"
            )
