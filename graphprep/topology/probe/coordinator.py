"""Rank 0 plans the measurements, and all ranks run them.

Plans and reports go through the store, so that during a trial only the measured pairs send. Before each trial an
all-reduce synchronises the ranks, and tells them whether the time has run out.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import median

from graphprep.system import progress
from graphprep.topology.probe import plan as plans
from graphprep.topology.probe.fit import Line, fit
from graphprep.topology.probe.plan import Flow, Stamps
from graphprep.topology.probe.rendezvous import RankGroup
from graphprep.topology.probe.trial import Pair, Trial

FIRST_REPEATS, MOST_REPEATS, FEWEST_REPEATS = 5, 30, 2
ALONE_SHARE = 0.5
"""Of all time, for the pairs alone."""
LEAST_SHARE = 0.05
"""Least share of all time for every later step, however long the earlier ones took."""
SHORTEST_S, LONGEST_S = 0.01, 0.25
"""Of a trial of several pairs."""
MOST_ROUNDS = 5
"""Of few trials; the result is the median."""


class Coordinator:
    """The `Instrument` of a run, created on rank 0."""

    def __init__(self, ranks: RankGroup, *, seconds: float, sizes: Sequence[int]) -> None:
        """
        Args:
            meeting: connected.
            seconds: that all measurements take together, approximately.
            sizes: bytes of the messages of pairs alone, ascending, at least two. These two are always measured, larger
                ones where the time allows it.
        """
        self.ranks, self.seconds, self.sizes = ranks, seconds, sizes
        self.lines: dict[Pair, Line] = {}
        self.trials = 0
        self._plans = 0
        self._end = time.monotonic() + seconds

    def alone(self, pairs: Sequence[Pair]) -> Mapping[Pair, Line]:
        """Measure every pair alone by size, large sizes if the time allows; then once more in the remaining time."""
        seen: dict[Pair, dict[int, list[float]]] = {pair: {} for pair in pairs}
        deadline = self._end - (1 - ALONE_SHARE) * self.seconds

        def measure(wanted: Sequence[Flow], until: float | None, purpose: str) -> None:
            trials = [[flow] for flow in wanted]
            for (flow,), stamps in zip(trials, self._measure(trials, until, purpose), strict=False):
                times = [b - a for a, b in pairwise(stamps[flow.pair])]
                seen[flow.pair].setdefault(flow.num_bytes, []).extend(times)

        share_s = ALONE_SHARE * self.seconds / (len(pairs) * len(self.sizes))
        for number, size in enumerate(self.sizes):
            flows = []
            for pair in pairs:
                expected_s = _expected_s(seen[pair], size)
                if number < 2 or expected_s * (1 + FEWEST_REPEATS) < 4 * share_s:
                    flows.append(Flow(*pair, size, _repeats(share_s, expected_s)))
            measure(flows, deadline if number > 1 else None, f"pairs alone, {size:,} bytes")
        share_s = (deadline - time.monotonic()) / len(pairs)
        largest = {pair: max(by_size) for pair, by_size in seen.items()}
        again = [Flow(*pair, size, _repeats(share_s, _expected_s(seen[pair], size))) for pair, size in largest.items()]
        measure(again if share_s > 0 else [], deadline, "pairs alone, again")
        self.lines = {
            pair: fit(list(by_size), [median(times) for times in by_size.values()]) for pair, by_size in seen.items()
        }
        return self.lines

    def together(self, groups: Sequence[Sequence[Pair]], *, share: float, purpose: str) -> list[Trial]:
        """Measure the pairs of a group at once, group after group, until the time runs out; repeat few groups."""
        if not groups:
            return []
        now = time.monotonic()
        available_s = max(share * (self._end - now), LEAST_SHARE * self.seconds)
        # Pairs that share a link take longer than alone, and lining up takes time as well: hence the half.
        trial_s = min(LONGEST_S, max(SHORTEST_S, available_s / len(groups) / 2))
        rounds = min(MOST_ROUNDS, max(1, int(available_s / (2 * LONGEST_S * len(groups)))))
        plan = [plans.flows_together(group, self.lines, trial_s, max(self.sizes)) for group in groups]
        kept: list[list[tuple[float, ...]]] = [[] for _ in plan]
        for number, stamps in enumerate(self._measure(plan * rounds, now + available_s, purpose)):
            kept[number % len(plan)].append(plans.kept(plan[number % len(plan)], stamps, self.lines))
        return [
            Trial(
                pairs=tuple(flow.pair for flow in flows),
                alone=tuple(self.lines[flow.pair].bytes_per_s for flow in flows),
                kept=tuple(median(parts) for parts in zip(*seen, strict=True)),
            )
            for flows, seen in zip(plan, kept, strict=True)
            if seen
        ]

    def finish(self) -> None:
        """Tell the other ranks that there are no more plans."""
        self.ranks.store_set(f"plan/{self._plans}", plans.to_text(None))

    def _measure(self, plan: Sequence[Sequence[Flow]], deadline: float | None, purpose: str) -> list[Stamps]:
        """Run a plan on all ranks; the time stamps of the trials that ended before the deadline."""
        if not plan:
            return []
        self.ranks.store_set(f"plan/{self._plans}", plans.to_text(plan))
        with progress.task(purpose, total=len(plan), unit="trials") as task:
            mine = _run_plan(
                self.ranks, plan, lambda: deadline is not None and time.monotonic() > deadline, task.advance
            )
        pages = [f"report/{self._plans}/{rank}" for rank in range(1, self.ranks.world)]
        reports = [mine, *(json.loads(self.ranks.store_get(page)) for page in pages)]
        self._plans += 1
        done = min(map(len, reports))
        self.trials += done
        return [{flow.pair: reports[flow.a][trial][str(flow.b)] for flow in plan[trial]} for trial in range(done)]


def _expected_s(seen: Mapping[int, Sequence[float]], size: int) -> float:
    """Seconds that a message may take, from those of smaller ones; 0 if there are none."""
    before = max((known for known in seen if known <= size), default=0)
    return median(seen[before]) * size / before if before else 0.0


def _repeats(seconds: float, expected_s: float) -> int:
    return max(FEWEST_REPEATS, int(min(MOST_REPEATS, seconds / expected_s)) if expected_s else FIRST_REPEATS)


def run_plans(ranks: RankGroup) -> None:
    """Run plans until there are no more; the main loop of every rank but 0."""
    number = 0
    while (plan := plans.from_text(ranks.store_get(f"plan/{number}"))) is not None:
        report = _run_plan(ranks, plan, lambda: False, lambda: None)
        ranks.store_set(f"report/{number}/{ranks.rank}", json.dumps(report))
        number += 1


def _run_plan(
    ranks: RankGroup, plan: Sequence[Sequence[Flow]], is_over: Callable[[], bool], advance: Callable[[], None]
) -> list[dict[str, list[float]]]:
    """Run this rank's flows of a plan; for each trial the time stamps of those that it leads, by the other rank."""
    report: list[dict[str, list[float]]] = []
    for flows in plan:
        if ranks.agree_to_stop(stop=is_over()):
            break
        mine = [flow for flow in flows if ranks.rank in flow.pair]
        leads = [flow for flow in mine if flow.a == ranks.rank]
        stamps: list[float] = []
        if mine:
            others = [(flow.b if flow.a == ranks.rank else flow.a, flow.num_bytes) for flow in mine]
            stamps = ranks.exchange(others, mine[0].repeats)
        report.append({str(flow.b): [round(stamp, 7) for stamp in stamps] for flow in leads})
        advance()
    return report
