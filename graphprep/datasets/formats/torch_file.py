"""PyTorch's .pt files of arrays in dictionaries, read without running what they name and without importing torch.

Such a file is a zip: `NAME/data.pkl` is a pickle in which every tensor names a storage, and `NAME/data/KEY` holds that
storage's bytes. The pickle goes through an unpickler that knows a dozen names, all of them stand-ins (see `pickles`);
tensors and NumPy arrays become arrays once their sizes have been compared with the bytes.

Before 1.6 PyTorch wrote one stream instead. That form is left to `torch.load(weights_only=True)`, which is always asked
for, since it became the default only with torch 2.6.
"""

from __future__ import annotations

import functools
import io
import itertools
import math
import reprlib
import warnings
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.datasets.formats.pickles import PickledArray, PlainUnpickler, require_small_memo
from graphprep.errors import DatasetError
from graphprep.system.files.archive import Archive, in_plain_words

STORAGES = {
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "<i1",
    "ByteStorage": "<u1",
    "BoolStorage": "|b1",
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
}
ZIP_MAGIC = b"PK\x03\x04"
MOST_DEPTH = 8
MOST_VALUES = 1_000_000
"""in dictionaries and lists, each counted as often as they name it"""


def load(data: bytes) -> Any:
    """The value in a .pt file: dictionaries and lists of arrays, numbers and words.

    Raises:
        DatasetError: it is damaged, or holds anything else; as the end of a sentence.
    """
    if not data.startswith(ZIP_MAGIC):
        return _legacy(data)
    with Archive(io.BytesIO(data)) as archive:
        pickles = [name for name in archive.names if PurePosixPath(name).name == "data.pkl"]
        if len(pickles) != 1:
            raise DatasetError("it is no PyTorch file: it has no data.pkl, or several")
        folder = str(PurePosixPath(pickles[0]).parent)

        @functools.cache  # tensors may share one
        def storage(key: str) -> bytes:
            return archive.read(f"{folder}/data/{key}", len(data))

        program = io.BytesIO(archive.read(pickles[0], len(data)))
        require_small_memo(program, len(program.getbuffer()))
        with in_plain_words("it is a damaged PyTorch file, or none"):
            return _plain(_Unpickler(program, storage).load(), itertools.count(1))


class _Unpickler(PlainUnpickler):
    opener = "torch.load"

    def __init__(self, stream: io.BytesIO, storage: Callable[[str], bytes]) -> None:
        super().__init__(stream, encoding="latin1")
        self._storage = storage

    def find_class(self, module_name: str, global_name: str) -> Any:
        if module_name == "torch" and global_name in STORAGES:
            return np.dtype(STORAGES[global_name])
        return TENSOR_NAMES.get((module_name, global_name)) or super().find_class(module_name, global_name)

    def persistent_load(self, saved_id: Any) -> NDArray[Any]:
        match saved_id:
            case ("storage", np.dtype() as dtype, str(key), str(), int(items)):
                pass
            case _:
                raise DatasetError(
                    "it names a storage in a form that PyTorch does not write: " + reprlib.repr(saved_id)[:60]
                )
        data = self._storage(key)
        if len(data) != items * dtype.itemsize:
            raise DatasetError(f"its storage {key} has {len(data):,} bytes for {items:,} numbers of {dtype}")
        return np.frombuffer(data, dtype)


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: object) -> NDArray[Any]:
    """Stands for torch._utils._rebuild_tensor_v2, for tensors whose rows follow each other."""
    match (storage, offset, shape, strides):
        case (np.ndarray(), int(), tuple(), tuple()) if all(type(n) is int and n >= 0 for n in (offset, *shape)):
            pass
        case _:
            raise DatasetError("it holds a tensor in a form that PyTorch does not write")
    plain: list[int] = []
    step = 1
    for size in reversed(shape):
        plain.insert(0, step)
        step *= size
    count = math.prod(shape)
    if count and any(
        stride != plain_stride for stride, plain_stride, size in zip(strides, plain, shape, strict=True) if size > 1
    ):
        raise DatasetError("it holds a tensor whose rows do not follow each other")
    if offset + count > len(storage):
        raise DatasetError(f"it holds a tensor of shape {shape} in a storage of {len(storage):,} numbers")
    return np.asarray(storage[offset : offset + count].reshape(shape))


def _encoded(text: Any, encoding: Any) -> bytes:
    """Stands for _codecs.encode, by which old pickles write bytes."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise DatasetError("it holds bytes in a form that Python does not write")
    return text.encode("latin1")


def _ordered(*items: Any) -> dict[Any, Any]:
    return dict(*items)


TENSOR_NAMES: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("collections", "OrderedDict"): _ordered,
    ("_codecs", "encode"): _encoded,
}


def _plain(value: Any, seen: Iterator[int], depth: int = 0) -> Any:
    if depth > MOST_DEPTH:
        raise DatasetError(f"it is nested more than {MOST_DEPTH} deep")
    if next(seen) > MOST_VALUES:
        raise DatasetError(f"it unfolds into more than {MOST_VALUES:,} values, which arrays in dictionaries do not")
    if isinstance(value, PickledArray):
        return value.plain()
    if isinstance(value, dict):
        return {key: _plain(item, seen, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, seen, depth + 1) for item in value]
    if hasattr(value, "detach"):  # a tensor, of which only a legacy file has any
        return value.detach().numpy()
    if isinstance(value, np.ndarray | int | float | str | bytes | None):
        return value
    raise DatasetError(f"it holds a {type(value).__name__}, which is no array")


def _legacy(data: bytes) -> Any:
    import torch

    # Where the file is damaged, torch warns of what it believes to have read.
    with in_plain_words("it is no PyTorch file, or holds more than tensors"), warnings.catch_warnings(action="ignore"):
        value = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    return _plain(value, itertools.count(1))
