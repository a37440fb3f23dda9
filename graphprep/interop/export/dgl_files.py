"""The two binary files of DGL 2, written without DGL: tensors by name, and a graph.

Both are what dgl.data.utils.save_tensors and save_graphs write, little-endian throughout: u64 numbers; a string is its
length and its bytes; a list is its length and its items; a dictionary is a list of (string, tensor).

    tensor   magic, 0, device (1, 0) as i32, dimensions as i32, kind u8, bits u8, lanes u16, shape, bytes, payload
    tensors  magic, how many, dictionary
    graph    4096 bytes (magic, version 2, kind 2, one graph, zeros), where graphs begin, no labels,
             one heterograph of one relation as COO: metagraph, sources, destinations, node and edge data, names;
             where each graph begins, and the length of that

A DGL partition is such a graph whatever its types, so that one relation is enough. Truth values become uint8, as DGL
itself stores them. The tests compare these bytes with what DGL 2.1 wrote.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

TENSORS = 0xDD5A9FBE3FA2443F
TENSOR = 0xDD5E40F096B4A13F
GRAPHS = 0xDD2E4FF046B4A13F
HETEROGRAPH = 0xDD589FBE35224ABF
METAGRAPH = 0xDD3C5FFE20046ABF
CSR = 0xDD6CD31205DFF127
RELATION = 0xDD2E60F0F6B4A127
COO = 0xDD61FFD305DFF127
HEADER_BYTES = 4096
GRAPHS_VERSION, HETERO_KIND = 2, 2
STORED_AS_COO, ANY_FORMAT = 0x100000001, 0x100000007
"""which sparse format follows, and which may be made of it; the high bit says that both are given"""
KINDS = {"i": 0, "u": 1, "f": 2}
Arrays = Mapping[str, NDArray[Any]]


def write_tensors(path: Path, tensors: Arrays) -> None:
    """Write what dgl.data.utils.load_tensors reads."""
    with path.open("wb") as file:
        _numbers(file, TENSORS, len(tensors))
        _dictionary(file, tensors)


def write_graph(
    path: Path,
    *,
    num_nodes: int,
    sources: NDArray[np.int64],
    destinations: NDArray[np.int64],
    node_data: Arrays,
    edge_data: Arrays,
) -> None:
    """Write one homogeneous graph for dgl.load_graphs.

    Args:
        path: of the file.
        num_nodes: they are numbered from 0.
        sources, destinations: int64 [E].
        node_data, edge_data: arrays of one row a node or an edge.
    """
    with path.open("wb") as file:
        header = struct.pack("<4Q", GRAPHS, GRAPHS_VERSION, HETERO_KIND, 1)
        file.write(header.ljust(HEADER_BYTES, b"\0"))
        first = HEADER_BYTES + 16
        _numbers(file, first, 0)
        _numbers(file, HETEROGRAPH)
        _metagraph(file)
        _numbers(file, 1, RELATION, STORED_AS_COO, ANY_FORMAT)
        _metagraph(file)
        _numbers(file, COO, num_nodes, num_nodes)
        for array in (sources, destinations, np.zeros(0, np.int64)):  # the last would renumber the edges
            _tensor(file, array)
        file.write(bytes(2))  # sorted by neither
        _numbers(file, 1, num_nodes)
        for arrays in (node_data, edge_data):
            _numbers(file, 1)
            _dictionary(file, arrays)
        for name in ("_N", "_E"):
            _numbers(file, 1)
            _string(file, name)
        _numbers(file, 16, 1, first, 16)


def _metagraph(file: BinaryIO) -> None:
    """One node type with one relation to itself."""
    _numbers(file, METAGRAPH, CSR, 1, 1)
    for numbers in ([0, 1], [0], [0]):
        _tensor(file, np.array(numbers, np.int64))
    file.write(bytes(1))


def _dictionary(file: BinaryIO, arrays: Arrays) -> None:
    _numbers(file, len(arrays))
    for name, array in arrays.items():
        _string(file, name)
        _tensor(file, array)


def _tensor(file: BinaryIO, array: NDArray[Any]) -> None:
    plain = array.view(np.uint8) if array.dtype == np.bool_ else array
    plain = np.ascontiguousarray(plain, plain.dtype.newbyteorder("<"))
    kind, bits = KINDS[plain.dtype.kind], plain.dtype.itemsize * 8
    _numbers(file, TENSOR, 0)
    file.write(struct.pack("<3i2BH", 1, 0, plain.ndim, kind, bits, 1))
    _numbers(file, *plain.shape, plain.nbytes)
    if plain.size:
        file.write(plain.data.cast("B"))


def _string(file: BinaryIO, text: str) -> None:
    _numbers(file, len(text.encode()))
    file.write(text.encode())


def _numbers(file: BinaryIO, *numbers: int) -> None:
    file.write(struct.pack(f"<{len(numbers)}Q", *numbers))
