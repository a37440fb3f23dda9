"""Answer the samplers of other parts: draw in-edges of this part's nodes, or say something of all of them.

A request is a header and what it is about:

    COUNTS                       of each node of the part how many in-edges it has, their weights, and if one is a loop
    SOURCES                      numbers of nodes: where each edge that is drawn for them begins, in their order
    SOURCES_AND_WEIGHTS          likewise, and after that the weight of each edge
    MISSES                       for each node of the part, the probability not to be met so far: the factor by which
                                 drawing multiplies that of each node that edges begin at (`graphprep.traffic.visits`)
    OUT_DEGREES                  how many edges into the part begin at each node
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import Csr, EdgeType
from graphprep.sampling.owners.connection import admit, answer, receive
from graphprep.sampling.samplers import neighbour_kernels as draws
from graphprep.traffic.visits import multiply_misses

COUNTS, SOURCES, SOURCES_AND_WEIGHTS, MISSES, OUT_DEGREES = range(5)
"""what is requested"""
_HEADER = struct.Struct("<BIQqq")
_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_TO_GREET = 30.0


def node_dtype(count: int) -> np.dtype[np.signedinteger]:
    """What numbers of nodes of a type of so many are sent as."""
    return np.dtype(np.int32 if count < 2**31 else np.int64)


def request_of(purpose: int, kind: int, *, key: int = 0, fanout: int = 0, about: NDArray[Any] | None = None) -> bytes:
    """The bytes of a request.

    Args:
        purpose: COUNTS or another of these.
        kind: the place of the edge type in key order.
        key: of the draws.
        fanout: neighbours a node, or -1 for all.
        about: nodes, as `node_dtype` says, or probabilities, float64; None for nothing.
    """
    content = b"" if about is None else about.tobytes()
    return _HEADER.pack(purpose, kind, key, fanout, 0 if about is None else len(about)) + content


class OwnerServer:
    """Serves the in-edges of one part's nodes. Letters: N nodes of a type in the graph, n in a request."""

    def __init__(
        self,
        edges: Mapping[EdgeType, Csr],
        ids: Sequence[NDArray[np.integer[Any]]],
        counts: Sequence[bytes],
        key: bytes,
    ) -> None:
        """Hold what is served.

        Args:
            edges: by type, in key order; rows of other parts' nodes have none.
            ids: the part's nodes that edges of each type lead to.
            counts: the answer to COUNTS for each edge type.
            key: of the run.
        """
        self._edges, self._ids, self._counts, self._key = list(edges.values()), ids, counts, key

    def serve(self, listener: socket.socket, is_needed: Callable[[], bool]) -> None:
        """Accept connections, each for a thread, as long as they are needed."""
        listener.settimeout(_SECONDS_BETWEEN_LOOKS)
        with listener:
            while is_needed():
                with contextlib.suppress(TimeoutError):
                    connection, _ = listener.accept()
                    threading.Thread(target=self._answer_all, args=(connection,), daemon=True).start()

    def _answer_all(self, connection: socket.socket) -> None:
        """Until the other end is closed, or sends what no sampler does."""
        with connection, contextlib.suppress(OSError, EOFError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(_SECONDS_TO_GREET)
            if not admit(connection, self._key):
                return
            connection.settimeout(None)  # a sampler may be far ahead, and ask for nothing for long
            while (content := self._answer(connection)) is not None:
                answer(connection, content)

    def _answer(self, connection: socket.socket) -> bytes | None:
        """The answer to the next request; None if it is none."""
        purpose, kind, key, fanout, count = _HEADER.unpack(receive(connection, _HEADER.size))
        if kind >= len(self._edges):
            return None
        matrix = self._edges[kind]
        dtype = np.dtype(np.float64) if purpose == MISSES else node_dtype(matrix.num_rows)
        if not 0 <= count <= matrix.num_rows:
            return None
        about = np.frombuffer(receive(connection, count * dtype.itemsize), dtype)
        content: bytes | None
        if purpose == COUNTS:
            content = self._counts[kind]
        elif purpose == MISSES:
            content = self._misses(kind, fanout, about)
        elif purpose == OUT_DEGREES:
            content = np.bincount(matrix.indices, minlength=matrix.num_sources).tobytes()
        else:
            weighted = purpose == SOURCES_AND_WEIGHTS
            content = self._draw(matrix, about.astype(np.int64), fanout, np.uint64(key), weighted=weighted)
        return content

    def _draw(
        self, matrix: Csr, ids_n: NDArray[np.int64], fanout: int, key: np.uint64, *, weighted: bool
    ) -> bytes | None:
        if len(ids_n) and not (ids_n.min() >= 0 and ids_n.max() < matrix.num_rows):
            return None
        _, source_E, data_E = drawn_edges(matrix, ids_n, fanout, key, weighted=weighted)
        content: bytes = source_E.astype(node_dtype(matrix.num_sources)).tobytes()
        if data_E is not None:
            content += data_E.tobytes()
        return content

    def _misses(self, kind: int, fanout: int, missed_k: NDArray[np.float64]) -> bytes | None:
        matrix, ids_k = self._edges[kind], self._ids[kind]
        if len(ids_k) != len(missed_k):
            return None
        missed_N, factor_N = np.ones(matrix.num_rows), np.ones(matrix.num_sources)
        missed_N[ids_k] = missed_k
        multiply_misses(matrix, fanout, missed_N, factor_N)
        return factor_N.tobytes()


def drawn_edges(
    matrix: Csr, ids_n: NDArray[np.int64], fanout: int, key: np.uint64, *, weighted: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32] | None]:
    """Draw edges of some nodes: where those of each begin, the nodes that they come from, and with weights these."""
    offsets_n = draws.count_uniform(matrix.indptr, ids_n, fanout, False)
    number_E = np.empty(offsets_n[-1], np.int64)
    draws.draw_uniform(matrix.indptr, ids_n, offsets_n, False, key, number_E)
    data_E = None
    if weighted:
        data_E = np.ones(len(number_E), np.float32) if matrix.data is None else matrix.data[number_E]
    return offsets_n, draws.sources_of(matrix.indices, number_E), data_E
