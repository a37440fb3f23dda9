"""The predicted step: one layer's exchange, with what the ranks compute before, beside and after it.

    ready      = max over ranks of (nodes + packing)
    arrived    = ready + seconds of the slowest link direction
    step       = max over ranks of (max(arrived, nodes + packing + local product) + unpacking + halo product)

Every rank multiplies its nodes' rows by the layer's weights and copies the rows that others need into messages. Then
the links carry them while the ranks sum over edges from their own nodes. No rank has its halo before the slowest link
is done; what is received is copied in place, and the edges from it are summed. The backward pass is the same mirrored,
halo product first, sums of received rows last. An epoch of L layers has 2 L - 1 such steps.

A rank's seconds are counts times rates for a row of F values of 4 bytes:

    edge       its column, its value and the row that it fetches, at the bandwidth of gathers
    node       2 F F operations of a dense product, or the reading and writing of a row if that takes longer
    packing    a row gathered, and written in order
    unpacking  a row read and written in order

The rates are those of the GPU that the topology names (`graphprep.topology.gpu_specs`), or measured
(`graphprep doctor --rates`). Where neither is known they are those of `work.py`, 1 TB/s and 13 TFLOP/s, over the rank's
speed: with 1,024 bytes, 1 ns an edge, 10 ns a node and 2 ns a row packed or unpacked.

Everything is arrays [P]: a step takes microseconds, and candidates are ranked by it.

Letters: P ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphprep.core.choices import Balance
from graphprep.errors import UsageError
from graphprep.topology import Topology
from graphprep.topology.gpu_specs import Gpu, gpu_called
from graphprep.traffic.counts import Traffic

VALUE_BYTES = 4
EDGE_BYTES = 8
"""Of an edge's column and value, beside the row that it fetches."""
BYTES_PER_S, OPERATIONS_PER_S = 1e12, 13e12
"""Of a rank of speed 1 whose GPU is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSeconds:
    """What one device takes for rows of one width."""

    edge: float
    """Summing over one in-edge."""
    node: float
    """One node's row times the weights of a layer as wide as it."""
    packing: float
    """Copying one row into a message."""
    unpacking: float
    """Copying one row out of a message."""

    @classmethod
    def of_measured(cls, seconds: Sequence[float]) -> RowSeconds:
        """Of an edge, a node, a row packed and a row unpacked."""
        edge, node, packing, unpacking = seconds
        return cls(edge=edge, node=node, packing=packing, unpacking=unpacking)

    @classmethod
    def of_peaks(cls, row_bytes: int, *, gathered: float, streamed: float, operations: float) -> RowSeconds:
        """By bytes a second of rows in the order of edges and in order, and operations a second."""
        width = row_bytes / VALUE_BYTES
        return cls(
            edge=(row_bytes + EDGE_BYTES) / gathered,
            node=max(2 * width * width / operations, 2 * row_bytes / streamed),
            packing=row_bytes / gathered + row_bytes / streamed,
            unpacking=2 * row_bytes / streamed,
        )

    @classmethod
    def of_gpu(cls, gpu: Gpu | None, row_bytes: int) -> RowSeconds:
        """By the published figures of a GPU; None for a rank of speed 1 whose GPU is not known."""
        if gpu is None:
            return cls.of_peaks(row_bytes, gathered=BYTES_PER_S, streamed=BYTES_PER_S, operations=OPERATIONS_PER_S)
        return cls.of_peaks(
            row_bytes,
            gathered=gpu.gathered_bytes_per_s,
            streamed=gpu.streamed_bytes_per_s,
            operations=gpu.operations_per_s,
        )


def known_gpu(name: str | None) -> Gpu | None:
    """The GPU that a topology names; None if it names none, or one whose figures are not known."""
    try:
        return None if name is None else gpu_called(name, where="the topology")
    except UsageError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepModel:
    """What each rank takes for one row, as arrays float64 [P]. Reuse it for many assignments to the same topology."""

    edge_P: NDArray[np.float64]
    node_P: NDArray[np.float64]
    packing_P: NDArray[np.float64]
    unpacking_P: NDArray[np.float64]

    @classmethod
    def of(cls, topology: Topology, row_bytes: int, measured: RowSeconds | None = None) -> StepModel:
        """Of a topology; among ranks of one GPU, `speed` says how fast each is to the fastest of them.

        Args:
            topology: the ranks with their GPUs and speeds.
            row_bytes: bytes of one row in one exchange.
            measured: on the fastest rank, if rates are at hand; they hold for all.
        """
        known = {name: known_gpu(name) for name in {rank.gpu for rank in topology.ranks}}
        gpus = [None if measured else known[rank.gpu] for rank in topology.ranks]
        speed_P = np.array([rank.speed for rank in topology.ranks], np.float64)
        fastest: dict[Gpu | None, float] = {}
        for gpu, speed in zip(gpus, speed_P.tolist(), strict=True):
            fastest[gpu] = max(speed, fastest.get(gpu, 0.0)) if gpu or measured else 1.0
        seconds = {gpu: measured or RowSeconds.of_gpu(gpu, row_bytes) for gpu in fastest}

        def by_rank(kind: str) -> NDArray[np.float64]:
            of_fastest_P = np.array([getattr(seconds[gpu], kind) * fastest[gpu] for gpu in gpus], np.float64)
            return np.asarray(of_fastest_P / speed_P)

        return cls(
            edge_P=by_rank("edge"),
            node_P=by_rank("node"),
            packing_P=by_rank("packing"),
            unpacking_P=by_rank("unpacking"),
        )

    def step(
        self,
        traffic: Traffic,
        nodes_P: NDArray[np.int64],
        link_seconds: float,
        *,
        balance: Balance = "rows",
    ) -> Step:
        """The step of an assignment.

        Args:
            traffic: what part p sends to part q; part p is on rank p.
            nodes_P: int64 [P].
            link_seconds: of the slowest link direction in the exchange.
            balance: what is packed and sent, `rows` or `edges`.
        """
        units_PP = traffic.rows_PP if balance == "rows" else traffic.edges_PP
        return Step(
            node_P=self.node_P * nodes_P,
            packing_P=self.packing_P * units_PP.sum(axis=1),
            local_P=self.edge_P * traffic.local_edges_P,
            unpacking_P=self.unpacking_P * units_PP.sum(axis=0),
            halo_P=self.edge_P * traffic.edges_PP.sum(axis=0),
            link_seconds=link_seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """The seconds that make up a step; arrays are float64 [P]."""

    node_P: NDArray[np.float64]
    """Dense products of own rows."""
    packing_P: NDArray[np.float64]
    local_P: NDArray[np.float64]
    """Sums over edges from own nodes, while the links are busy."""
    unpacking_P: NDArray[np.float64]
    halo_P: NDArray[np.float64]
    """Sums over edges from the halo."""
    link_seconds: float
    """Of the slowest link direction."""

    @property
    def seconds(self) -> float:
        """Of the whole step, on the rank that ends last."""
        return self._seconds(self.link_seconds)

    @property
    def seconds_without_links(self) -> float:
        """The same if links took no time: what the ranks compute and copy."""
        return self._seconds(0.0)

    def _seconds(self, link_seconds: float) -> float:
        before_P = self.node_P + self.packing_P
        arrived = before_P.max(initial=0.0) + link_seconds
        ends_P = np.maximum(arrived, before_P + self.local_P) + self.unpacking_P + self.halo_P
        return float(ends_P.max(initial=0.0))
