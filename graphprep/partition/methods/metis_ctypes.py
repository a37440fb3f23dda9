"""METIS's C interface, called by ctypes in pymetis's shared library, for several balance constraints.

pymetis itself passes on no more than one. The width of METIS's numbers depends on its build. That of integers follows
from the options array, of which METIS sets 40 entries to -1. That of reals is found by a small partition with unequal
shares: METIS does not refuse limits of the wrong width but reads them as other numbers, and the parts are as uneven as
those numbers allow.

Karypis, Kumar: Multilevel algorithms for multi-constraint graph partitioning, SC 1998.

Letters: N nodes, E directed edges, P parts, C constraints.
"""

from __future__ import annotations

import ctypes
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

LIBRARY = "pymetis._internal"
FUNCTIONS = ("METIS_SetDefaultOptions", "METIS_PartGraphKway", "METIS_PartGraphRecursive")
NUM_OPTIONS, OPTIONS_ROOM = 40, 256
OBJECTIVES = {"cut": 0, "volume": 1}
OK, NO_MEMORY = 1, -3
PROBE_NODES = 64


class MetisGraph(NamedTuple):
    """A clean graph with the weights of its nodes, all int64."""

    xadj: NDArray[np.int64]
    """int64 [N + 1]"""
    adjncy: NDArray[np.int64]
    """int64 [E]"""
    edge_weights: NDArray[np.int64] | None
    """int64 [E], positive; None where all are alike"""
    weights_NC: NDArray[np.int64]
    """int64 [N, C], positive"""

    @property
    def num_nodes(self) -> int:
        return len(self.xadj) - 1


class MetisLibrary:
    """The two partitioning functions; create it in the process that calls them."""

    def __init__(self) -> None:
        """Raises:
        RuntimeError: the functions are missing, or the numbers have an unknown width.
        """
        reason = missing()
        if reason:
            raise RuntimeError(reason)
        self._library = ctypes.CDLL(_library_file())
        self._option_indices = _option_indices()
        self._integer = self._integer_width()
        self._real: DTypeLike = np.float32
        for candidate in (np.float32, np.float64):
            self._real = candidate
            if self._keeps_shares():
                return
        raise RuntimeError("METIS's real numbers are of neither 32 nor 64 bits")

    def partition(
        self,
        graph: MetisGraph,
        shares_P: NDArray[np.float64],
        limits_C: NDArray[np.float64],
        *,
        seed: int,
        recursive: bool = False,
        objective: str = "cut",
    ) -> tuple[NDArray[np.int64], int]:
        """One partition: int64 [N] and what it cuts.

        Args:
            shares_P: target share of each part in every constraint; sums to 1.
            limits_C: greatest share over target share for each constraint.
            seed: of METIS's generator.
            recursive: by recursive bisection instead of k-way.
            objective: "cut" or "volume"; the latter with k-way only.

        Raises:
            MemoryError, RuntimeError: METIS says so.
        """
        num_constraints = graph.weights_NC.shape[1]
        part_N, cut = np.zeros(graph.num_nodes, self._integer), np.zeros(1, self._integer)
        arguments = [
            self._one(graph.num_nodes),
            self._one(num_constraints),
            self._integers(graph.xadj),
            self._integers(graph.adjncy),
            self._integers(graph.weights_NC),
            None,
            None if graph.edge_weights is None else self._integers(graph.edge_weights),
            self._one(len(shares_P)),
            np.repeat(shares_P, num_constraints).astype(self._real),
            _padded(limits_C.astype(self._real)),
            self._options(seed=seed, objtype=OBJECTIVES[objective]),
            cut,
            part_N,
        ]
        function = self._library.METIS_PartGraphRecursive if recursive else self._library.METIS_PartGraphKway
        status = function(*(None if array is None else _address(array) for array in arguments))
        if status == NO_MEMORY:
            raise MemoryError
        if status != OK:
            raise RuntimeError(f"METIS returned status {status}")
        return part_N.astype(np.int64, copy=False), int(cut[0])

    def _integer_width(self) -> DTypeLike:
        options = np.full(OPTIONS_ROOM, 7, np.int32)
        self._library.METIS_SetDefaultOptions(_address(options))
        found = int((options == -1).sum())
        if found not in (NUM_OPTIONS, 2 * NUM_OPTIONS):
            raise RuntimeError(f"METIS's options fill {found} words of 32 bits, which is not known")
        return np.int32 if found == NUM_OPTIONS else np.int64

    def _keeps_shares(self) -> bool:
        """Whether a chain falls into parts of three quarters and one quarter, as asked."""
        middle = np.arange(1, PROBE_NODES - 1)
        adjncy = np.concatenate([[1], np.stack([middle - 1, middle + 1], axis=1).ravel(), [PROBE_NODES - 2]])
        xadj = np.concatenate([[0], 1 + 2 * np.arange(PROBE_NODES - 1), [len(adjncy)]])
        chain = MetisGraph(xadj, adjncy, None, np.ones((PROBE_NODES, 1), np.int64))
        try:
            part_N, _ = self.partition(chain, np.array([0.75, 0.25]), np.array([1.02]), seed=0, recursive=True)
        except RuntimeError:
            return False
        return bool(abs(int((part_N == 0).sum()) - 0.75 * PROBE_NODES) <= 2)

    def _options(self, **values: int) -> NDArray[Any]:
        options = np.full(OPTIONS_ROOM, -1, self._integer)
        self._library.METIS_SetDefaultOptions(_address(options))
        for name, value in values.items():
            options[self._option_indices[name]] = value
        return options

    def _integers(self, values: NDArray[np.int64]) -> NDArray[Any]:
        return np.ascontiguousarray(values, self._integer)

    def _one(self, value: int) -> NDArray[Any]:
        return np.array([value], self._integer)


def missing() -> str | None:
    """Why METIS's own interface cannot be called here, or None."""
    try:
        library = ctypes.CDLL(_library_file())
        absent = [name for name in FUNCTIONS if not hasattr(library, name)]
        _option_indices()
    except (OSError, ImportError, AttributeError) as error:
        return f"pymetis's shared library cannot be used: {error}"
    return f"pymetis's shared library does not export {', '.join(absent)}" if absent else None


def _library_file() -> str:
    return str(import_module(LIBRARY).__file__)


def _option_indices() -> dict[str, int]:
    indices = import_module(LIBRARY).options_indices
    return {"seed": int(indices.SEED), "objtype": int(indices.OBJTYPE)}


def _address(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _padded(values: NDArray[Any]) -> NDArray[Any]:
    """`values` and as many zeros, so that a library that takes them for wider ones does not read beyond the end."""
    return np.concatenate([values, np.zeros_like(values)])
