"""Plans of the measurements: trials, one after the other, of concurrent flows; and the evaluation of reports.

A plan travels as JSON: a list of trials, each a list of flows [a, b, bytes, repeats]. Ranks a and b send each other
that many bytes, both ways at once, `repeats` times after once for warming up. The flows of one rank in one trial go out
together and have the same number of repeats. What comes back of a flow are the times at which its lower rank had
finished the warm-up and each repeat, in seconds since the trial began.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from graphprep.topology.probe.fit import Line
from graphprep.topology.probe.trial import Pair
from graphprep.topology.routing import joined

SLICES = 8
"""Messages that a pair of a trial takes to use its time."""
LEAST_BYTES, FEWEST_REPEATS, MOST_REPEATS = 4096, 4, 200


class Flow(NamedTuple):
    """One pair of a trial."""

    a: int
    b: int
    num_bytes: int
    repeats: int

    @property
    def pair(self) -> Pair:
        return self.a, self.b


Stamps = Mapping[Pair, Sequence[float]]
"""Of the flows of one trial."""


def to_text(plan: Sequence[Sequence[Flow]] | None) -> str:
    """A plan as JSON; None says that there are no more plans."""
    return json.dumps(plan)


def from_text(text: str) -> list[list[Flow]] | None:
    """The plan that `to_text` wrote."""
    plan = json.loads(text)
    return None if plan is None else [[Flow(*flow) for flow in trial] for trial in plan]


def flows_together(pairs: Sequence[Pair], lines: Mapping[Pair, Line], seconds: float, most_bytes: int) -> list[Flow]:
    """A trial that takes about `seconds` if no flow slows another down.

    Args:
        pairs: that send at once. Those of one rank get messages that take the same time alone, so that none waits.
        lines: of every pair alone.
        seconds: of the trial.
        most_bytes: of one message.
    """
    found: dict[Pair, Flow] = {}
    for ranks in joined(pairs):
        mine = [pair for pair in pairs if ranks.issuperset(pair)]
        fastest = max(lines[pair].bytes_per_s for pair in mine)
        slice_s = min(seconds / SLICES, most_bytes / fastest)
        sizes = {pair: max(LEAST_BYTES, int(lines[pair].bytes_per_s * slice_s)) for pair in mine}
        once = max(lines[pair].seconds(sizes[pair]) for pair in mine)
        repeats = min(MOST_REPEATS, max(FEWEST_REPEATS, math.ceil(seconds / once)))
        found |= {pair: Flow(*pair, sizes[pair], repeats) for pair in mine}
    return [found[pair] for pair in pairs]


def kept(flows: Sequence[Flow], stamps: Stamps, lines: Mapping[Pair, Line]) -> tuple[float, ...]:
    """The share of its speed alone that each flow kept while all of them were sending, at most 1."""
    begin = max(stamps[flow.pair][0] for flow in flows)
    end = min(stamps[flow.pair][-1] for flow in flows)
    rates = []
    for flow in flows:
        times = stamps[flow.pair]
        first, last = (begin, end) if end > begin else (times[0], times[-1])
        messages = _messages_by(last, times) - _messages_by(first, times)
        rates.append(messages * flow.num_bytes / (last - first))
    return tuple(
        min(1.0, rate / lines[flow.pair].rate(flow.num_bytes)) for flow, rate in zip(flows, rates, strict=True)
    )


def _messages_by(moment: float, times: Sequence[float]) -> float:
    """Messages after the warm-up that were complete at a time, the current one in proportion."""
    for number, (before, after) in enumerate(pairwise(times)):
        if moment < after:
            return number + max(0.0, moment - before) / (after - before)
    return len(times) - 1.0
