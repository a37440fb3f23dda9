"""In which order a rank goes through its snapshots, and which states come from and go to other ranks.

A sequence is `history` consecutive snapshots, or all of them, and begins with the first state. A chunk is what one rank
has of one piece of one sequence. States cross where a sequence crosses the border between two groups.

A rank computes its last sequence first, so that the next rank has its states early, and the one that it needs states
for last. The backward pass goes the other way. Where one sequence goes through all ranks, rank r begins with its first
piece when the rank before has ended that, and no rank waits for the others' whole groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One piece of the snapshots of one sequence in one group."""

    piece: int
    begin: int
    """The first snapshot"""
    end: int
    """The one behind the last; `begin` where the group is empty"""
    comes_in: bool
    """Whether the state before the first snapshot comes from the rank before"""
    goes_on: bool
    """Whether the state after the last snapshot goes to the next rank"""


def chunks_of(borders: Sequence[int], rank: int, *, history: int, num_pieces: int) -> list[Chunk]:
    """The chunks of a rank in the order of the forward pass.

    Args:
        borders: of the groups.
        rank: whose.
        history: snapshots of a sequence; 0 for all.
        num_pieces: of the state.
    """

    def crosses(border: int) -> bool:
        return 0 < border < borders[-1] and (not history or border % history != 0)

    begin, end = borders[rank], borders[rank + 1]
    if begin == end:
        sequences = [(begin, end)] if crosses(begin) else []
    else:
        inner = [number for number in range(begin + 1, end) if history and number % history == 0]
        sequences = list(pairwise([begin, *inner, end]))
    return [
        Chunk(
            piece=piece,
            begin=first,
            end=behind,
            comes_in=first == begin and crosses(begin),
            goes_on=behind == end and crosses(end),
        )
        for first, behind in reversed(sequences)
        for piece in range(num_pieces)
    ]


def backward_order(chunks: Sequence[Chunk]) -> list[int]:
    """The places of the chunks in the order of the backward pass: sequences ascending, pieces too."""
    return sorted(range(len(chunks)), key=lambda place: (chunks[place].begin, chunks[place].piece))
