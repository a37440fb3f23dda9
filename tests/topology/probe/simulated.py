"""A network that is known, measured as a real one would be: pairs share links fairly, and figures have noise."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from graphprep.topology import Topology
from graphprep.topology.probe.fit import Line
from graphprep.topology.probe.trial import Pair, Trial


def fair_rates(topology: Topology, pairs: Sequence[Pair]) -> list[float]:
    """Bytes a second of pairs that send at once, both ways: all grow together until a link on their way is full."""
    room = {
        (number, direction): link.gbytes_per_s * 1e9
        for number, link in enumerate(topology.links)
        for direction in (0, 1)
    }
    crossed = [{*topology.routes[p][q], *topology.routes[q][p]} for p, q in pairs]
    rates, growing = [0.0] * len(pairs), set(range(len(pairs)))
    while growing:
        users = {hop: sum(hop in crossed[flow] for flow in growing) for hop in room}
        step = min(room[hop] / count for hop, count in users.items() if count)
        for flow in growing:
            rates[flow] += step
        for hop, count in users.items():
            room[hop] -= step * count
        full = {hop for hop, count in users.items() if count and room[hop] <= 1e-9 * step}
        growing -= {flow for flow in growing if crossed[flow] & full}
    return rates


class Simulated:
    """An instrument that measures `topology` with a relative error of about `noise`."""

    def __init__(
        self, topology: Topology, *, noise: float = 0.0, most_trials: int | None = None, seed: int = 0
    ) -> None:
        self.topology, self.noise, self.most_trials = topology, noise, most_trials
        self.dice = random.Random(seed)
        self.trials = 0
        self.lines: Mapping[Pair, Line] = {}

    def alone(self, pairs: Sequence[Pair]) -> Mapping[Pair, Line]:
        self.lines = {
            (p, q): Line(
                latency_s=sum(self.topology.links[hop.link].latency_us for hop in self.topology.routes[p][q]) * 1e-6,
                bytes_per_s=fair_rates(self.topology, [(p, q)])[0] * self._error(),
            )
            for p, q in pairs
        }
        return self.lines

    def together(self, groups: Sequence[Sequence[Pair]], *, share: float, purpose: str) -> list[Trial]:
        found = []
        for pairs in groups[: self.most_trials]:
            self.trials += 1
            alone = tuple(self.lines[pair].bytes_per_s for pair in pairs)
            rates = [rate * self._error() for rate in fair_rates(self.topology, pairs)]
            kept = tuple(min(1.0, rate / before) for rate, before in zip(rates, alone, strict=True))
            found.append(Trial(pairs=tuple(pairs), alone=alone, kept=kept))
        return found

    def _error(self) -> float:
        return 1 + self.dice.gauss(0, self.noise)
