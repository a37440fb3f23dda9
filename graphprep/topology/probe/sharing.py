"""Which ranks share a link to the others, from pairs that slow each other down.

Take four ranks of a network of switches and two pairs of them, a-c and b-d. If a link separates {a, b} from {c, d},
both pairs cross it, and together they get no more through than it carries. So a shared link is a split of the ranks in
two, and a good split explains what was measured: every trial whose two pairs cross it gets min(sum alone, what the link
carries). A trial with one pair on each side, a-b and c-d, shares no link in any tree; if those suffer as much, it is
not the split, but something that all share, such as a processor. Splits are chosen one after the other, each the one
that explains most of what the earlier ones leave unexplained, and none that could not be a link of the same tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from graphprep.topology.probe.trial import SHARED, Trial

ALL_SPLITS_UP_TO = 12
"""Ranks. With more, only runs of neighbouring ranks are tried: PCI buses and hosts number neighbours alike."""
FEWEST_TRIALS = 2
LEAST_GAIN = 0.012
"""Mean of squared log ratios that a split must explain: about that of a pair that keeps `SHARED`, less noise."""
LEAST_DIFFERENCE = 0.1
"""In log ratios: how much more the trials must suffer that cross a split than those with a pair on each side."""

Split = int
"""A set of ranks as a bit mask; it and its complement are the same split."""


def shared_splits(trials: Sequence[Trial], known: Iterable[Split], num_ranks: int) -> list[Split]:
    """The splits, beside `known`, at which a link is shared; the most telling first.

    Args:
        trials: of two pairs of four ranks each.
        known: splits that are there anyway (hosts).
        num_ranks: P.
    """
    if not trials:
        return []
    evidence = _Evidence(trials)
    accepted = list(known)
    for split in accepted:
        evidence.explain(split)
    candidates = [split for split in _candidates(num_ranks) if split not in accepted]
    found: list[Split] = []
    while True:
        possible = [split for split in candidates if all(_one_tree(split, other, num_ranks) for other in accepted)]
        gains = [
            (evidence.gain(split), -min(split.bit_count(), num_ranks - split.bit_count()), -split) for split in possible
        ]
        best = max(gains, default=(0.0, 0, 0))
        if best[0] <= 0:
            return found
        split = -best[2]
        evidence.explain(split)
        accepted.append(split)
        found.append(split)
        candidates.remove(split)


class _Evidence:
    """All trials as arrays [T], and what the splits so far predict of them."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self.ends_T4 = np.array([[*trial.pairs[0], *trial.pairs[1]] for trial in trials], np.int64)
        self.alone_T = np.array([trial.total_alone for trial in trials])
        self.total_T = np.array([trial.total for trial in trials])
        self.seen_T = np.minimum(0.0, np.log(self.total_T / self.alone_T))
        self.predicted_T = np.zeros(len(trials))

    def gain(self, split: Split) -> float:
        """How much better the trials are explained with `split`; 0 if it is no shared link."""
        crossing_T, apart_T = self._crossing(split), self._apart(split)
        if not crossing_T.any():
            return 0.0
        with_T = self._with(crossing_T)
        telling_T = with_T < self.predicted_T + np.log(SHARED)
        left_T = self.seen_T - self.predicted_T
        if telling_T.sum() < FEWEST_TRIALS or (middle := float(np.median(left_T[telling_T]))) > np.log(SHARED):
            return 0.0
        if apart_T.any() and middle > np.median(left_T[apart_T]) - LEAST_DIFFERENCE:
            return 0.0
        gain = float((left_T**2 - (self.seen_T - with_T) ** 2).sum())
        return gain if gain >= LEAST_GAIN * telling_T.sum() else 0.0

    def explain(self, split: Split) -> None:
        """Take `split` for a link that carries what the trials across it got."""
        crossing_T = self._crossing(split)
        if crossing_T.any():
            self.predicted_T = self._with(crossing_T)

    def _with(self, crossing_T: NDArray[np.bool_]) -> NDArray[np.float64]:
        """float64 [T]: what is predicted with one link more, that all trials of `crossing_T` cross."""
        # The link is full in most trials that cross it; a quantile keeps those out in which another one was fuller.
        carries = np.quantile(self.total_T[crossing_T], 0.8)
        limit_T = np.minimum(0.0, np.log(carries / self.alone_T))
        return np.where(crossing_T, np.minimum(self.predicted_T, limit_T), self.predicted_T)

    def _crossing(self, split: Split) -> NDArray[np.bool_]:
        """bool [T]: do both pairs cross the split?"""
        inside_T4 = self._inside(split)
        crossing: NDArray[np.bool_] = (inside_T4[:, 0] != inside_T4[:, 1]) & (inside_T4[:, 2] != inside_T4[:, 3])
        return crossing

    def _apart(self, split: Split) -> NDArray[np.bool_]:
        """bool [T]: does neither pair cross it, and do they lie on different sides?"""
        inside_T4 = self._inside(split)
        whole = (inside_T4[:, 0] == inside_T4[:, 1]) & (inside_T4[:, 2] == inside_T4[:, 3])
        apart: NDArray[np.bool_] = whole & (inside_T4[:, 0] != inside_T4[:, 2])
        return apart

    def _inside(self, split: Split) -> NDArray[np.bool_]:
        size = int(self.ends_T4.max()) + 1
        return np.array([split >> rank & 1 for rank in range(size)], bool)[self.ends_T4]


def _candidates(num_ranks: int) -> Iterator[Split]:
    """Splits with at least two ranks on each side, each by the side without rank 0."""
    if num_ranks <= ALL_SPLITS_UP_TO:
        for size in range(2, num_ranks - 1):
            for ranks in combinations(range(1, num_ranks), size):
                yield sum(1 << rank for rank in ranks)
    else:
        for first in range(1, num_ranks):
            for last in range(first + 1, num_ranks):
                if last - first + 1 <= num_ranks - 2:
                    yield (1 << last + 1) - (1 << first)


def _one_tree(a: Split, b: Split, num_ranks: int) -> bool:
    """Whether both can be links of one tree: one side of one lies within a side of the other."""
    everyone = (1 << num_ranks) - 1
    return not (a & b and a & ~b and ~a & b & everyone and ~(a | b) & everyone)
