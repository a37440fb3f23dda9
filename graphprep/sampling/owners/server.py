"""Answer the samplers of other parts: draw in-edges of this part's nodes, or say how many each of them has.

A request is a header and the numbers of nodes in the graph; the answer to a draw is where each drawn edge begins, in
the order of these nodes, and with weights the weight of each.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import Csr, EdgeType
from graphprep.sampling import neighbour_kernels as draws
from graphprep.sampling.owners.connection import admit, answer, receive

COUNTS, SOURCES, SOURCES_AND_WEIGHTS = range(3)
"""what is requested"""
_HEADER = struct.Struct("<BIQqq")
_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_TO_GREET = 30.0


def node_dtype(count: int) -> np.dtype[np.signedinteger]:
    """What numbers of nodes of a type of so many are sent as."""
    return np.dtype(np.int32 if count < 2**31 else np.int64)


def request_of(purpose: int, kind: int, key: int, fanout: int, ids_n: NDArray[np.int64], num_nodes: int) -> bytes:
    """The bytes of a request.

    Args:
        purpose: COUNTS, SOURCES, or SOURCES_AND_WEIGHTS.
        kind: the place of the edge type in key order.
        key: of the draws.
        fanout: neighbours a node, or -1 for all.
        ids_n: the nodes.
        num_nodes: of their type.
    """
    return _HEADER.pack(purpose, kind, key, fanout, len(ids_n)) + ids_n.astype(node_dtype(num_nodes)).tobytes()


class OwnerServer:
    """Serves the in-edges of one part's nodes. Letters: N nodes of a type in the graph, n in a request."""

    def __init__(self, edges: Mapping[EdgeType, Csr], counts: Sequence[bytes], key: bytes) -> None:
        """Hold what is served.

        Args:
            edges: by type, in key order; rows of other parts' nodes have none.
            counts: the answer to COUNTS for each edge type.
            key: of the run.
        """
        self._edges, self._counts, self._key = list(edges.values()), counts, key

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
        if purpose == COUNTS:
            counts: bytes = self._counts[kind]
            return counts
        matrix = self._edges[kind]
        dtype = node_dtype(matrix.num_rows)
        if not 0 <= count <= matrix.num_rows:
            return None
        ids_n = np.frombuffer(receive(connection, count * dtype.itemsize), dtype).astype(np.int64)
        if count and not (ids_n.min() >= 0 and ids_n.max() < matrix.num_rows):
            return None
        _, source_E, data_E = drawn_edges(matrix, ids_n, fanout, np.uint64(key), weighted=purpose != SOURCES)
        content: bytes = source_E.astype(node_dtype(matrix.num_sources)).tobytes()
        if data_E is not None:
            content += data_E.tobytes()
        return content


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
