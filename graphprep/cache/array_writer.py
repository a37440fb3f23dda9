"""One array of a cache: a metadata file that Zarr reads, and one raw payload file that anything can map.

The metadata is written here, not through Zarr: a cache for 64 ranks has some 24,000 arrays, and the payload must never
be cut into slices. A test opens the result with Zarr.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.format import ZARR_JSON, data_type, payload_path
from graphprep.cache.manifest import FileEntry, file_sha256
from graphprep.system.files.atomic import reserve


class FolderWriter:
    """Writes groups and arrays below one folder and keeps the manifest's entries of what it wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, FileEntry] = {}

    def group(self, path: str, attributes: dict[str, Any] | None = None) -> None:
        """Write a group's metadata; `path` "" is the root."""
        document = {"zarr_format": 3, "node_type": "group", "attributes": attributes or {}}
        self._write(f"{path}/{ZARR_JSON}" if path else ZARR_JSON, json.dumps(document, allow_nan=False).encode())

    def array(self, path: str, array: NDArray[Any]) -> None:
        """Write an array, its payload little-endian in C order."""
        self._metadata(path, array.shape, array.dtype, fill_value=0)
        if array.size:
            little_endian = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
            self._write(payload_path(path, array.ndim), little_endian.data.cast("B"))

    def open_array(self, path: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Declare an array and map its payload for writing in any order; call `seal` once it is filled."""
        self._metadata(path, shape, dtype, fill_value=0)
        if 0 in shape:
            return np.empty(shape, dtype)
        target = self.folder / payload_path(path, len(shape))
        target.parent.mkdir(parents=True, exist_ok=True)
        array = np.memmap(target, dtype=dtype.newbyteorder("<"), mode="w+", shape=shape)
        reserve(target)
        return array

    def seal(self, path: str, array: NDArray[Any]) -> None:
        """Flush an array that `open_array` gave and enter it into the manifest."""
        if isinstance(array, np.memmap):
            array.flush()
            payload = payload_path(path, array.ndim)
            self.files[payload] = FileEntry(size=array.nbytes, sha256=file_sha256(self.folder / payload))

    @contextmanager
    def growing_array(
        self, path: str, dtype: np.dtype[Any], row_shape: tuple[int, ...] = ()
    ) -> Iterator[Callable[[NDArray[Any]], None]]:
        """Append rows to an array whose length is known when the block ends; they are in no memory map.

        Gives the function that appends rows.
        """
        payload = payload_path(path, 1 + len(row_shape))
        target = self.folder / payload
        target.parent.mkdir(parents=True, exist_ok=True)
        digest, num_rows = hashlib.sha256(), 0
        with target.open("wb") as file:

            def append(rows: NDArray[Any]) -> None:
                nonlocal num_rows
                little_endian = np.ascontiguousarray(rows, dtype=dtype.newbyteorder("<"))
                content = little_endian.reshape(-1).view(np.uint8).data
                file.write(content)
                digest.update(content)
                num_rows += len(rows)

            yield append
        shape = (num_rows, *row_shape)
        self._metadata(path, shape, dtype, fill_value=0)
        size = math.prod(shape) * dtype.itemsize
        if size:
            self.files[payload] = FileEntry(size=size, sha256=digest.hexdigest())
        else:
            target.unlink()

    def ones(self, path: str, length: int) -> None:
        """Declare a float32 array of ones that has no payload: the weights of an unweighted block."""
        self._metadata(path, (length,), np.dtype(np.float32), fill_value=1)

    def _metadata(self, path: str, shape: tuple[int, ...], dtype: np.dtype[Any], *, fill_value: int) -> None:
        name, attributes = data_type(dtype)
        document = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(shape),
            "data_type": name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [max(1, side) for side in shape]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": bool(fill_value) if name == "bool" else fill_value,
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}} if dtype.itemsize > 1 else _BYTES],
            "attributes": attributes,
            "storage_transformers": [],
        }
        self._write(f"{path}/{ZARR_JSON}", json.dumps(document).encode())

    def _write(self, path: str, payload: bytes | memoryview) -> None:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            file.write(payload)
        self.files[path] = FileEntry(size=len(payload), sha256=hashlib.sha256(payload).hexdigest())


_BYTES = {"name": "bytes"}
