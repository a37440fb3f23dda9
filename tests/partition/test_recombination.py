"""The best starts are refined and combined until one is left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from graphprep.partition import recombination
from graphprep.partition.evaluation import Evaluated, PartitionTask
from graphprep.partition.recombination import Recombination
from graphprep.partition.refine import refine
from graphprep.partition.request import PartitionRequest
from graphprep.partition.result import Candidate
from graphprep.partition.typed_graph import WholeGraph
from graphprep.topology import Topology
from tests.graphs import csr_of
from tests.partition.problems import ring_of_cliques


def starts(effort: str, count: int, minimise: str = "slowest") -> tuple[PartitionTask, list[Evaluated]]:
    """Random assignments of a ring of cliques."""
    chunk, num_nodes = ring_of_cliques(16, 12)
    graph = WholeGraph.of_one_type(csr_of(chunk, num_nodes))
    request = PartitionRequest(effort=effort, minimise=minimise)
    task = PartitionTask.of(graph, Topology.flat(4), request)
    rng = np.random.default_rng(0)
    made = [
        Candidate(method=f"s{i}", seconds=0.0, assignment=rng.permutation(num_nodes).astype(np.int32) % np.int32(4))
        for i in range(count)
    ]
    return task, task.best_first(map(task.evaluate, made))


@pytest.mark.parametrize("small_pins", [0, 10**9])
def test_the_best_is_combined_with_each_of_the_others(small_pins: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against combinations that are skipped, and against as many starts for large graphs as for small ones."""
    monkeypatch.setitem(refine.EFFORTS, "best", replace(refine.EFFORTS["best"], small_pins=small_pins))
    task, ways = starts("best", 4)
    count = 4 if small_pins else 3
    made = Recombination.of(task).run(ways)
    names = [way.candidate.method for way in made]
    assert names[:count] == [f"{way.candidate.method}, refined" for way in ways[:count]]
    generations = [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)] if small_pins else [(1, 1), (1, 2), (2, 1)]
    assert names[count:] == [f"combined, {generation}.{number}" for generation, number in generations]
    ranks = [way.rank("slowest") for way in made]
    assert min(ranks[count:]) <= min(ranks[:count])
    assert all(limit.met for limit in made[-1].result.quality.limits)


@pytest.mark.parametrize(("small_pins", "count"), [(0, 1), (10**9, 2)])
def test_the_default_refines_few_starts_and_combines_none(
    small_pins: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against a default that takes as long as best, and against two runs on large graphs."""
    monkeypatch.setitem(refine.EFFORTS, "default", replace(refine.EFFORTS["default"], small_pins=small_pins))
    task, ways = starts("default", 3)
    assert [way.candidate.method for way in Recombination.of(task).run(ways)] == [
        f"{way.candidate.method}, refined" for way in ways[:count]
    ]


def test_side_by_side_or_one_after_another_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against runs that share links, seeds or scratch: the result may not depend on the number of cores."""
    task, ways = starts("best", 3)
    found = []
    for workers in (1, 3):
        monkeypatch.setattr(recombination, "workers_for", lambda *_, workers=workers: workers)
        monkeypatch.setattr(recombination, "kernel_threads", lambda workers=workers: workers)
        found.append([way.result.assignment.tolist() for way in Recombination.of(task).run(ways)])
    assert found[0] == found[1]


def test_the_total_can_be_what_counts() -> None:
    """Guards against an order of assignments that looks at the slowest link first when the sum was asked for."""
    task, ways = starts("default", 6, "total")
    sums = [way.result.quality.sum_seconds for way in ways]
    assert sums == sorted(sums)
    refined, _ = task.best_first(Recombination.of(task).run(ways))
    assert refined.result.quality.sum_seconds < 0.8 * sums[0]


def test_annealing_that_loses_a_good_start_is_made_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against parts that are worse than the start that they came from, as on stiff meshes."""
    task, _ = starts("default", 1, "total")
    cliques_together = (np.arange(task.clean.num_rows) * 4 // task.clean.num_rows).astype(np.int32)
    way = task.evaluate(Candidate(method="good", seconds=0.0, assignment=cliques_together))
    monkeypatch.setitem(refine.OBJECTIVES, "total", refine.Objective(steps=(0,), row_weight=0.0, heat=1e6))
    [found] = Recombination.of(task).run([way])
    assert found.rank("total") <= way.rank("total")


def test_only_annealing_is_a_reason_to_refine_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a second run that gives the parts of the first, since nothing was annealed in it."""
    runs = []
    run = refine.Refinement.run

    def counted(self: refine.Refinement, *arguments: Any, **named: Any) -> Any:
        runs.append(self)
        return run(self, *arguments, **named)

    monkeypatch.setattr(refine.Refinement, "run", counted)
    monkeypatch.setattr(Recombination, "_is_worse", lambda *_: True)
    task, ways = starts("default", 1)
    Recombination.of(task).run(ways)
    assert [one.has_annealed for one in runs] == [True, False]
    runs.clear()
    monkeypatch.setitem(refine.EFFORTS, "default", replace(refine.EFFORTS["default"], annealed_pins=0))
    Recombination.of(task).run(ways)
    assert [one.has_annealed for one in runs] == [False]
