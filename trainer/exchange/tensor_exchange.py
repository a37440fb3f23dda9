"""All-to-all exchanges between rows and columns, for tensor-parallel layers.

Of P ranks, rank r owns some rows [., F], with all F values of each. A sum over in-neighbours treats every column alike,
so the ranks may share the columns out in place of the rows:

    to_columns    rank r sends q its own rows' columns of q, and gets all ranks' rows of its own F/P columns
    to_rows       rank r sends q the sums of q's rows, and gets all F columns of its own rows again

Columns are split as evenly as possible, the first F mod P ranks having one more; where F < P, some ranks have none and
sum nothing. What leaves a rank goes through the wire: the rows before the sum, and the sums after it. Its own part of
both does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.base.pass_context import PassContext
from trainer.base.traffic_log import Direction, TrafficLog
from trainer.dist.communicator import Communicator
from trainer.exchange.layer_exchanges import column_slices
from trainer.exchange.saturation import Saturation
from trainer.exchange.wire import AsStored, Wire


@dataclass(frozen=True, slots=True)
class PendingColumns:
    """Values that may still be on their way. Call `wait` once."""

    _values: Tensor
    _receive: Callable[[], None]

    def wait(self) -> Tensor:
        """All values, as soon as they are here."""
        self._receive()
        return self._values


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorExchange:
    """The exchanges of one run. Every rank calls it for the same layers in the same order."""

    wires: Mapping[Direction, Wire]
    """Of training passes; evaluations send rows as they are stored."""
    communicator: Communicator
    traffic_log: TrafficLog
    saturation: Saturation | None = None

    def to_columns(
        self, rows_nF: Tensor, row_counts: Sequence[int], layer: int, direction: Direction, context: PassContext
    ) -> PendingColumns:
        """All ranks' rows of this rank's columns.

        Args:
            rows_nF: this rank's rows.
            row_counts: how many rows each rank has.
            layer, direction: under which bytes are recorded.
            context: the pass.
        """
        columns, rank = column_slices(rows_nF.shape[1], self.communicator.world), self.communicator.rank
        width = columns[rank].stop - columns[rank].start
        all_NW = rows_nF.new_empty(sum(row_counts), width)
        by_rank = torch.split(all_NW, list(row_counts))
        by_rank[rank].copy_(rows_nF[:, columns[rank]])
        receive = self._all_to_all(
            {peer: rows_nF[:, columns[peer]] for peer in self.communicator.peers},
            {peer: by_rank[peer] for peer in self.communicator.peers},
            layer,
            direction,
            context,
            width=rows_nF.shape[1],
            begins=True,
        )
        return PendingColumns(all_NW, receive)

    def to_rows(
        self,
        all_NW: Tensor,
        row_counts: Sequence[int],
        layer: int,
        direction: Direction,
        context: PassContext,
        *,
        width: int,
    ) -> PendingColumns:
        """This rank's rows of all `width` columns, from all rows of this rank's own columns."""
        columns, rank = column_slices(width, self.communicator.world), self.communicator.rank
        rows_nF = all_NW.new_empty(row_counts[rank], width)
        by_rank = torch.split(all_NW, list(row_counts))
        rows_nF[:, columns[rank]] = by_rank[rank]
        receive = self._all_to_all(
            {peer: by_rank[peer] for peer in self.communicator.peers},
            {peer: rows_nF[:, columns[peer]] for peer in self.communicator.peers},
            layer,
            direction,
            context,
            width=width,
            begins=False,
        )
        return PendingColumns(rows_nF, receive)

    def _all_to_all(
        self,
        outgoing: Mapping[int, Tensor],
        incoming: Mapping[int, Tensor],
        layer: int,
        direction: Direction,
        context: PassContext,
        *,
        width: int,
        begins: bool,
    ) -> Callable[[], None]:
        """Start to send each peer a matrix; the call fills those that they send. Bytes count as of rows of `width`."""
        stored = next((rows.dtype for rows in outgoing.values()), torch.float32)
        wire = self.wires[direction] if context.training else AsStored(stored)
        if self.saturation is not None and wire.limit < math.inf:
            for rows in outgoing.values():
                self.saturation.note(layer, direction, rows, wire.limit)
        messages = {peer: wire.encode(rows) for peer, rows in outgoing.items() if rows.numel()}
        received = {
            peer: torch.empty(len(rows), wire.row_bytes(rows.shape[1]), dtype=torch.uint8, device=rows.device)
            for peer, rows in incoming.items()
            if rows.numel()
        }
        self.traffic_log.record(
            layer,
            direction,
            rows={peer: len(rows) for peer, rows in outgoing.items()},
            width=width,
            sent={peer: messages[peer].numel() if peer in messages else 0 for peer in outgoing},
            begins=begins,
        )
        pending = self.communicator.exchange(messages, received)

        def receive() -> None:
            pending.wait()
            self.traffic_log.record_seconds(layer, direction, pending.seconds)
            for peer, message in received.items():
                incoming[peer].copy_(wire.decode(message))

        return receive
