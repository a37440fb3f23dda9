"""The best initial partitions are refined, and with --effort best combined pairwise until one is left.

In each generation the best partition is combined with each of the others. Three initial partitions make three runs of
refinement, two combinations and a last one of these: six runs. On power-law graphs the combinations improve the
bottleneck as much again as the first three runs; on meshes about a tenth of that. (Sanders, Schulz: Distributed
evolutionary graph partitioning, 2012.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from graphprep.partition.evaluation import Evaluated, PartitionTask
from graphprep.partition.refine.hypergraph import Hypergraph
from graphprep.partition.refine.refine import (
    EFFORTS,
    OBJECTIVES,
    Effort,
    Refinement,
    expected_bytes,
    weights_and_limits,
)
from graphprep.partition.result import Candidate
from graphprep.system import memory, progress
from graphprep.system.threads import kernel_threads, side_by_side, workers_for
from graphprep.traffic import SHARE_BEFORE_HALO, capacities

SEED_STEP = 7919
"""between the seeds of two generations"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recombination:
    """What all runs of refinement share."""

    task: PartitionTask
    effort: Effort
    nets: Hypergraph
    weight_NC: NDArray[np.float64]
    most_PC: NDArray[np.float64]
    """float64 [P, C]: the limit of each part"""
    workers: int
    """runs side by side"""
    threads: Executor | None = None
    """that all runs share to look for moves; None where each has its own thread only"""

    @classmethod
    def of(cls, task: PartitionTask) -> Recombination:
        nets = task.nets()
        weight_NC, most_PC = weights_and_limits(task.loads, task.shares_P)
        capacity_P = capacities(task.topology)
        if capacity_P is not None:
            bytes_N = task.bytes_N()
            share_P = task.shares_P * bytes_N.sum() * task.request.imbalance
            weight_NC = np.column_stack([weight_NC, bytes_N])
            # Where memory is too small even for the shares, a limit below them would let no node move.
            most_PC = np.column_stack([most_PC, np.maximum(SHARE_BEFORE_HALO * capacity_P, share_P)])
        return cls(
            task=task,
            effort=EFFORTS[task.request.effort],
            nets=nets,
            weight_NC=weight_NC,
            most_PC=most_PC,
            workers=workers_for(expected_bytes(nets.num_nodes, nets.num_nets, len(nets.pins)), task.available_bytes()),
        )

    def run(self, starts: Sequence[Evaluated]) -> list[Evaluated]:
        """All refined and combined partitions, in the order of the runs; `starts` are sorted, the best first."""
        if kernel_threads() == 1:
            return self._generations(starts)
        with ThreadPoolExecutor(kernel_threads()) as threads:
            return replace(self, threads=threads)._generations(starts)

    def _generations(self, starts: Sequence[Evaluated]) -> list[Evaluated]:
        count = self.effort.num_refined(len(self.nets.pins))
        results = side_by_side(
            [partial(self._run, f"{start.candidate.method}, refined", start) for start in starts[:count]],
            workers=self.workers,
        )
        survivors, generation = self.task.best_first(results), 0
        while self.effort.combines and len(survivors) > 1:
            generation += 1
            best, *others = survivors
            children = side_by_side(
                [
                    partial(self._run, f"combined, {generation}.{number}", best, other, generation)
                    for number, other in enumerate(others, start=1)
                ],
                workers=self.workers,
            )
            results += children
            survivors = self.task.best_first(children)
        return results

    def _run(self, name: str, start: Evaluated, other: Evaluated | None = None, generation: int = 0) -> Evaluated:
        """Refine `start`, or combine it with `other`; repeat without annealing where annealing made it worse.

        On graphs whose best partitions differ little in cut, meshes above all, annealing can end above a good start.
        """
        started = time.monotonic()
        with progress.task(f"refining ({name})", unit="visits") as shown:
            assignment, has_annealed = self._refined(start, other, generation, self.effort, shown.advance)
            memory.give_back()
            refined = self._evaluate(name, assignment, started)
            if has_annealed and self._is_worse(refined, start):
                assignment, _ = self._refined(start, other, generation, self.effort.without_annealing(), shown.advance)
                memory.give_back()
                refined, *_ = self.task.best_first([refined, self._evaluate(name, assignment, started)])
        return refined

    def _is_worse(self, refined: Evaluated, start: Evaluated) -> bool:
        """Whether a run ended with more excess over the limits than it began with, or with slower links."""
        (excess, *seconds), (excess_before, *seconds_before) = (
            one.rank(self.task.request.minimise) for one in (refined, start)
        )
        return excess > excess_before or seconds > seconds_before

    def _refined(
        self,
        start: Evaluated,
        other: Evaluated | None,
        generation: int,
        effort: Effort,
        advance: Callable[[int], None],
    ) -> tuple[NDArray[np.int32], bool]:
        """The assignment after a run, and whether a level was annealed."""
        request = self.task.request
        objective = OBJECTIVES[request.minimise]
        if objective.row_weight:
            objective = replace(objective, row_weight=start.row_weight)
        refinement = Refinement(
            self.task.links(),
            self.most_PC,
            effort=effort,
            objective=objective,
            seed=request.seed + SEED_STEP * generation,
            advance=advance,
            threads=self.threads,
        )
        assignment = refinement.run(
            self.nets,
            start.result.assignment,
            self.weight_NC,
            other_N=None if other is None else other.result.assignment,
            generation=generation,
        )
        return assignment, refinement.has_annealed

    def _evaluate(self, name: str, assignment: NDArray[np.int32], started: float) -> Evaluated:
        return self.task.evaluate(Candidate(method=name, seconds=time.monotonic() - started, assignment=assignment))
