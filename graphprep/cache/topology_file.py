"""All in-edges of a cache's graph in one file, which the processes of a machine that sample neighbours map.

The file `sampling-topology` lies in the cache's folder and is made of its parts when it is first needed: 8 bytes a
node and edge type, 4 an edge (8 from 2^31 nodes on), and 4 more an edge with weights. It is no part of the manifest: it
names the content that it was made of, and one of another content is written anew.

    8 bytes     length of the header
    header      JSON: `graphprep_kind` "sampling-topology", `graphprep_format` 1, `cache` (`content_sha256` of the
                cache), `sha256` of all bytes from the arrays on, `arrays` of each edge type: name, dtype, length and
                place, counted from where the arrays begin: at the next multiple of 4,096
    arrays      `indptr`, `indices` and with weights `data` of each edge type, as `graphprep.core.types.Csr` has them
"""

from __future__ import annotations

import errno
import hashlib
import json
import mmap
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.read import PartitionCache
from graphprep.cache.rebuild import rebuild_csr
from graphprep.core import csr
from graphprep.core.types import Csr, EdgeType
from graphprep.errors import CacheError
from graphprep.system import progress
from graphprep.system.files.atomic import PARTIAL_PREFIX, lock_file, locked_if_free, published_file
from graphprep.system.files.regular_file import regular_file
from graphprep.system.home_contents import SAMPLING_TOPOLOGY

FORMAT = 1
_PAGE, _ALIGNMENT = 4096, 64
_LENGTH_BYTES = 8
_LONGEST_HEADER = 1 << 26
_HASHED_BYTES = 1 << 24
_SECONDS_BETWEEN_LOOKS = 0.1


def topology_file(folder: Path) -> Path:
    """Where the file of the cache in a folder is."""
    return folder / SAMPLING_TOPOLOGY


def files_of_topology(folder: Path) -> list[Path]:
    """The file, and what is beside it while it is written, or after its writer was killed."""
    file = topology_file(folder)
    return [file, file.with_name(PARTIAL_PREFIX + file.name), lock_file(file)]


def mapped_topology(cache: PartitionCache, *, timeout: float) -> Mapping[EdgeType, Csr] | None:
    """Map the in-edges of all types, read-only; write the file first where it is missing, or of another content.

    Args:
        cache: whose edges they are.
        timeout: seconds to wait for another process that writes the file.

    Returns:
        The edges by type, in key order; None where the file cannot be had, with one line that says why.
    """
    file, deadline, has_said = topology_file(cache.folder), time.monotonic() + timeout, False
    try:
        while True:
            if (edges := _mapped(cache)) is not None:
                return edges
            with locked_if_free(file) as is_held:
                if is_held:
                    if (edges := _mapped(cache)) is not None:
                        return edges
                    _write(cache)
                    if (edges := _mapped(cache)) is not None:
                        return edges
                    reason = "it cannot be read again"
                    break
            if time.monotonic() > deadline:
                reason = f"another process has been writing it for {timeout:.0f} s"
                break
            if not has_said:
                progress.say(f"waiting for another process that writes {file}")
                has_said = True
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    except OSError as error:
        if isinstance(error, CacheError):
            raise
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason += f", and it needs {progress.format_bytes(_Layout.of(cache).total_bytes)}"
    progress.warn(
        f"{file} cannot be written ({reason}), so each rank holds the edges of the whole graph in its own memory; make "
        "room, or make the cache's folder writable"
    )
    return None


def check_topology_file(cache: PartitionCache) -> bool:
    """Whether the file is there; all of it is read.

    Raises:
        CacheError: it has changed since it was written.
    """
    file = topology_file(cache.folder)
    if not file.exists():
        return False
    try:
        found = _read_header(file)
        if found is None or found.header["cache"] != cache.content_sha256:
            raise CacheError(f"{file} was made of another cache, or is damaged; remove it")
        with regular_file(file).open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            if _sha256(mapped, found.start) != found.header["sha256"]:
                raise CacheError(f"{file} has changed since it was written; remove it")
    except CacheError:
        raise
    except OSError as error:
        raise CacheError(f"{file} cannot be read ({error.strerror}); remove it") from error
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Array:
    name: str
    dtype: str
    length: int
    start: int
    """counted from where the arrays begin"""

    @property
    def end(self) -> int:
        return self.start + self.length * np.dtype(self.dtype).itemsize

    def of(self, content: NDArray[np.uint8]) -> NDArray[Any]:
        """The array in the bytes of all arrays."""
        return content[self.start : self.end].view(self.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """What the file of a cache has."""

    degrees: Mapping[EdgeType, NDArray[np.int64]]
    """in-edges of each node"""
    arrays: Mapping[EdgeType, Mapping[str, _Array]]
    total_bytes: int
    """of the arrays"""

    @classmethod
    def of(cls, cache: PartitionCache) -> _Layout:
        """Count the edges."""
        arrays: dict[EdgeType, dict[str, _Array]] = {}
        degrees, start = {}, 0
        for kind in cache.edge_types:
            degree_N, weighted = _degrees(cache, kind)
            num_edges = int(degree_N.sum())
            index_type = "int32" if cache.node_types[kind.source] < 2**31 else "int64"
            listed = [("indptr", "int64", len(degree_N) + 1), ("indices", index_type, num_edges)]
            listed += [("data", "float32", num_edges)] if weighted else []
            arrays[kind], degrees[kind] = {}, degree_N
            for name, dtype, length in listed:
                arrays[kind][name] = _Array(name=f"{kind.key}/{name}", dtype=dtype, length=length, start=start)
                start = -(-arrays[kind][name].end // _ALIGNMENT) * _ALIGNMENT
        return cls(degrees=degrees, arrays=arrays, total_bytes=start)


def _degrees(cache: PartitionCache, kind: EdgeType) -> tuple[NDArray[np.int64], bool]:
    """How many in-edges each node has, and whether they have weights."""
    degree_N, weighted = np.zeros(cache.node_types[kind.destination], np.int64), False
    for part in range(cache.num_parts):
        rows = cache.node_array(part, kind.destination, "global_ids")
        for owner in range(cache.num_parts):
            block = cache.block(part, kind, owner)
            degree_N[rows] += np.diff(block.indptr)
            weighted |= block.data is not None
    return degree_N, weighted


def _write(cache: PartitionCache) -> None:
    """Write the file, one part after the other.

    Raises:
        OSError: the folder cannot be written to, or the disk is full.
    """
    file, layout = topology_file(cache.folder), _Layout.of(cache)
    arrays = [array for of_kind in layout.arrays.values() for array in of_kind.values()]
    header = {
        "graphprep_kind": SAMPLING_TOPOLOGY,
        "graphprep_format": FORMAT,
        "cache": cache.content_sha256,
        "sha256": "0" * 64,
        "arrays": [[array.name, array.dtype, array.length, array.start] for array in arrays],
    }
    start = _start(len(json.dumps(header)))
    try:
        with published_file(file) as opened, progress.task(f"writing {file.name} for samplers"):
            length = start + layout.total_bytes
            opened.truncate(length)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(opened.fileno(), 0, length)  # without it a full disk ends the process by SIGBUS
            content = np.memmap(opened.name, np.uint8, "r+", start, (layout.total_bytes,)).view(np.ndarray)
            for kind, of_kind in layout.arrays.items():
                _fill(cache, kind, layout.degrees[kind], {name: each.of(content) for name, each in of_kind.items()})
            header["sha256"] = _sha256(content, 0)
            text = json.dumps(header).encode()
            opened.write(len(text).to_bytes(_LENGTH_BYTES, sys.byteorder) + text)
            del content
    except BaseException:
        file.with_name(PARTIAL_PREFIX + file.name).unlink(missing_ok=True)
        raise


def _fill(
    cache: PartitionCache, kind: EdgeType, degree_N: NDArray[np.int64], target: Mapping[str, NDArray[Any]]
) -> None:
    """Put the rows of all parts into their places."""
    indptr = target["indptr"]
    np.cumsum(degree_N, out=indptr[1:])
    for part in range(cache.num_parts):
        rows = rebuild_csr(cache, kind, parts=[part])
        moved_N = indptr[:-1] - rows.indptr[:-1]
        place_E = np.arange(rows.num_edges) + np.repeat(moved_N, np.diff(rows.indptr))
        target["indices"][place_E] = rows.indices
        if "data" in target:
            target["data"][place_E] = 1 if rows.data is None else rows.data


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    header: dict[str, Any]
    start: int
    """where the arrays begin"""


def _read_header(file: Path) -> _Header | None:
    """What a file says of itself; None if it is no such file."""
    with regular_file(file).open("rb") as opened:
        length = int.from_bytes(opened.read(_LENGTH_BYTES), sys.byteorder)
        text = opened.read(length) if length < _LONGEST_HEADER else b""
    try:
        header = json.loads(text)
        if (header["graphprep_kind"], header["graphprep_format"]) != (SAMPLING_TOPOLOGY, FORMAT):
            return None
        header["cache"], header["sha256"]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return _Header(header=header, start=_start(length))


def _mapped(cache: PartitionCache) -> dict[EdgeType, Csr] | None:
    """The edges from the file; None if it is not there, or of another content, or damaged."""
    file = topology_file(cache.folder)
    try:
        found = _read_header(file)
        if found is None or found.header["cache"] != cache.content_sha256:
            return None
        content = np.memmap(file, np.uint8, "r", found.start).view(np.ndarray)
        arrays = {
            name: _Array(name=name, dtype=dtype, length=length, start=start).of(content)
            for name, dtype, length, start in found.header["arrays"]
        }
        edges = {}
        for kind in cache.edge_types:
            edges[kind] = Csr(
                indptr=arrays[f"{kind.key}/indptr"],
                indices=arrays[f"{kind.key}/indices"],
                data=arrays.get(f"{kind.key}/data"),
                num_sources=cache.node_types[kind.source],
            )
            if edges[kind].num_rows != cache.node_types[kind.destination] or csr.range_fault(edges[kind]):
                return None
    except (OSError, ValueError, TypeError, LookupError):
        return None
    return edges


def _start(header_bytes: int) -> int:
    """Where the arrays begin behind a header of so many bytes."""
    return -(-(_LENGTH_BYTES + header_bytes) // _PAGE) * _PAGE


def _sha256(content: Any, start: int) -> str:
    """64 hex digits over all bytes from a place on."""
    view, digest = memoryview(content), hashlib.sha256()
    try:
        for place in range(start, len(view), _HASHED_BYTES):
            digest.update(view[place : place + _HASHED_BYTES])
    finally:
        view.release()
    return digest.hexdigest()
