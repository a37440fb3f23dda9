"""What a rank needs of all ranks' batches with `--features-by columns`: their layer 1, and its columns of their nodes.

Every rank sends the others the layer 1 of its batch (the numbers of the nodes, and the edges with their weights), in
two steps that travel while other batches are trained on: how many there are, and which. That is 4 bytes a node and 8 an
edge (more of weights alone), few beside hidden rows. To draw the others' batches too would be no message, and P times
the sampling on each rank; and with `--sample-from owners` it would be messages, and more of them.

The methods are those of `FeatureRows`, which a pipeline calls for each batch in the same order.

Letters: P ranks, n nodes that layer 1 computes, H those that its hop has added, E edges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from trainer.dist.communicator import Communicator, PendingAllToAll
from trainer.minibatch.column_table import ColumnTable
from trainer.minibatch.idle_time import IdleTime

Arrays = Mapping[str, Tensor]
_ALIGNED = 8
"""bytes of which the length of a message is a multiple, so that each begins where its numbers may"""


@dataclass(slots=True, kw_only=True)
class PendingLayers:
    """Layer 1 of all ranks' batches, on its way."""

    plans: Sequence[Arrays]
    """this rank's batch; once all are here, those of all ranks, in rank order"""
    _exchange: PendingAllToAll | None
    _sizes_P4: list[list[int]] = field(default_factory=list)
    """n, n + H and the edges from own and from added nodes, of each rank"""


class ColumnBatches:
    """The columns of this rank, for the batches of all ranks. Only for graphs of one node type, and several ranks."""

    num_fetched = num_from_cache = 0
    """No rows of features are fetched."""

    def __init__(
        self,
        table: ColumnTable,
        data_type: torch.dtype,
        communicator: Communicator,
        idle: IdleTime,
        *,
        type_name: str,
        weighted: bool,
    ) -> None:
        """Keep the table.

        Args:
            table: this rank's columns.
            data_type: that rows are stored in.
            communicator: the ranks of the run.
            idle: measures the waiting for other ranks.
            type_name: of the nodes.
            weighted: whether edges have weights.
        """
        self.table, self._data_type, self._communicator = table, data_type, communicator
        self._idle, self._clock = idle, idle.clock
        self._ids_name, self._weighted = f"ids/{type_name}", weighted
        self._id_type = torch.int32 if len(table.rows_NW) < 2**31 else torch.int64

    def keep(self, numbers: Sequence[int]) -> None:
        """Nothing: no rows of other ranks come that could be kept."""

    def begin(self, plans: Sequence[Arrays]) -> PendingLayers:
        """Step 1: say how long this rank's layer 1 is.

        Args:
            plans: the arrays of the batch, alone.
        """
        [arrays] = plans
        (computed,), (nodes,) = arrays["counts"][-2:].tolist()
        edges = [len(arrays[f"layer/1/{side}_indices"]) for side in ("own", "halo")]
        world = self._communicator.world
        sizes_P4 = torch.tensor([computed, nodes, *edges]).repeat(world, 1)
        ones = [1] * world
        return PendingLayers(
            plans=plans,
            _exchange=self._communicator.all_to_all(sizes_P4, sent=ones, received=ones, purpose="who sends"),
        )

    def request(self, pending: PendingLayers) -> None:
        """Step 2: send this rank's layer 1 to all others."""
        assert pending._exchange is not None
        with self._idle:
            pending._sizes_P4 = pending._exchange.wait().tolist()
        [arrays] = pending.plans
        rank, message = self._communicator.rank, self._packed(arrays, pending._sizes_P4[self._communicator.rank])
        lengths = [self._length(sizes) for sizes in pending._sizes_P4]
        lengths[rank] = 0
        pending._exchange = self._communicator.all_to_all(
            message.repeat(len(lengths) - 1),
            sent=[0 if peer == rank else len(message) for peer in range(len(lengths))],
            received=lengths,
            purpose="who sends",
        )

    def send(self, pending: PendingLayers) -> None:
        """Step 3: read what the others have sent."""
        assert pending._exchange is not None
        with self._idle:
            content = pending._exchange.wait()
        pending._exchange = None
        plans: list[Arrays] = []
        [own], rank, begin = pending.plans, self._communicator.rank, 0
        for peer, sizes in enumerate(pending._sizes_P4):
            if peer == rank:
                ids = own[self._ids_name].to(self._id_type)
                plans.append({**own, "ids": ids, "sizes": torch.tensor(sizes)})
                continue
            plans.append(self._unpacked(content[begin : begin + self._length(sizes)], sizes))
            begin += self._length(sizes)
        pending.plans = plans

    def finish(self, pending: PendingLayers) -> list[Tensor]:
        """Step 4: this rank's columns of the nodes of all ranks' batches, one rank's below the other's."""
        with self._clock("copy"):
            ids = torch.cat([arrays["ids"] for arrays in pending.plans])
            return [self.table.rows_NW.index_select(0, ids).to(self._data_type)]

    def drop(self, pending: PendingLayers) -> None:
        """Wait for what is on its way of a batch that is not trained on."""
        if pending._exchange is not None:
            pending._exchange.wait()

    def _layout(self, sizes: Sequence[int]) -> list[tuple[str, int, torch.dtype]]:
        """Name, length and type of what a message has, in its order."""
        computed, nodes, *edges = sizes
        layout = [("ids", nodes, self._id_type)]
        for side, number in zip(("own", "halo"), edges, strict=True):
            layout.append((f"layer/1/{side}_indptr", computed + 1, torch.int32))
            layout.append((f"layer/1/{side}_indices", number, torch.int32))
            if self._weighted:
                layout.append((f"layer/1/{side}_weights", number, torch.float32))
        return layout

    def _length(self, sizes: Sequence[int]) -> int:
        size = sum(number * kind.itemsize for _, number, kind in self._layout(sizes))
        return -(-size // _ALIGNED) * _ALIGNED

    def _packed(self, arrays: Arrays, sizes: Sequence[int]) -> Tensor:
        message, begin = torch.zeros(self._length(sizes), dtype=torch.uint8), 0
        for name, number, kind in self._layout(sizes):
            end = begin + number * kind.itemsize
            message[begin:end].view(kind).copy_(arrays[self._ids_name if name == "ids" else name])
            begin = end
        return message

    def _unpacked(self, message: Tensor, sizes: Sequence[int]) -> Arrays:
        """The same names as in a batch, and `sizes`."""
        found, begin = {"sizes": torch.tensor(sizes)}, 0
        for name, number, kind in self._layout(sizes):
            end = begin + number * kind.itemsize
            found[name] = message[begin:end].view(kind)
            begin = end
        return found
