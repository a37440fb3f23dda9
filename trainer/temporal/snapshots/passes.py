"""One pass over the snapshots of a rank's group, forward and backward, with the states that cross its borders.

What depends on no other snapshot is computed for all snapshots of the group first, by several workers: the segment
before a recurrence. Then come the chunks of the recurrence (trainer/temporal/snapshots/chunks.py), and after them the
next segment: the rows that a state gives, and what the next recurrence reads of them, or the scores and the loss. The
graph of autograd is cut between segments and chunks, so that each piece's backward pass begins as soon as its gradients
are there.

Only states and their gradients leave a group here. All receives are posted before the pass begins, in the order in
which the peer sends. Where several ranks share a group, each has the states of its own nodes and the same member of the
next group receives them; what members exchange among each other, products and scores do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from trainer.dist.communicator import Communicator, PendingExchange
from trainer.temporal.snapshots.chunks import Chunk, backward_order, chunks_of
from trainer.temporal.snapshots.graphs import Snapshots
from trainer.temporal.snapshots.network import SnapshotNetwork
from trainer.temporal.snapshots.recurrence import Recurrence
from trainer.temporal.snapshots.workers import Workers

Finish = Callable[[int, Tensor], Tensor | None]
"""From the number of a snapshot and the rows after it [n, G] to the step's share of the loss; None in an evaluation."""
_LEAST_ROWS = 256
"""Nodes of a piece: fewer take as long, since the call of each operation does."""
_PIECES_OF_A_RANK = 4
"""With so many pieces a rank waits for the first one about a quarter as long as for a whole group."""


@dataclass(slots=True, kw_only=True)
class _ChunkRun:
    """A chunk that was computed forward."""

    received: Tensor | None
    """The state before, a leaf; None where it is the first one."""
    inputs: list[Tensor]
    """By snapshot, leaves."""
    states: list[Tensor]
    """By snapshot, with their graph."""
    seconds: list[float]
    """By snapshot, forward."""


@dataclass(slots=True)
class _Stage:
    """What a pass keeps of one recurrence, by snapshot."""

    rows: dict[int, Tensor] = field(default_factory=dict)
    """Leaves: what the recurrence is over."""
    made: dict[int, list[Tensor]] = field(default_factory=dict)
    """The inputs of the recurrence, and the rows where an earlier recurrence made them, with their graph."""
    states: dict[int, Tensor] = field(default_factory=dict)
    """Leaves, of all pieces."""
    runs: list[_ChunkRun] = field(default_factory=list)
    """By chunk."""
    rows_grad: dict[int, Tensor] = field(default_factory=dict)
    state_grad: dict[int, Tensor] = field(default_factory=dict)
    inputs_grad: dict[int, dict[int, Tensor]] = field(default_factory=dict)
    """By snapshot and piece."""


class _Sums:
    """Sums of gradients by parameter, of one worker."""

    def __init__(self) -> None:
        self._by_parameter: dict[nn.Parameter, Tensor] = {}

    def add(self, parameters: Sequence[nn.Parameter], gradients: Sequence[Tensor | None]) -> None:
        """Add gradients; None is 0."""
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                known = self._by_parameter.get(parameter)
                self._by_parameter[parameter] = gradient if known is None else known + gradient

    def add_rows(self, parameter: nn.Parameter, rows: Tensor | slice, gradient_nF: Tensor) -> None:
        """Add a gradient of some rows, each once, and of the first columns."""
        if parameter not in self._by_parameter:
            self._by_parameter[parameter] = torch.zeros_like(parameter)
        self._by_parameter[parameter][rows] += gradient_nF[:, : parameter.shape[1]]

    def give(self) -> None:
        """Add the sums to the parameters' own gradients."""
        for parameter, gradient in self._by_parameter.items():
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient


class SnapshotPass:
    """One pass of one rank; every rank makes one at the same time."""

    def __init__(
        self,
        network: SnapshotNetwork,
        snapshots: Snapshots,
        communicator: Communicator,
        workers: Workers,
        *,
        borders: Sequence[int],
        history: int,
        is_training: bool,
        measures: bool = True,
    ) -> None:
        """Prepare the matrices, and post all receives.

        Args:
            network: with the same weights on all ranks.
            snapshots: which any rank can build.
            communicator: the ranks of the run.
            workers: of this rank.
            borders: of the groups: group g has the snapshots borders[g] .. borders[g + 1] - 1.
            history: snapshots of a sequence; 0 for all.
            is_training: whether a backward pass follows.
            measures: whether `seconds` are needed; on a GPU they make the host wait for every snapshot.
        """
        self._network, self._snapshots, self._communicator = network, snapshots, communicator
        self._workers, self._is_training, self._measures = workers, is_training, measures
        self._chain = network.chain
        group = communicator.rank // snapshots.num_members
        self._numbers = range(borders[group], borders[group + 1])
        self._pieces = [num_pieces(recurrence, snapshots, len(borders) - 1) for recurrence in self._chain]
        self._chunks = [chunks_of(borders, group, history=history, num_pieces=pieces) for pieces in self._pieces]
        self._stages = [_Stage() for _ in self._chain]
        self._sums = [_Sums() for _ in range(workers.number)]
        self._sends: list[PendingExchange] = []
        self.seconds: dict[int, float] = dict.fromkeys(self._numbers, 0.0)
        """What this rank has computed for each snapshot of its group, without waiting: seconds of the processor."""
        for recurrence in self._chain:
            for number in range(max(self._numbers.start - 1, 0), self._numbers.stop):
                recurrence.prepare(snapshots.graph(number))
        self._states_in = [self._posted(stage, incoming=True) for stage in range(len(self._chain))]
        self._grads_in = [self._posted(stage, incoming=False) for stage in reversed(range(len(self._chain)))][::-1]

    def run(self, finish: Finish) -> None:
        """Go forward, and in training backward, with the gradients added to those of the parameters.

        Args:
            finish: what is done with the rows after each snapshot, by any worker.
        """
        with torch.set_grad_enabled(self._is_training):
            for stage in range(len(self._chain)):
                self._workers.map(partial(self._segment, stage), self._numbers)
                self._recur(stage)
        self._workers.map(partial(self._finish, finish), self._numbers)
        if self._is_training:
            for stage in reversed(range(len(self._chain))):
                self._recur_backward(stage)
                self._workers.map(partial(self._segment_backward, stage), self._numbers)
            for sums in self._sums:
                sums.give()
        for pending in self._sends:
            pending.wait()

    def _posted(self, stage: int, *, incoming: bool) -> dict[int, tuple[Tensor, PendingExchange | None]]:
        """Start to receive the states of a recurrence, or their gradients: by chunk, with where they arrive."""
        recurrence, chunks, posted = self._chain[stage], self._chunks[stage], {}
        if not incoming and not self._is_training:
            return {}
        for place in range(len(chunks)) if incoming else backward_order(chunks):
            chunk = chunks[place]
            if chunk.comes_in if incoming else chunk.goes_on:
                border = chunk.begin if incoming else chunk.end
                rows = self._state_slice(stage, chunk.piece, border - 1)
                target = torch.empty(rows.stop - rows.start, recurrence.width, device=self._communicator.device)
                peer = self._before if incoming else self._next
                posted[place] = target, self._communicator.exchange({}, {peer: target}) if target.numel() else None
        return posted

    def _received(self, posted: tuple[Tensor, PendingExchange | None]) -> Tensor:
        target, pending = posted
        if pending is not None:
            pending.wait()
        return target

    def _send(self, rows: Tensor, peer: int) -> None:
        if rows.numel():
            self._sends.append(self._communicator.exchange({peer: rows.contiguous()}, {}))

    def _piece_rows(self, stage: int, piece: int, num_nodes: int) -> slice:
        """The rows of a piece while so many nodes have occurred."""
        num_all, number = self._snapshots.num_own_nodes, self._pieces[stage]
        first, behind = (min(num_all * place // number, num_nodes) for place in (piece, piece + 1))
        return slice(first, behind)

    def _state_slice(self, stage: int, piece: int, number: int) -> slice:
        """The rows of the state after a snapshot that belong to a piece."""
        num_nodes = self._snapshots.num_rows(number)
        if self._pieces[stage] > 1:
            return self._piece_rows(stage, piece, num_nodes)
        return slice(0, self._chain[stage].state_rows(num_nodes))

    def _segment(self, stage: int, number: int, worker: int) -> None:
        """Compute the inputs of a recurrence for one snapshot."""
        with self._timed(number), torch.set_grad_enabled(self._is_training):
            kept, made = self._stages[stage], list[Tensor]()
            if stage:
                rows = self._after(stage - 1, number, worker)
                kept.rows[number] = self._leaf(rows)
                made = [rows]
            else:
                rows = self._network.rows(number)
                if self._network.vectors_NF is not None:
                    rows = self._leaf(rows)
                kept.rows[number] = rows
            graph, clock = self._snapshots.graph(number), self._workers.clocks[worker]
            kept.made[number] = [self._chain[stage].before(graph, rows, clock), *made]

    def _after(self, stage: int, number: int, worker: int) -> Tensor:
        kept, graph = self._stages[stage], self._snapshots.graph(number)
        return self._chain[stage].after(graph, kept.rows[number], kept.states[number], self._workers.clocks[worker])

    def _leaf(self, values: Tensor) -> Tensor:
        return values.detach().requires_grad_(self._is_training)

    def _recur(self, stage: int) -> None:
        """Compute the states, chunk by chunk."""
        kept, recurrence, snapshots = self._stages[stage], self._chain[stage], self._snapshots
        pieces_of: dict[int, list[tuple[int, Tensor]]] = {number: [] for number in self._numbers}
        for place, chunk in enumerate(self._chunks[stage]):
            received = graph_before = None
            if chunk.comes_in:
                received = self._leaf(self._received(self._states_in[stage][place]))
                graph_before = snapshots.graph(chunk.begin - 1)
            state = recurrence.first() if received is None else received
            run = _ChunkRun(received=received, inputs=[], states=[], seconds=[])
            for number in range(chunk.begin, chunk.end):
                before = self._time()
                inputs = self._leaf(kept.made[number][0])
                if self._pieces[stage] > 1:
                    inputs = self._leaf(inputs[self._piece_rows(stage, chunk.piece, snapshots.num_rows(number))])
                state = recurrence.step(inputs, state, graph_before, self._workers.clocks[0])
                graph_before = snapshots.graph(number)
                pieces_of[number].append((chunk.piece, state.detach()))
                if self._is_training:
                    run.inputs.append(inputs)
                    run.states.append(state)
                run.seconds.append(self._time() - before)
                self.seconds[number] += run.seconds[-1]
            if chunk.goes_on:
                self._send(state.detach(), self._next)
            kept.runs.append(run)
        for number, pieces in pieces_of.items():
            states = [state for _, state in sorted(pieces, key=lambda one: one[0])]
            kept.states[number] = self._leaf(states[0] if len(states) == 1 else torch.cat(states))

    def _finish(self, finish: Finish, number: int, worker: int) -> None:
        """Use the rows after one snapshot, and in training begin its backward pass."""
        last = len(self._chain)
        with self._timed(number), torch.set_grad_enabled(self._is_training):
            loss = finish(number, self._after(last - 1, number, worker))
            if loss is not None:
                self._gradients(last, number, worker, [loss], [torch.ones_like(loss)])

    def _gradients(
        self, segment: int, number: int, worker: int, outputs: Sequence[Tensor], grads: Sequence[Tensor]
    ) -> None:
        """The backward pass of one snapshot between recurrence `segment - 1` and recurrence `segment`."""
        kept = self._stages[max(segment - 1, 0)]
        leaves = [kept.rows[number], kept.states[number]] if segment else [kept.rows[number]]
        leaves = [leaf for leaf in leaves if leaf.requires_grad]
        parameters = self._network.parameters_between(segment)
        found = torch.autograd.grad(outputs, [*leaves, *parameters], grads, allow_unused=True)
        self._sums[worker].add(parameters, found[len(leaves) :])
        for leaf, gradient in zip(leaves, found, strict=False):
            if gradient is None:
                continue
            if leaf is not kept.rows[number]:
                kept.state_grad[number] = gradient
            elif kept is self._stages[0]:
                assert self._network.vectors_NF is not None
                own = self._snapshots.own_rows(len(gradient))
                self._sums[worker].add_rows(self._network.vectors_NF, own, gradient)
            else:
                kept.rows_grad[number] = gradient

    def _recur_backward(self, stage: int) -> None:
        """The gradients of the inputs of a recurrence, chunk by chunk."""
        kept, chunks, parameters = self._stages[stage], self._chunks[stage], list(self._chain[stage].parameters())
        for place in backward_order(chunks):
            chunk, run = chunks[place], kept.runs[place]
            from_next = self._received(self._grads_in[stage][place]) if chunk.goes_on else None
            started = self._time()
            gradients = [
                kept.state_grad[number][self._state_slice(stage, chunk.piece, number)]
                for number in range(chunk.begin, chunk.end)
            ]
            if not gradients:  # of an empty group
                of_received = from_next
            else:
                if from_next is not None:
                    gradients[-1] = gradients[-1] + from_next
                leaves = [*run.inputs, *([] if run.received is None else [run.received])]
                found = torch.autograd.grad(run.states, [*leaves, *parameters], gradients, allow_unused=True)
                self._sums[0].add(parameters, found[len(leaves) :])
                for number, gradient in zip(range(chunk.begin, chunk.end), found, strict=False):
                    if gradient is not None:
                        kept.inputs_grad.setdefault(number, {})[chunk.piece] = gradient
                of_received = None if run.received is None else found[len(run.inputs)]
            if run.received is not None:
                # None where nothing that the loss depends on comes from it; the rank before waits all the same.
                self._send(torch.zeros_like(run.received) if of_received is None else of_received, self._before)
            run.inputs, run.states = [], []
            self._share_seconds(chunk, run.seconds, self._time() - started)

    @property
    def _before(self) -> int:
        return self._communicator.rank - self._snapshots.num_members

    @property
    def _next(self) -> int:
        return self._communicator.rank + self._snapshots.num_members

    def _share_seconds(self, chunk: Chunk, forward: Sequence[float], seconds: float) -> None:
        """Add the seconds of a chunk's backward pass to its snapshots, by their shares of the forward pass."""
        total = sum(forward)
        for number, share in zip(range(chunk.begin, chunk.end), forward, strict=True):
            self.seconds[number] += seconds * (share / total if total else 1 / len(forward))

    def _segment_backward(self, stage: int, number: int, worker: int) -> None:
        with self._timed(number):
            kept = self._stages[stage]
            inputs, *rows = kept.made.pop(number)
            outputs, grads = list[Tensor](), list[Tensor]()
            if inputs.requires_grad and number in kept.inputs_grad:
                pieces = kept.inputs_grad.pop(number)
                outputs.append(inputs)
                grads.append(torch.cat([pieces[piece] for piece in sorted(pieces)]))
            if rows and number in kept.rows_grad:
                outputs += rows
                grads.append(kept.rows_grad.pop(number))
            if outputs:
                self._gradients(stage, number, worker, outputs, grads)
            del kept.rows[number], kept.states[number]

    @contextmanager
    def _timed(self, number: int) -> Iterator[None]:
        before = self._time()
        yield
        self.seconds[number] += self._time() - before

    def _time(self) -> float:
        """Seconds of this thread on a CPU, which other processes do not lengthen; on a GPU those until it is done."""
        if self._communicator.device.type == "cpu":
            return time.thread_time()
        if self._measures:
            torch.cuda.synchronize(self._communicator.device)
        return time.perf_counter()


def num_pieces(recurrence: Recurrence, snapshots: Snapshots, num_groups: int) -> int:
    """In how many pieces a state crosses borders."""
    if not recurrence.has_pieces or num_groups == 1:
        return 1
    return max(1, min(snapshots.num_own_nodes // _LEAST_ROWS, _PIECES_OF_A_RANK * num_groups))
