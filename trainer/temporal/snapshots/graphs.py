"""The snapshots of an event stream: what happened in each window as a sparse matrix, and the pairs to predict.

Nodes are numbered by their first event. So the nodes that have occurred by the end of snapshot t are the rows 0 ..
n_t - 1 of every matrix and state of it, and a node that has not occurred yet has no row. Events count in both
directions, those between the same two nodes add up to one edge, and one of a node with itself is no edge.

Step t reads snapshots 0 .. t and predicts the distinct pairs of snapshot t + 1. A window that the split cuts has pairs
of both sides, each by its own events.

Letters: M events, N nodes, T snapshots, n nodes that have occurred, E entries of a matrix (each edge twice), k pairs,
F features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor

from trainer.base.hash_rng import PAIRS, hash_62, key_of, pair_ids
from trainer.base.traffic_log import Clock
from trainer.data.csr import Csr, add, index_type, indptr_of
from trainer.sparse.adjacency import Matrix
from trainer.sparse.normalise import missing_loops
from trainer.temporal.epochs import Split

SPLITS: tuple[Split, ...] = ("train", "val", "test")
_TRAINING, _EVALUATION = range(8, 10)
"""In the place of layers in keys of random numbers, after those of trainer.data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """A stream of events in windows, as plain tensors."""

    source_M: Tensor
    """int64, in order of time"""
    destination_M: Tensor
    """int64"""
    offsets: Tensor
    """int64 [T + 1]: the first event of each window"""
    num_nodes: int
    first_val: int
    """The first event of the validation"""
    first_test: int
    x_NF: Tensor | None = None
    """float32, features of nodes"""

    @property
    def num_snapshots(self) -> int:
        """T"""
        return len(self.offsets) - 1


class SnapshotGraph:
    """The graph of one window, over the nodes that have occurred by its end."""

    def __init__(self, csr: Csr, device: torch.device) -> None:
        """Take the symmetric matrix of numbers of events [n, n]."""
        self._csr, self._device = csr, device

    @property
    def num_nodes(self) -> int:
        """n"""
        return self._csr.num_rows

    @property
    def num_entries(self) -> int:
        """E"""
        return self._csr.num_edges

    @cached_property
    def degree_n(self) -> Tensor:
        """The number of events of each node, float32."""
        return self._csr.row_sums(torch.float32).to(self._device)

    @cached_property
    def gcn(self) -> Matrix:
        """D'^-1/2 (A + I) D'^-1/2, with the degrees D' of A + I (Kipf and Welling 2017)."""
        loops, _ = missing_loops(self._csr)
        return _normalised(add(self._csr, loops), self._device)

    @cached_property
    def normalised(self) -> Matrix:
        """D^-1/2 A D^-1/2."""
        return _normalised(self._csr, self._device)

    @cached_property
    def pattern(self) -> Matrix:
        """A with 1 for every edge, whatever the number of its events."""
        return Matrix(self._csr.pattern(), self._device)


def _normalised(csr: Csr, device: torch.device) -> Matrix:
    """A symmetric matrix, divided by the square roots of the degrees of both ends."""
    degree_n = csr.row_sums(torch.float32)
    factor_n = torch.where(degree_n > 0, degree_n.rsqrt(), 0)
    assert csr.weights is not None
    weights = csr.weights * factor_n[csr.row_E] * factor_n[csr.indices]
    return Matrix(Csr(indptr=csr.indptr, indices=csr.indices, weights=weights, num_columns=csr.num_columns), device)


class _SymmetricProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows_nF: Tensor, matrix: Matrix, clock: Clock) -> Tensor:
        ctx.matrix, ctx.clock = matrix, clock
        with clock("sparse product"):
            return matrix @ rows_nF

    @staticmethod
    def backward(ctx: Any, grad_nF: Tensor) -> tuple[Tensor | None, ...]:
        with ctx.clock("sparse product"):
            return ctx.matrix @ grad_nF, None, None


def product(matrix: Matrix, rows_nF: Tensor, clock: Clock) -> Tensor:
    """A symmetric matrix times rows, with a gradient for the rows: [n, F]."""
    return cast(Tensor, _SymmetricProduct.apply(rows_nF, matrix, clock))  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Pairs that are events of one window, and negatives for each of them: the same source, another destination."""

    source_k: Tensor
    """int64, rows; n and above for nodes that have not occurred yet"""
    destination_k: Tensor
    negative_kK: Tensor
    """int64 [k, K], rows of destinations by hash"""

    def __len__(self) -> int:
        return len(self.source_k)

    def pieces(self, size: int) -> Iterator[Pairs]:
        """At most `size` of them at a time; at least one piece."""
        for begin in range(0, max(len(self), 1), size):
            these = slice(begin, begin + size)
            yield Pairs(
                source_k=self.source_k[these],
                destination_k=self.destination_k[these],
                negative_kK=self.negative_kK[these],
            )


@dataclass(slots=True, kw_only=True)
class Snapshots:
    """The windows of a stream: built when they are needed, and kept."""

    events: Events
    device: torch.device
    seed: int
    order_N: Tensor = field(init=False)
    """int64, the nodes in the order of their first event; those without any are last"""
    _place_N: Tensor = field(init=False)
    """int64, the row of each node"""
    _num_seen_T: list[int] = field(init=False)
    candidates_D: Tensor = field(init=False)
    """int64, the nodes that are a destination anywhere, ascending"""
    _graphs: dict[int, SnapshotGraph] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        events, num_events = self.events, len(self.events.source_M)
        first_N = torch.full((events.num_nodes,), num_events)
        for ends_M in (events.source_M, events.destination_M):
            first_N.scatter_reduce_(0, ends_M, torch.arange(num_events), "amin")
        first_N, self.order_N = first_N.sort(stable=True)
        self._place_N = torch.empty_like(self.order_N)
        self._place_N[self.order_N] = torch.arange(events.num_nodes)
        self._num_seen_T = torch.searchsorted(first_N, events.offsets[1:]).tolist()
        self.candidates_D = torch.unique(events.destination_M)

    def num_seen(self, number: int) -> int:
        """How many nodes have occurred by the end of a snapshot."""
        return self._num_seen_T[number]

    def num_events(self, number: int) -> int:
        """Of one window."""
        return int(self.events.offsets[number + 1] - self.events.offsets[number])

    def num_steps(self, split: Split) -> int:
        """How many steps from the first one predict a pair of this split or an earlier one."""
        return max(int((self.events.offsets[:-1] < self._limits(split)[1]).sum()) - 1, 0)

    def predicts(self, split: Split) -> bool:
        """Whether a step predicts a pair of this split: one that is not in the first window."""
        begin, end = self._limits(split)
        return max(begin, int(self.events.offsets[1])) < end

    def graph(self, number: int) -> SnapshotGraph:
        """The graph of one window."""
        if number not in self._graphs:
            begin, end = (int(one) for one in self.events.offsets[number : number + 2])
            first_m, second_m = (
                self._place_N[self.events.source_M[begin:end]],
                self._place_N[self.events.destination_M[begin:end]],
            )
            csr = _symmetric(first_m, second_m, self.num_seen(number))
            self._graphs[number] = SnapshotGraph(csr, self.device)
        return self._graphs[number]

    def pairs(self, number: int, split: Split, *, epoch: int, num_negatives: int) -> Pairs:
        """The distinct pairs of one window in one split, with negatives by hash.

        A negative has another destination: any node that is one anywhere in the stream, each with the same chance.

        Args:
            number: of the window.
            split: whose events count.
            epoch: that decides the negatives; an evaluation's is 0.
            num_negatives: K; the first ones do not depend on it.
        """
        begin, end = self._span(number, split)
        events = self.events
        keys_k = torch.unique(events.source_M[begin:end] * events.num_nodes + events.destination_M[begin:end])
        source_k, destination_k = keys_k // events.num_nodes, keys_k % events.num_nodes
        key = key_of(self.seed, epoch, _TRAINING if split == "train" else _EVALUATION, PAIRS)
        draw_K = (number << 20) + torch.arange(num_negatives)
        of_pair_kK = pair_ids(source_k, destination_k).unsqueeze(1).expand(-1, num_negatives)
        own_k1 = torch.searchsorted(self.candidates_D, destination_k).unsqueeze(1)
        place_kK = hash_62(of_pair_kK, draw_K.expand_as(of_pair_kK), key) % (len(self.candidates_D) - 1)
        drawn_kK = self.candidates_D[place_kK + (place_kK >= own_k1)]
        rows = (self._place_N[ids].to(self.device) for ids in (source_k, destination_k, drawn_kK))
        return Pairs(**dict(zip(("source_k", "destination_k", "negative_kK"), rows, strict=True)))

    def _span(self, number: int, split: Split) -> tuple[int, int]:
        lowest, highest = self._limits(split)
        begin, end = (int(one) for one in self.events.offsets[number : number + 2])
        begin = max(begin, lowest)
        return begin, max(begin, min(end, highest))

    def _limits(self, split: Split) -> tuple[int, int]:
        """The first event of a split and the one behind the last."""
        events, side = self.events, SPLITS.index(split)
        limits = (0, events.first_val, events.first_test, len(events.source_M))
        return limits[side], limits[side + 1]


def _symmetric(first_m: Tensor, second_m: Tensor, num_rows: int) -> Csr:
    """The numbers of events between each two rows, in both directions."""
    other = first_m != second_m
    keys, counts = torch.unique(
        torch.minimum(first_m, second_m)[other] * num_rows + torch.maximum(first_m, second_m)[other],
        return_counts=True,
    )
    low, high = keys // max(num_rows, 1), keys % max(num_rows, 1)
    row, column = torch.cat([low, high]), torch.cat([high, low])
    order = (row * num_rows + column).argsort()
    small = index_type(len(row), num_rows)
    return Csr(
        indptr=indptr_of(row.bincount(minlength=num_rows), small),
        indices=column[order].to(small),
        weights=torch.cat([counts, counts])[order].float(),
        num_columns=num_rows,
    )
