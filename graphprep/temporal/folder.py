"""A folder of raw arrays with a manifest: what event stores and event caches have in common.

Metadata are compared with their checksums whenever they are read; arrays are mapped, and compared on request.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.format import ZARR_JSON, payload_path
from graphprep.cache.manifest import Manifest
from graphprep.cache.read import AGAIN as CACHE_AGAIN
from graphprep.cache.read import map_array
from graphprep.errors import CacheError, GraphprepError
from graphprep.system import progress
from graphprep.system.files.regular_file import regular_file
from graphprep.temporal.events import ROWS_AT_A_TIME
from graphprep.temporal.format import (
    CHANGING_ARRAYS,
    CHANGING_OFFSETS,
    CHANGING_TIME,
    CHANGING_X,
    DESTINATION,
    DTYPES,
    EVENT_FORMAT,
    MATRICES,
    SECONDS,
    SOURCE,
    TIME,
)

COMMON_KINDS: Mapping[str, type] = {
    **dict.fromkeys(("dataset", "key", "tool_version", "time_unit"), str),
    **dict.fromkeys(("num_nodes", "num_events", "num_event_features", "num_node_features", "num_states"), int),
    **{"bipartite": bool, "source": dict},
}
"""Root attributes of both, each with its type."""


class ArrayFolder:
    """A finished event store or event cache, opened for reading."""

    kind: ClassVar[str]
    called: ClassVar[str]
    """for people"""
    error: ClassVar[type[GraphprepError]]
    again: ClassVar[str]
    """what to do about a damaged one"""
    required: ClassVar[tuple[str, ...]]
    """arrays that it has to have"""
    formats: ClassVar[tuple[int, ...]] = (EVENT_FORMAT,)
    """that are read"""
    kinds: ClassVar[Mapping[str, type]]
    """root attributes that are relied on, each with its type"""

    def __init__(self, folder: Path | str) -> None:
        """Open it.

        Raises:
            DatasetError, CacheError: it is something else, unfinished, damaged or of an unknown format.
        """
        self.folder = Path(folder)
        try:
            content = regular_file(self.folder / ZARR_JSON).read_bytes()
            found = json.loads(content)["attributes"]
            kind, version = found["graphprep_kind"], found["graphprep_format"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise self.fault("is not one: its zarr.json is missing or cannot be read", is_kind=True) from error
        if kind != self.kind:
            raise self.fault(f"is not one: its zarr.json says {str(kind)[:40]!r}", is_kind=True)
        if type(version) is not int or version not in self.formats:
            known = " and ".join(map(str, self.formats))
            raise self.fault(
                f"has the format {str(version)[:40]} and this release reads {known}; install the release that "
                f"wrote it, or {self.again}",
                is_kind=True,
            )
        if hashlib.sha256(content).hexdigest() != self.manifest.files[ZARR_JSON].sha256:
            raise self.fault("is damaged: its zarr.json has changed since it was written")
        for name, type_ in ({**COMMON_KINDS, **self.kinds}).items():
            if type(found.get(name)) is not type_:
                raise self.fault(f"is damaged: its zarr.json has no {name}, or a wrong one")
        if found["time_unit"] not in SECONDS or found["num_nodes"] < 0 or found["num_events"] < 1:
            raise self.fault("is damaged: its zarr.json has a wrong unit of time or number of nodes or events")
        self.attributes: dict[str, Any] = found
        for name in self.required:
            if not self.has(name):
                raise self.fault(f"is damaged: it has no array {name}")

    def __reduce__(self) -> tuple[type[ArrayFolder], tuple[Path]]:
        """Another process opens it by itself."""
        return type(self), (self.folder.absolute(),)

    def fault(self, what: str, *, is_kind: bool = False) -> GraphprepError:
        """The error that this folder `what`; `is_kind` where the sentence says what to do already."""
        advice = "" if is_kind else f"; {self.again}"
        return self.error(f"{self.folder}, opened as {self.called}, {what}{advice}")

    def _translated(self, error: CacheError) -> GraphprepError:
        """The error of a partition cache's file or manifest, with the advice for this folder."""
        return self.error(str(error).replace(CACHE_AGAIN, self.again).replace("partition cache", self.called[3:]))

    @cached_property
    def manifest(self) -> Manifest:
        """Every file with its size and checksum."""
        try:
            manifest = Manifest.read(self.folder)
        except CacheError as error:
            raise self._translated(error) from error
        if ZARR_JSON not in manifest.files:
            raise self.fault("is damaged: its manifest does not list zarr.json")
        return manifest

    @property
    def location(self) -> str:
        return str(self.folder)

    @property
    def name(self) -> str:
        """The dataset's name."""
        return str(self.attributes["dataset"])

    @property
    def key(self) -> str:
        """64 hex digits over all that determined the content."""
        return str(self.attributes["key"])

    @property
    def num_nodes(self) -> int:
        """N"""
        return int(self.attributes["num_nodes"])

    @property
    def num_events(self) -> int:
        """M"""
        return int(self.attributes["num_events"])

    @property
    def is_bipartite(self) -> bool:
        """Whether no node is both a source and a destination."""
        return bool(self.attributes["bipartite"])

    @property
    def time_unit(self) -> str:
        """ns, us, ms, s, min, h, d or w"""
        return str(self.attributes["time_unit"])

    def has(self, name: str) -> bool:
        """Whether there is an array of this name, such as `events/x`."""
        return f"{name}/{ZARR_JSON}" in self.manifest.files

    def array(self, name: str) -> NDArray[Any]:
        """Map one array, read-only.

        Raises:
            DatasetError, CacheError: it is missing, has changed metadata or another size than they say.
        """
        path = f"{name}/{ZARR_JSON}"
        if path not in self.manifest.files:
            raise self.fault(f"has no array {name}")
        try:
            self.manifest.check_file(self.folder, path)
            found = map_array(self.folder, name)
        except CacheError as error:
            raise self._translated(error) from error
        if found.dtype.name not in DTYPES.get(name, ()) or found.ndim != (2 if name in MATRICES else 1):
            raise self.fault(f"is damaged: {name} has the type {found.dtype.name} and {found.ndim} dimensions")
        return found

    @cached_property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays, mapped."""
        return {name: self.array(name) for name in DTYPES if self.has(name)}

    def rows(self, name: str, start: int = 0, stop: int | None = None) -> Iterator[NDArray[Any]]:
        """Rows of an array in pieces of at most `ROWS_AT_A_TIME`, read without a memory map: pages that were read count
        for nothing afterwards."""
        array = self.arrays[name]
        stop = len(array) if stop is None else stop
        if start >= stop:
            return
        width = int(np.prod(array.shape[1:], dtype=np.int64))
        with (self.folder / payload_path(name, array.ndim)).open("rb") as file:
            file.seek(start * width * array.dtype.itemsize)
            for first in range(start, stop, ROWS_AT_A_TIME):
                count = min(ROWS_AT_A_TIME, stop - first)
                yield np.fromfile(file, array.dtype, count * width).reshape(count, *array.shape[1:])

    def check_events(self) -> None:
        """Read the events and check that times ascend and nodes are there.

        Raises:
            DatasetError, CacheError: the first thing that is wrong.
        """
        last: Any = None
        for times in self.rows(TIME):
            if not np.isfinite(times).all() or (times[1:] < times[:-1]).any() or (last is not None and times[0] < last):
                raise self.fault("is damaged: its times do not ascend")
            last = times[-1]
        for name in (SOURCE, DESTINATION):
            for ids in self.rows(name):
                if ids.min() < 0 or ids.max() >= self.num_nodes:
                    raise self.fault(f"is damaged: {name} names a node outside of 0 .. {self.num_nodes - 1}")
        for name in ("events", "nodes"):
            count = self.num_events if name == "events" else self.num_nodes
            for path, array in self.arrays.items():
                if path.startswith(f"{name}/") and len(array) != count:
                    raise self.fault(f"is damaged: {path} has {len(array)} rows for {count}")
        if self.has(CHANGING_X):
            self._check_changing_features()

    def _check_changing_features(self) -> None:
        offsets_N, time_R, x_RD = (self.array(name) for name in CHANGING_ARRAYS)
        if len(offsets_N) != self.num_nodes + 1 or offsets_N[0] != 0 or (offsets_N[1:] < offsets_N[:-1]).any():
            raise self.fault(f"is damaged: {CHANGING_OFFSETS} does not ascend from 0, or is not that of the nodes")
        if not len(time_R) == len(x_RD) == offsets_N[-1]:
            raise self.fault(f"is damaged: {CHANGING_TIME} and {CHANGING_X} have not {offsets_N[-1]} rows")
        ascends_R = time_R[1:] >= time_R[:-1]
        borders = offsets_N[1:-1]
        ascends_R[borders[(borders > 0) & (borders < len(time_R))] - 1] = True  # where another node begins
        if not ascends_R.all():
            raise self.fault(f"is damaged: {CHANGING_TIME} does not ascend among the rows of a node")

    def verify_files(self) -> int:
        """Compare every file with the manifest; returns their number.

        Raises:
            DatasetError, CacheError: the first one that is missing, of another size or content, or not listed.
        """
        try:
            self.manifest.check_sizes(self.folder)
            if extra := self.manifest.unlisted(self.folder):
                raise self.fault(f"has {extra[0]}, which is not in the manifest; remove it")
            total = sum(entry.size for entry in self.manifest.files.values())
            with progress.task("checking files", total=total, unit="B") as task:
                for path, entry in self.manifest.files.items():
                    self.manifest.check_file(self.folder, path)
                    task.advance(entry.size)
        except CacheError as error:
            raise self._translated(error) from error
        if self.manifest.key != self.key:
            raise self.fault("is damaged: its manifest belongs to another one")
        return len(self.manifest.files)
