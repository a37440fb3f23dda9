"""EdgeBank (Poursafaei et al. 2022): a pair is predicted if it has had an event before. Nothing is learnt.

It is the baseline for link prediction in time, and a check of the protocol: its score depends on the split, the batches
and the negatives alone. A pair is in the bank from the first batch after its event, as node memory is.

Letters: M events, b events of a batch, n pairs of each of them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.temporal.events.stream import EventStream


class EdgeBank:
    """The first event of every pair of the stream."""

    def __init__(self, stream: EventStream) -> None:
        self._num_nodes = stream.num_nodes
        pair_M = stream.source_M * stream.num_nodes + stream.destination_M
        self._pairs_P, place_M = torch.unique(pair_M, return_inverse=True)
        first_P = torch.full_like(self._pairs_P, stream.num_events)
        self._first_P = first_P.scatter_reduce_(0, place_M, torch.arange(stream.num_events), "amin")

    def scores(self, source_b: Tensor, destinations_bn: Tensor, before: int) -> Tensor:
        """1 for each pair that has an event with a number below `before`, else 0: float32 [b, n]."""
        pair_bn = source_b.unsqueeze(1) * self._num_nodes + destinations_bn
        place_bn = torch.searchsorted(self._pairs_P, pair_bn).clamp(max=len(self._pairs_P) - 1)
        is_in_bn: Tensor = (self._pairs_P[place_bn] == pair_bn) & (self._first_P[place_bn] < before)
        return is_in_bn.float()
