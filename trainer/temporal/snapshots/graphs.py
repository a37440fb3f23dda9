"""The snapshots of an event stream: what happened in each window as a sparse matrix, and the pairs to predict.

Nodes are numbered by their first event. So the nodes that have occurred by the end of snapshot t are the rows 0 ..
n_t - 1 of every matrix and state of it, and a node that has not occurred yet has no row. Events count in both
directions, those between the same two nodes add up to one edge, and one of a node with itself is no edge.

Step t reads snapshots 0 .. t and predicts the distinct pairs of snapshot t + 1. A window that the split cuts has pairs
of both sides, each by its own events.

Where several ranks share a group (trainer/temporal/snapshots/members.py), the rows of a rank are those of its own nodes
in the same order, and the columns of a matrix are its rows and then its halo: the neighbours that other members own.
As matrices are symmetric, a row is sent to a member exactly if it has an entry in a column of that member. A pair
belongs to the owner of its source.

Letters: M events, N nodes, T snapshots, S members, n rows of nodes that have occurred, h rows of the halo, E entries of
a matrix (each edge twice), k pairs, F features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor

from trainer.base.hash_rng import PAIRS, hash_62, key_of, pair_ids
from trainer.base.traffic_log import Clock
from trainer.data.csr import Csr, add, index_type, indptr_of
from trainer.sparse.adjacency import Matrix
from trainer.sparse.normalise import missing_loops
from trainer.temporal.epochs import Split
from trainer.temporal.snapshots.members import Members, RowExchange, completed

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
    y_M: Tensor | None = None
    """int64, the state in which each event leaves its source, -1 for unknown; None without states"""

    @property
    def num_snapshots(self) -> int:
        """T"""
        return len(self.offsets) - 1


class SymmetricMatrix(Matrix):
    """The rows that a rank has of a symmetric matrix: [n, n + h]."""

    def __init__(self, csr: Csr, device: torch.device, halo: RowExchange | None) -> None:
        super().__init__(csr, device)
        self._halo = halo

    def columns(self, rows_nF: Tensor) -> Tensor:
        """Rows for all columns, those of the halo from their owners: [n + h, F]. It records no gradient."""
        return rows_nF if self._halo is None else torch.cat([rows_nF, self._halo.fetch(rows_nF)])


class SnapshotGraph:
    """The graph of one window, over the nodes that have occurred by its end."""

    def __init__(
        self, csr: Csr, device: torch.device, *, degree_c: Tensor | None = None, halo: RowExchange | None = None
    ) -> None:
        """Take the symmetric matrix of numbers of events, or a rank's rows of it.

        Args:
            csr: [n, n + h], without entries of a node with itself.
            device: where products are computed.
            degree_c: float32 [n + h], the events of the node of each column; None for the sums of the rows.
            halo: where the rows of columns from n on come from; None where there are none.
        """
        self._csr, self._device, self._halo = csr, device, halo
        self._degree_c = csr.row_sums(torch.float32) if degree_c is None else degree_c

    @property
    def num_nodes(self) -> int:
        """n"""
        return self._csr.num_rows

    @property
    def members(self) -> Members | None:
        """The ranks that share the graph; None where this rank has all of it."""
        return None if self._halo is None else self._halo.members

    @cached_property
    def degree_n(self) -> Tensor:
        """The number of events of each node, float32."""
        return self._degree_c[: self.num_nodes].to(self._device)

    @cached_property
    def gcn(self) -> SymmetricMatrix:
        """D'^-1/2 (A + I) D'^-1/2, with the degrees D' of A + I (Kipf and Welling 2017)."""
        loops, _ = missing_loops(self._csr)
        return self._normalised(add(self._csr, loops), self._degree_c + 1)

    @cached_property
    def normalised(self) -> SymmetricMatrix:
        """D^-1/2 A D^-1/2."""
        return self._normalised(self._csr, self._degree_c)

    @cached_property
    def pattern(self) -> SymmetricMatrix:
        """A with 1 for every edge, whatever the number of its events."""
        return SymmetricMatrix(self._csr.pattern(), self._device, self._halo)

    def _normalised(self, csr: Csr, degree_c: Tensor) -> SymmetricMatrix:
        """A symmetric matrix, divided by the square roots of the degrees of both ends."""
        factor_c = torch.where(degree_c > 0, degree_c.rsqrt(), 0)
        assert csr.weights is not None
        weights = csr.weights * factor_c[csr.row_E] * factor_c[csr.indices]
        divided = Csr(indptr=csr.indptr, indices=csr.indices, weights=weights, num_columns=csr.num_columns)
        return SymmetricMatrix(divided, self._device, self._halo)


class _SymmetricProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows_nF: Tensor, matrix: SymmetricMatrix, clock: Clock) -> Tensor:
        ctx.matrix, ctx.clock = matrix, clock
        columns_cF = matrix.columns(rows_nF)
        with clock("sparse product"):
            return matrix @ columns_cF

    @staticmethod
    def backward(ctx: Any, grad_nF: Tensor) -> tuple[Tensor | None, ...]:
        columns_cF = ctx.matrix.columns(grad_nF)  # the transpose of a symmetric matrix is divided alike
        with ctx.clock("sparse product"):
            return ctx.matrix @ columns_cF, None, None


def product(matrix: SymmetricMatrix, rows_nF: Tensor, clock: Clock) -> Tensor:
    """A symmetric matrix times rows, with a gradient for the rows: [n, F]."""
    return cast(Tensor, _SymmetricProduct.apply(rows_nF, matrix, clock))  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Pairs that are events of one window, and negatives for each of them: the same source, another destination."""

    source_k: Tensor
    """int64, rows of the table; what is beyond it is a node that has not occurred yet"""
    destination_k: Tensor
    negative_kK: Tensor
    """int64 [k, K], rows of destinations by hash"""
    exchange: RowExchange | None = None
    """Of the rows that other members own"""

    def table(self, rows_nG: Tensor) -> Tensor:
        """The rows that the pairs are of: this rank's, and below them those of other members."""
        return completed(rows_nG, self.exchange)

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
    members: Members | None = None
    """The ranks that share a group; None for one rank a group"""
    order_N: Tensor = field(init=False)
    """int64, the nodes in the order of their first event; those without any are last"""
    _place_N: Tensor = field(init=False)
    """int64, the row of each node"""
    _num_seen_T: list[int] = field(init=False)
    _owner_N: Tensor = field(init=False)
    """int64, the member that has each row; 0 without members"""
    _own_rows: Tensor = field(init=False)
    """int64, ascending, of all rows those of this rank"""
    _num_rows_T: list[int] = field(init=False)
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
        members = self.members
        self._owner_N = torch.zeros_like(self.order_N) if members is None else members.owner_N[self.order_N]
        self._own_rows = (self._owner_N == (0 if members is None else members.own)).nonzero().squeeze(1)
        self._num_rows_T = torch.searchsorted(self._own_rows, torch.tensor(self._num_seen_T)).tolist()

    @property
    def num_members(self) -> int:
        """S, the ranks that share a group."""
        return 1 if self.members is None else self.members.number

    @property
    def num_own_nodes(self) -> int:
        """Those of this rank, also those without any event."""
        return len(self._own_rows)

    @property
    def own_nodes(self) -> Tensor:
        """int64, the nodes of this rank in the order of their first event."""
        return self.order_N[self._own_rows]

    def own_rows(self, num_rows: int) -> Tensor | slice:
        """Where the first rows of this rank are among all rows."""
        return slice(num_rows) if self.members is None else self._own_rows[:num_rows].to(self.device)

    def num_rows(self, number: int) -> int:
        """n: how many nodes of this rank have occurred by the end of a snapshot."""
        return self._num_rows_T[number]

    def rows_by_member(self) -> list[list[int]]:
        """n of each member after each snapshot: T lists of S."""
        seen_T = torch.tensor(self._num_seen_T)
        by_member = [
            torch.searchsorted((self._owner_N == member).nonzero().squeeze(1), seen_T)
            for member in range(self.num_members)
        ]
        rows: list[list[int]] = torch.stack(by_member, dim=1).tolist()
        return rows

    def ends_by_member(self, ends_M: Tensor) -> list[list[int]]:
        """Of one end of all events, how many are nodes of each member in each snapshot: T lists of S."""
        return [
            torch.bincount(self._owner_N[self._place_N[ends_M[begin:end]]], minlength=self.num_members).tolist()
            for begin, end in pairwise(self.events.offsets.tolist())
        ]

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
            num_rows = self.num_seen(number)
            self._graphs[number] = (
                SnapshotGraph(_symmetric(first_m, second_m, num_rows), self.device)
                if self.members is None
                else self._own_part(first_m, second_m, num_rows, self.members)
            )
        return self._graphs[number]

    def _own_part(self, first_m: Tensor, second_m: Tensor, num_all: int, members: Members) -> SnapshotGraph:
        """This rank's rows of a graph, with columns for them and for their neighbours."""
        owner_n = self._owner_N[:num_all]
        is_own_n = owner_n == members.own
        other_m = first_m != second_m
        degree_n = torch.cat([first_m[other_m], second_m[other_m]]).bincount(minlength=num_all).float()
        touches_m = is_own_n[first_m] | is_own_n[second_m]
        csr = _symmetric(first_m[touches_m], second_m[touches_m], num_all)
        own_n = is_own_n.nonzero().squeeze(1)
        is_own_E = is_own_n[csr.row_E]
        row_E, column_E = csr.row_E[is_own_E].long(), csr.indices[is_own_E].long()
        needed = {peer: torch.unique(column_E[owner_n[column_E] == peer]) for peer in members.peers}
        sent = {peer: torch.unique(row_E[owner_n[column_E] == peer]) for peer in members.peers}
        columns = torch.cat([own_n, *needed.values()])
        place_n = _places(columns, num_all)
        assert csr.weights is not None
        part = Csr(
            indptr=indptr_of(csr.indptr.diff()[own_n], csr.indptr.dtype),
            indices=place_n[column_E].to(csr.indices.dtype),
            weights=csr.weights[is_own_E],
            num_columns=len(columns),
        )
        halo = self._exchange(members, place_n, sent, needed)
        return SnapshotGraph(part, self.device, degree_c=degree_n[columns], halo=halo)

    def _exchange(
        self, members: Members, place_n: Tensor, sent: dict[int, Tensor], needed: dict[int, Tensor]
    ) -> RowExchange:
        return RowExchange(
            members=members,
            send={peer: place_n[rows].to(self.device) for peer, rows in sent.items()},
            counts={peer: len(rows) for peer, rows in needed.items()},
        )

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
        source_k, destination_k, negative_kK = (self._place_N[ids] for ids in (source_k, destination_k, drawn_kK))
        if self.members is not None:
            return self._own_pairs(self.members, number, source_k, destination_k, negative_kK)
        return Pairs(
            source_k=source_k.to(self.device),
            destination_k=destination_k.to(self.device),
            negative_kK=negative_kK.to(self.device),
        )

    def _own_pairs(
        self, members: Members, number: int, source_k: Tensor, destination_k: Tensor, negative_kK: Tensor
    ) -> Pairs:
        """The pairs whose source this rank has, in rows of its table, and the exchange that completes the table.

        Every member knows all pairs, and so which rows of its own the others need.
        """
        num_seen, own = self.num_seen(number - 1), members.own
        others_kK = torch.cat([destination_k.unsqueeze(1), negative_kK], dim=1)
        owner_k, owner_kK = self._owner_N[source_k], self._owner_N[others_kK]
        has_occurred_kK = others_kK < num_seen

        def needed(by: int, of: int) -> Tensor:
            rows: Tensor = torch.unique(others_kK[(owner_k == by).unsqueeze(1) & (owner_kK == of) & has_occurred_kK])
            return rows

        to_come = {peer: needed(own, peer) for peer in members.peers}
        num_own = self.num_rows(number - 1)
        place_N = _places(torch.cat([self._own_rows[:num_own], *to_come.values()]), self.events.num_nodes)
        exchange = self._exchange(members, place_N, {peer: needed(peer, own) for peer in members.peers}, to_come)
        is_own_k = owner_k == own
        return Pairs(
            source_k=place_N[source_k[is_own_k]].to(self.device),
            destination_k=place_N[destination_k[is_own_k]].to(self.device),
            negative_kK=place_N[negative_kK[is_own_k]].to(self.device),
            exchange=exchange,
        )

    def states(self, number: int, split: Split) -> tuple[Tensor, Tensor]:
        """The known states in which one window leaves its sources, each by the last event that says it.

        Args:
            number: of the window.
            split: whose events count.

        Returns:
            rows of this rank, beyond those of the snapshot before for nodes that had not occurred, and their states.
        """
        assert self.events.y_M is not None
        begin, end = self._span(number, split)
        y_m = self.events.y_M[begin:end]
        source_k, y_m = self.events.source_M[begin:end][y_m >= 0], y_m[y_m >= 0]
        row_k, place_m = torch.unique(self._place_N[source_k], return_inverse=True)
        last_k = torch.zeros_like(row_k).scatter_reduce_(0, place_m, torch.arange(len(y_m)), "amax")
        is_own_k = self._owner_N[row_k] == (0 if self.members is None else self.members.own)
        own_k = torch.searchsorted(self._own_rows, row_k[is_own_k])
        return own_k.to(self.device), y_m[last_k[is_own_k]].to(self.device)

    def has_states(self, split: Split) -> bool:
        """Whether a step predicts a state of this split: one that is not in the first window."""
        begin, end = self._limits(split)
        y_M = self.events.y_M
        return y_M is not None and bool((y_M[max(begin, int(self.events.offsets[1])) : end] >= 0).any())

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


def _places(chosen: Tensor, num_rows: int) -> Tensor:
    """The place of each row among the chosen ones; that of any other is behind all places."""
    place = torch.full((num_rows,), num_rows)
    place[chosen] = torch.arange(len(chosen))
    return place


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
