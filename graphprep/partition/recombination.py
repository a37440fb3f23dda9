"""The best starts are refined, then combined: the best with each of the others, until one is left.

Three starts make three runs of refinement, two combinations and a last one of these: six runs, each of which begins
from the best that there is. On power-law graphs the combinations win as much again as the first three runs; on meshes
about a tenth.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from graphprep.partition.evaluation import Evaluated, Task
from graphprep.partition.refine.hypergraph import Hypergraph
from graphprep.partition.refine.refine import (
    EFFORTS,
    OBJECTIVES,
    Effort,
    Refinement,
    expected_bytes,
    links_of,
    weights_and_limits,
)
from graphprep.partition.result import Candidate
from graphprep.system import memory, progress
from graphprep.system.threads import side_by_side, workers_for
from graphprep.traffic import FOR_HALO, capacities

SEED_STEP = 7919
"""between the seeds of two generations"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recombination:
    """What all runs of refinement share."""

    task: Task
    effort: Effort
    nets: Hypergraph
    weight_NC: NDArray[np.float64]
    most_PC: NDArray[np.float64]
    """float64 [P, C], what each part may hold"""
    workers: int
    """runs side by side"""

    @classmethod
    def of(cls, task: Task) -> Recombination:
        nets = task.nets()
        weight_NC, most_PC = weights_and_limits(task.loads, task.shares_P)
        capacity_P = capacities(task.topology)
        if capacity_P is not None:
            bytes_N = task.bytes_N()
            share_P = task.shares_P * bytes_N.sum() * task.request.imbalance
            weight_NC = np.column_stack([weight_NC, bytes_N])
            # Where memory is too small for the shares themselves, to hold on to it would let no node move.
            most_PC = np.column_stack([most_PC, np.maximum(FOR_HALO * capacity_P, share_P)])
        return cls(
            task=task,
            effort=EFFORTS[task.request.effort],
            nets=nets,
            weight_NC=weight_NC,
            most_PC=most_PC,
            workers=workers_for(expected_bytes(nets.num_nodes, nets.num_nets, len(nets.pins)), task.room()),
        )

    def grown(self, starts: Sequence[Evaluated]) -> list[Evaluated]:
        """All that was refined or combined, in the order in which it was made; the best of `starts` comes first."""
        count = self.effort.starts_of(len(self.nets.pins))
        made = side_by_side(
            [partial(self._run, f"{way.candidate.method}, refined", way) for way in starts[:count]],
            workers=self.workers,
        )
        living, generation = self.task.in_order(made), 0
        while len(living) > 1:
            generation += 1
            best, *others = living
            children = side_by_side(
                [
                    partial(self._run, f"combined, {generation}.{number}", best, other, generation)
                    for number, other in enumerate(others, start=1)
                ],
                workers=self.workers,
            )
            made += children
            living = self.task.in_order(children)
        return made

    def _run(self, name: str, way: Evaluated, other: Evaluated | None = None, generation: int = 0) -> Evaluated:
        """`way` refined, or combined with `other`; once more without annealing where that has lost more than it found.

        On graphs whose best parts differ little in cut - stiff meshes above all - it can end above a good start.
        """
        started = time.monotonic()
        with progress.task(f"refining ({name})", unit="visits") as shown:
            assignment = self._refined(way, other, generation, self.effort, shown.advance)
            memory.give_back()
            found = self._judged(name, assignment, started)
            if self.effort.annealing_rounds and self._has_lost(found, way):
                assignment = self._refined(way, other, generation, self.effort.without_annealing(), shown.advance)
                memory.give_back()
                found, *_ = self.task.in_order([found, self._judged(name, assignment, started)])
        return found

    def _has_lost(self, found: Evaluated, way: Evaluated) -> bool:
        """Whether a run has ended worse than it began, or has paid with slower links for limits that it keeps now."""
        (excess, *seconds), (excess_before, *seconds_before) = (
            one.rank(self.task.request.minimise) for one in (found, way)
        )
        return excess > excess_before or seconds > seconds_before

    def _refined(
        self,
        way: Evaluated,
        other: Evaluated | None,
        generation: int,
        effort: Effort,
        advance: Callable[[int], None],
    ) -> NDArray[np.int32]:
        request = self.task.request
        refinement = Refinement(
            links_of(self.task.model, request.row_bytes),
            self.most_PC,
            effort=effort,
            objective=OBJECTIVES[request.minimise],
            seed=request.seed + SEED_STEP * generation,
            advance=advance,
        )
        return refinement.run(
            self.nets,
            way.result.assignment,
            self.weight_NC,
            other_N=None if other is None else other.result.assignment,
            generation=generation,
        )

    def _judged(self, name: str, assignment: NDArray[np.int32], started: float) -> Evaluated:
        return self.task.judged(Candidate(method=name, seconds=time.monotonic() - started, assignment=assignment))
