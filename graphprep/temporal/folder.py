"""A folder of raw arrays with a manifest: what event stores and event caches have in common.

Metadata are compared with their checksums whenever they are read; arrays are mapped, and compared on request.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
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
from graphprep.system.regular_file import regular_file
from graphprep.temporal.events import ROWS_AT_A_TIME
from graphprep.temporal.format import DESTINATION, EVENT_FORMAT, SOURCE, TIME


class ArrayFolder:
    """A finished event store or event cache, opened for reading."""

    kind: ClassVar[str]
    called: ClassVar[str]
    """for people"""
    error: ClassVar[type[GraphprepError]]
    again: ClassVar[str]
    """what to do about a damaged one"""

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
        if version != EVENT_FORMAT:
            raise self.fault(
                f"has the format {str(version)[:40]} and this release reads {EVENT_FORMAT}; install the release that "
                f"wrote it, or {self.again}",
                is_kind=True,
            )
        if hashlib.sha256(content).hexdigest() != self.manifest.files[ZARR_JSON].sha256:
            raise self.fault("is damaged: its zarr.json has changed since it was written")
        self.attributes: dict[str, Any] = found

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
            return map_array(self.folder, name)
        except CacheError as error:
            raise self._translated(error) from error

    @cached_property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays, mapped."""
        paths = (path.removesuffix(f"/{ZARR_JSON}") for path in sorted(self.manifest.files) if ZARR_JSON in path)
        return {path: self.array(path) for path in paths if "/" in path}  # groups lie at the root

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
