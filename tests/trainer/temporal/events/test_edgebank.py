"""EdgeBank against a walk over the batches."""

from __future__ import annotations

import torch

from tests.trainer.temporal.events.streams import random_stream
from trainer.temporal.events.edgebank import EdgeBank
from trainer.temporal.events.evaluation import batches_of
from trainer.temporal.events.negatives import evaluation_key, negative_destinations


def test_scores_are_those_of_a_set_of_pairs() -> None:
    """Guards against pairs of the same batch, and against pairs in the other direction."""
    stream = random_stream(num_nodes=8)
    bank, pairs = EdgeBank(stream), set[tuple[int, int]]()
    for first, end in batches_of(0, stream.num_events, 7):
        event_b = torch.arange(first, end)
        own = stream.destination_M[event_b].unsqueeze(1)
        destination_bm = torch.cat([own, negative_destinations(stream, event_b, 3, evaluation_key(0))], 1)
        scores_bm = bank.scores(stream.source_M[event_b], destination_bm, first)
        for row, event in enumerate(range(first, end)):
            source = int(stream.source_M[event])
            assert scores_bm[row].tolist() == [float((source, node) in pairs) for node in destination_bm[row].tolist()]
        pairs |= set(zip(stream.source_M[event_b].tolist(), stream.destination_M[event_b].tolist(), strict=True))
