"""Pairs of nodes that are no edges, drawn by hash: the same on any number of ranks, without a byte sent.

Random pairs. Of T pairs each of the N nodes is the second node of T // N, and T % N nodes, which a hash of the epoch
chooses, of one more. So T is exact, the owner of the second node draws the first, over all nodes, and knows whether
that is an edge: it has all in-edges. Ranked pairs replace the first node of an edge.

A draw that is an edge, of any side of the split, or twice the same node is drawn again, at most `TRIES` times in all.
The last draw is kept then, and counted: that happens where a node has nearly all others as in-neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd

import torch
from torch import Tensor

from trainer.base.hash_rng import PAIRS, hash_62, key_of, pair_ids
from trainer.data.edge_split import Pairs, PartEdges

TRIES = 16
_COUNTS, _TRAINING, _VALIDATION, _TEST, _RANKED = range(2, 7)
"""In the place of layers in keys, after those of the split."""
LAYER_OF = {"train": _TRAINING, "val": _VALIDATION, "test": _TEST}


@dataclass(slots=True)
class Negatives:
    """The pairs that are no edges of one part."""

    edges: PartEdges
    seed: int
    num_kept: int = 0
    """Draws so far that are edges all the same."""

    def random(self, group: str, epoch: int, total: int) -> RandomPairs:
        """As many as `total` on all ranks, for a group of pairs; an evaluation's epoch is 0."""
        num_nodes, key = self.edges.num_nodes, key_of(self.seed, epoch, LAYER_OF[group], PAIRS)
        each, more = divmod(total, num_nodes)
        step, offset = _affine(num_nodes, key_of(self.seed, epoch, _COUNTS * 8 + LAYER_OF[group], PAIRS))
        count_n = each + ((self.edges.ids_n * step + offset) % num_nodes < more).long()
        return RandomPairs(negatives=self, key=key, end_n=count_n.cumsum(0))

    def ranked(self, pairs: Pairs, which: Tensor) -> Pairs:
        """Number `which` (int64 [k]) of the pairs that each pair is ranked among."""
        key = key_of(self.seed, 0, _RANKED, PAIRS)
        of_pair = pair_ids(pairs.source_k, self.edges.ids_n[pairs.row_k])

        def drawn(index: Tensor, time: int) -> Tensor:
            return self._source(of_pair[index], which[index] * TRIES + time, key)

        return self.without_edges(pairs.row_k, drawn)

    def _source(self, of_what: Tensor, number: Tensor, key: int) -> Tensor:
        return hash_62(pair_ids(of_what, number), pair_ids(number, of_what), key) % self.edges.num_nodes

    def without_edges(self, row_k: Tensor, draw: Callable[[Tensor, int], Tensor]) -> Pairs:
        """Pairs into the rows, by draws of their first nodes: `draw` has their places among `row_k`, and the try."""
        pairs = Pairs(source_k=draw(torch.arange(len(row_k)), 0), row_k=row_k)
        again = self._are_odd(pairs).nonzero().squeeze(1)
        for time in range(1, TRIES):
            if not len(again):
                break
            pairs.source_k[again] = draw(again, time)
            again = again[self._are_odd(pairs[again])]
        self.num_kept += len(again)
        return pairs

    def _are_odd(self, pairs: Pairs) -> Tensor:
        return self.edges.contain(pairs) | (pairs.source_k == self.edges.ids_n[pairs.row_k])


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomPairs:
    """Random pairs of one epoch, drawn when a stretch of them is asked for."""

    negatives: Negatives
    key: int
    end_n: Tensor
    """Where each row's pairs end."""

    def __len__(self) -> int:
        return int(self.end_n[-1]) if len(self.end_n) else 0

    def between(self, begin: int, end: int) -> Pairs:
        """The pairs `begin` .. `end` - 1."""
        place_k = torch.arange(begin, end)
        row_k = torch.searchsorted(self.end_n, place_k, right=True)
        number_k = place_k - (self.end_n[row_k] - self.end_n.diff(prepend=self.end_n.new_zeros(1))[row_k])
        id_k = self.negatives.edges.ids_n[row_k]

        def drawn(index: Tensor, time: int) -> Tensor:
            return self.negatives._source(id_k[index], number_k[index] * TRIES + time, self.key)

        return self.negatives.without_edges(row_k, drawn)


def _affine(num_nodes: int, key: int) -> tuple[int, int]:
    """Step and offset by which `number * step + offset` modulo `num_nodes` puts all nodes into another order."""
    step = key % num_nodes or 1
    while gcd(step, num_nodes) > 1:
        step += 1
    return step % num_nodes, (key // num_nodes) % num_nodes
