"""An estimate of the memory that each rank needs for the training on its snapshots.

Of each snapshot of its group a rank keeps the matrices, and what the backward pass needs of each of its rows. All ranks
have all weights, also the learnt rows of all nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from trainer.config.options import Options
from trainer.temporal.snapshots.graphs import Snapshots
from trainer.temporal.snapshots.network import SnapshotNetwork

_BYTES_OF_AN_ENTRY = 24
"""Of a matrix: a column and a weight, and what sorting them takes."""
_VALUES_OF_A_SCORE = 8
"""Numbers for each column of the rows: both rows, both side by side, what the decoder makes of them, and gradients."""
_COPIES_OF_WEIGHTS = 10
"""Weights, their decay, two vectors of the optimiser, gradients four times, and the best weights with a copy."""
_BUFFERS_OF_A_HALO = 4
"""At the same time: what is received, what is sent, and both below the rows of a rank."""


def rank_bytes(network: SnapshotNetwork, snapshots: Snapshots, options: Options, borders: Sequence[int]) -> list[int]:
    """Bytes of each rank of each group, the ranks of a group one after the other.

    Args:
        network: with its recurrences.
        snapshots: with the number of ranks that share a group, and the nodes of each.
        options: of the run.
        borders: of the groups.
    """
    events = snapshots.events
    matrices = {name for recurrence in network.chain for name in recurrence.matrices}
    weights = sum(parameter.numel() for parameter in network.parameters())
    width = max(recurrence.width for recurrence in network.chain)
    rows_TS = snapshots.rows_by_member()
    sources_TS, destinations_TS = (
        snapshots.ends_by_member(ends_M) for ends_M in (events.source_M, events.destination_M)
    )
    needed = []
    for begin, end in pairwise(borders):
        steps = range(begin, end)
        for member in range(snapshots.num_members):
            rows = [rows_TS[step][member] for step in steps]
            ends = [sources_TS[step][member] + destinations_TS[step][member] for step in steps]
            values = sum(recurrence.kept_values(number) for number in rows for recurrence in network.chain)
            scored = max((sources_TS[step + 1][member] for step in steps), default=0) * (1 + options.negatives)
            values += _VALUES_OF_A_SCORE * options.hidden * scored + _COPIES_OF_WEIGHTS * weights
            if snapshots.num_members > 1:  # at most a row for each end of an event
                halo = (
                    min(of_ends, snapshots.num_seen(step) - own)
                    for step, own, of_ends in zip(steps, rows, ends, strict=True)
                )
                values += _BUFFERS_OF_A_HALO * width * max(halo, default=0)
            needed.append(4 * values + (sum(ends) + sum(rows)) * len(matrices) * _BYTES_OF_AN_ENTRY)
    return needed
