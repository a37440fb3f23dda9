"""Passes over a level's edges: one function on fixed ranges of rows, by threads or by a Dask cluster's workers.

The result of a range depends only on the range and on shared arrays, which do not change during a pass; results are
returned in the order of the ranges. So a range whose worker was lost is computed again, and the assignment of ranges to
workers does not change the result.

Workers of a cluster map shared arrays from files. The edges of a level are in files anyway; labels, parts and masks,
which change after every pass, are written to a new file each time, so that no worker reads an old one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from graphprep.core.read_only import read_only
from graphprep.core.types import Csr
from graphprep.partition.out_of_core.propagation_kernels import Edges
from graphprep.system.executor import Executor, Threads
from graphprep.system.payload import has_name, in_file

Result = TypeVar("Result")
Array = TypeVar("Array", bound=NDArray[Any])
Range = tuple[int, int]
Ranges = Sequence[Range]

STAGE = "partitioning"
FOLDER = "shared"


class Places(TypedDict):
    """Arguments of `csr_mmap.in_files`."""

    folder: Path
    memory_bytes: int
    named: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """An executor of passes, and the folder that its workers share."""

    executor: Executor = field(default_factory=Threads)
    folder: Path | None = None
    """for files with names, under a path by which workers reach it too; None where they share this process's memory"""

    @classmethod
    def of(cls, executor: Executor, scratch: Path) -> Passes:
        """Passes by an executor; removes shared files that a killed run left.

        Args:
            executor: of the ranges.
            scratch: an existing folder for temporary files.
        """
        folder = scratch / FOLDER
        shutil.rmtree(folder, ignore_errors=True)
        if not executor.is_elsewhere:
            return cls(executor=executor)
        folder.mkdir()
        return cls(executor=executor, folder=folder)

    def shared(self, array: Array) -> Array:
        """The array as `over` takes it: mapped from a file if workers do not share this process's memory."""
        if self.folder is None or has_name(array):
            return array
        return in_file(array, self.folder, stage=STAGE)  # type: ignore[return-value]

    def places(self, folder: Path, memory_bytes: int) -> Places:
        """Where the arrays of a graph for passes are stored.

        Args:
            folder: for files without names.
            memory_bytes: the largest array in memory, if workers share it; else all are in files.
        """
        if self.folder is None:
            return Places(folder=folder, memory_bytes=memory_bytes, named=False)
        return Places(folder=self.folder, memory_bytes=0, named=True)

    def over(
        self, ranges: Ranges, function: Callable[..., Result], *shared: object, needed: int
    ) -> Iterator[tuple[Range, Result]]:
        """Each range and its result, in order.

        Args:
            ranges: of rows.
            function: called with a range and then the shared arguments; of a module, and without side effects.
            shared: what all ranges have in common; large arrays come from `shared` or from files with names.
            needed: bytes that a range takes.
        """
        return zip(ranges, self.executor.map(function, ranges, *shared, needed=needed), strict=True)


def longest(ranges: Ranges) -> int:
    """Rows of the longest range."""
    return max((stop - start for start, stop in ranges), default=0)


def edges_of(graph: Csr) -> Edges:
    """The edges as kernels take them."""
    data = np.empty(0, np.float32) if graph.data is None else graph.data
    return Edges(read_only(graph.indptr), read_only(graph.indices), read_only(data))
