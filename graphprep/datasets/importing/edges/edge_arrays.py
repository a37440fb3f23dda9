"""Edges that are arrays already, in memory or mapped: what .npy, .npz and .pt files hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.datasets.formats.edge_weights import Weights
from graphprep.datasets.importing.edges.edge_file import EdgeFile, EdgeRows
from graphprep.errors import DatasetError

Array = NDArray[Any]
CHUNK_EDGES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeArrays(EdgeFile):
    """Edges as columns."""

    path: Path
    src: Array
    """integers [E]"""
    dst: Array
    weight: Array | None = None
    """numbers [E]"""
    time: Array | None = None
    """integers or floats [E]"""
    num_sources: int | None = None
    num_destinations: int | None = None
    ignored: tuple[str, ...] = ()
    nodes: Mapping[str, Array] = field(default_factory=dict)
    read_again: bool = True
    how: str = ""
    """what was taken as what, where there is more to say than the names of these arrays"""

    def __post_init__(self) -> None:
        """Compare lengths and dtypes.

        Raises:
            DatasetError: an array is not what it should be.
        """
        for name, array in (("sources", self.src), ("destinations", self.dst)):
            if array.ndim != 1 or array.dtype.kind not in "iu":
                raise DatasetError(
                    f"{self.path} cannot be used: its {name} have shape {array.shape} and dtype {array.dtype}; node "
                    "ids must be integers"
                )
        for name, values in (("destinations", self.dst), ("weights", self.weight), ("times", self.time)):
            if values is not None and len(values) != len(self.src):
                raise DatasetError(f"{self.path} cannot be used: {len(self.src):,} sources but {len(values):,} {name}")
        for name, values in (("weights", self.weight), ("times", self.time)):
            if values is not None and (values.ndim != 1 or values.dtype.kind not in "biuf"):
                raise DatasetError(
                    f"{self.path} cannot be used: its {name} have shape {values.shape} and dtype {values.dtype}, not "
                    "one number an edge"
                )

    @property
    def num_edges(self) -> int:
        return len(self.src)

    def node_arrays(self) -> Mapping[str, Array]:
        """Arrays of nodes that came with the edges."""
        return self.nodes

    def read_as(self) -> str:
        if self.how:
            return self.how
        names = [name for name, array in (("weights", self.weight), ("times", self.time)) if array is not None]
        names += [f"{name} of the nodes" for name in self.nodes]
        return ", ".join(["arrays of sources and destinations", *names])

    def rows(self) -> Iterator[EdgeRows]:
        """The edges in their order.

        Raises:
            DatasetError: an id beyond 64 bits, a weight or time that is not finite.
        """
        yield from self.rows_between(0, len(self.src))

    def rows_between(self, first: int, stop: int) -> Iterator[EdgeRows]:
        """Those from `first` to before `stop`.

        Raises:
            DatasetError: as `rows`.
        """
        for start in range(first, min(stop, len(self.src)), CHUNK_EDGES):
            run = slice(start, min(start + CHUNK_EDGES, stop))
            try:
                weight = None if self.weight is None else weights(self.weight[run], start)
                time = None if self.time is None else times(self.time[run], start)
                src, dst = node_ids(self.src[run], start), node_ids(self.dst[run], start)
            except DatasetError as problem:
                raise DatasetError(f"{self.path} cannot be used: {problem}") from problem
            yield EdgeRows(src, dst, weight, time)


def node_ids(ids: Array, start: int) -> NDArray[np.int64]:
    """Ids as int64.

    Raises:
        DatasetError: with the edge's number from `start`, one that is beyond them; as are those below, the end of a
            sentence.
    """
    _require_below(ids, 2**63 - 1, "node id", start)
    return ids.astype(np.int64)


def weights(values: Array, start: int) -> Weights:
    """Weights as float32 if that is exact for their dtype, else as float64.

    Raises:
        DatasetError: one is not finite in float32.
    """
    narrow = _finite("weight", values, np.float32, start)
    return narrow if np.can_cast(values.dtype, np.float32) else values.astype(np.float64)


def times(values: Array, start: int) -> NDArray[np.int64] | NDArray[np.float64]:
    """Times as int64 or float64.

    Raises:
        DatasetError: one is not finite or beyond 64 bits.
    """
    if values.dtype.kind == "f":
        return _finite("time", values, np.float64, start)
    _require_below(values, 2**63, "time", start)
    return values.astype(np.int64)


def _finite(what: str, values: Array, dtype: type[np.floating[Any]], start: int) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        narrow = values.astype(dtype)
    if not (fine := np.isfinite(narrow)).all():
        odd = int(np.argmin(fine))
        raise DatasetError(f"edge {start + odd:,} has the {what} {values[odd]}, which is not finite in {narrow.dtype}")
    return narrow


def _require_below(values: Array, limit: int, what: str, start: int) -> None:
    if values.dtype == np.uint64 and len(values) and int(values.max()) >= limit:
        odd = start + int(np.argmax(values))
        raise DatasetError(f"edge {odd:,} has the {what} {values.max()}, beyond 64 bits")
