"""The arrays of an uncompressed .npz file as memory maps, so that only what is used of a large one is read.

The file's checksums are not compared; `np.load`, which reads all of it, compares them.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from graphprep.system.files.archive import LOCAL_HEADER
from graphprep.system.files.regular_file import regular_file


def mapped_npz(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays by name. What is written to them stays in this process; they are not read-only because numba's loops
    would be compiled once more for such arrays.

    Args:
        path: of what `np.savez` wrote.
    """
    arrays: dict[str, NDArray[Any]] = {}
    with zipfile.ZipFile(regular_file(path)) as archive, path.open("rb") as file:
        for info in archive.infolist():
            file.seek(info.header_offset)
            _, name_bytes, extra_bytes = LOCAL_HEADER.unpack(file.read(LOCAL_HEADER.size))
            file.seek(name_bytes + extra_bytes, os.SEEK_CUR)
            npy.read_magic(file)
            shape, _, dtype = npy.read_array_header_1_0(file)
            name = info.filename.removesuffix(".npy")
            empty = 0 in shape  # which cannot be mapped
            arrays[name] = (
                np.empty(shape, dtype) if empty else np.memmap(path, dtype, "c", offset=file.tell(), shape=shape)
            )
    return arrays
