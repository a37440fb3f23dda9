"""Edges from NumPy's files.

.npy: integers [E, 2] or [2, E], mapped into memory and never loaded whole.
.npz: `edge_index` [2, E] or [E, 2]; or `src` and `dst` [E]; or a sparse matrix as SciPy saves it (csr, csc, coo), whose
entry in row i and column j is the edge i -> j. Beside them `edge_weight` (or `weight`) and `edge_time` (or `time`),
`num_nodes`, and arrays of the nodes: x, y, train_mask, val_mask, test_mask (or lists: train_idx, val_idx, test_idx).

Nothing is unpickled: arrays of Python objects are refused by name, or left alone if they are not requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from graphprep.datasets.formats.arrays import Npz, map_npy, npy_header
from graphprep.datasets.importing.edges.edge_arrays import EdgeArrays
from graphprep.datasets.importing.edges.edge_file import EdgeOptions, EdgeRows, FileRange
from graphprep.datasets.importing.node_lists import listed_nodes, named_lists
from graphprep.errors import DatasetError
from graphprep.system.files.archive import Archive

Array = NDArray[Any]
WEIGHTS = ("edge_weight", "weight")
TIMES = ("edge_time", "time")
ENDS = (("src", "dst"), ("source", "target"), ("row", "col"))
NODE_ARRAYS = {"x": "biuf", "y": "biuf", "train_mask": "biu", "val_mask": "biu", "test_mask": "biu"}
ROWS_A_SECTION = 1 << 22
SPARSE_NAMES = ("format", "shape", "data", "indices", "indptr", "row", "col")


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedEdges(EdgeArrays):
    """The edges of a .npy file; another process maps the file again."""

    options: EdgeOptions

    def sections(self) -> Sequence[FileRange]:
        """Ranges of edges."""
        return [
            (start, min(start + ROWS_A_SECTION, self.num_edges)) for start in range(0, self.num_edges, ROWS_A_SECTION)
        ]

    def rows_of(self, section: FileRange) -> Iterator[EdgeRows]:
        """One of them; see `EdgeArrays.rows`."""
        return self.rows_between(*section)

    def __reduce__(self) -> tuple[Callable[..., EdgeArrays], tuple[Path, str, EdgeOptions]]:
        return open_numpy, (self.path, "npy", self.options)


def open_numpy(path: Path, format: Literal["npy", "npz"], options: EdgeOptions) -> EdgeArrays:
    """The edges of a .npy or .npz file.

    Raises:
        DatasetError: it is damaged, or holds no edges.
    """
    try:
        return _from_npy(path, options) if format == "npy" else _from_npz(path, options)
    except DatasetError as problem:
        if str(problem).startswith(str(path)):
            raise
        raise DatasetError(f"{path} cannot be used: {problem}") from problem
    except OSError as problem:
        raise DatasetError(f"{path} cannot be read ({problem.strerror or problem})") from problem


def _from_npy(path: Path, options: EdgeOptions) -> EdgeArrays:
    for is_wanted, name in ((options.weights, "weights"), (options.times, "times")):
        if is_wanted:
            raise DatasetError(f"a .npy file of edges has no {name}; save them in an .npz beside src and dst")
    src, dst = ends(map_npy(path, "biufcSUV", (None, None)), "it")
    return MappedEdges(path=path, src=src, dst=dst, options=options)


def ends(pairs: Array, what: str) -> tuple[Array, Array]:
    """Sources and destinations of an array [E, 2] or [2, E].

    Raises:
        DatasetError: it is neither, or both.
    """
    if pairs.ndim != 2 or 2 not in pairs.shape or pairs.dtype.kind not in "iu":
        raise DatasetError(
            f"{what} holds shape {pairs.shape} and dtype {pairs.dtype}, not integers [E, 2] or [2, E] for E edges"
        )
    if pairs.shape == (2, 2):
        raise DatasetError(f"{what} holds shape (2, 2), which may be read either way; give src and dst in an .npz")
    return (pairs[0], pairs[1]) if pairs.shape[0] == 2 else (pairs[:, 0], pairs[:, 1])


def _from_npz(path: Path, options: EdgeOptions) -> EdgeArrays:
    with Archive(path) as archive:
        npz = Npz(archive)
        if "shape" in npz.names and ("indptr" in npz.names or "format" in npz.names):
            return _from_sparse(path, npz, options)
        used = set()
        if "edge_index" in npz.names:
            src, dst = ends(npz.array("edge_index", "iu", (None, None)), "its array 'edge_index'")
            used.add("edge_index")
        else:
            names = next((pair for pair in ENDS if set(pair) <= npz.names), None)
            if names is None:
                raise DatasetError(
                    "it holds neither edge_index, nor src and dst, nor a sparse matrix of SciPy's; its arrays are "
                    f"{', '.join(sorted(npz.names)) or 'none'}"
                )
            src, dst = (npz.array(name, "iu", (None,)) for name in names)
            used.update(names)
        weight = _column(npz, WEIGHTS) if options.weights else None
        time = _column(npz, TIMES) if options.times else None
        used.update(WEIGHTS if options.weights else (), TIMES if options.times else ())
        nodes = {
            name: npz.array(name, kinds, (None,) if _flat(npz, name) else (None, None))
            for name, kinds in NODE_ARRAYS.items()
            if name in npz.names
        }
        count = None
        if "num_nodes" in npz.names:
            count = int(npz.array("num_nodes", "iu", ()))
            if count < 1:
                raise DatasetError(f"its num_nodes is {count}")
        lists = named_lists(npz.names, nodes)
        used.update(lists.values())
        ignored = tuple(sorted(npz.names - used - set(nodes) - {"num_nodes"}))
        if lists:
            rows = count or next((len(nodes[name]) for name in ("x", "y") if name in nodes), None)
            if rows is None:
                raise DatasetError(f"it has {next(iter(lists.values()))}, but neither num_nodes nor x nor y")
            for mask, name in lists.items():
                nodes[mask] = listed_nodes(npz.array(name, "biu", (None,)), rows, f"its array {name!r}")
    return EdgeArrays(
        path=path,
        src=src,
        dst=dst,
        weight=weight,
        time=time,
        num_sources=count,
        num_destinations=count,
        ignored=ignored,
        nodes=nodes,
    )


def _flat(npz: Npz, name: str) -> bool:
    """Whether an array has one dimension, from its header alone."""
    size = npz.archive.size(f"{name}.npy")
    with npz.archive.open(f"{name}.npy") as stream:
        return len(npy_header(stream, size, f"its array {name!r}")[0]) == 1


def _column(npz: Npz, choices: Sequence[str]) -> Array:
    name = next((name for name in choices if name in npz.names), None)
    if name is None:
        raise DatasetError(f"it has none of the arrays {', '.join(choices)}")
    return npz.array(name, "biuf", (None,))


def _from_sparse(path: Path, npz: Npz, options: EdgeOptions) -> EdgeArrays:
    if options.times:
        raise DatasetError("a sparse matrix has no times")
    matrix = npz.sparse(values=options.weights)
    row = matrix.row
    if row is None and matrix.indptr is not None:
        row = np.repeat(np.arange(matrix.shape[0], dtype=matrix.column.dtype), np.diff(matrix.indptr))
    if row is None:
        raise DatasetError("its sparse matrix has no rows")
    ignored = () if options.weights else ("data",)
    extra = tuple(sorted(npz.names - set(SPARSE_NAMES)))
    return EdgeArrays(
        path=path,
        src=row,
        dst=matrix.column,
        weight=matrix.data,
        num_sources=matrix.shape[0],
        num_destinations=matrix.shape[1],
        ignored=ignored + extra,
    )
