"""Does the probe find links that are really there?

Each case is a tree: ranks join switches, switches join each other, each link a throttled cable of the laboratory, and
every rank has a namespace to itself. Ranks of one machine share a host name, as far as the case lets the probe know of
machines. The probe runs with gloo in all of them, and what it writes is compared with the case: the speed of every pair
alone, and of sets of pairs at once, by max-min fairness on both topologies.

Prints a table, writes JSON with --out, and returns 1 if a figure is off by more than --tolerance.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.network import needs
from benchmarks.network.laboratory import laboratory
from graphprep.topology import Topology

PORT, UPLINK = 0.005, 0.0025  # gigabytes a second: little enough for a processor that plays all parts
CASES = {
    "flat": {"hosts": "aaaa", "links": [("r0", "s", PORT), ("r1", "s", PORT), ("r2", "s", PORT), ("r3", "s", PORT)]},
    "two machines": {
        "hosts": "aabb",
        "links": [
            *[(f"r{rank}", f"h{rank // 2}", PORT) for rank in range(4)],
            ("h0", "net", UPLINK),
            ("h1", "net", UPLINK),
        ],
    },
    "hidden switches": {
        "hosts": "aaaa",
        "links": [*[(f"r{rank}", f"h{rank // 2}", PORT) for rank in range(4)], ("h0", "h1", PORT)],
    },
    "machines with hidden switches": {
        "hosts": "aaaabb",
        "links": [
            *[(f"r{rank}", f"s{rank // 2}", PORT) for rank in range(6)],
            ("s0", "h0", PORT),
            ("s1", "h0", PORT),
            ("h0", "net", UPLINK),
            ("s2", "net", UPLINK),
        ],
    },
}


def topology_of(name: str, hosts: str, links: Sequence[tuple[str, str, float]]) -> Topology:
    """The case as a topology."""
    ranks = "".join(f"  - {{name: r{rank}, machine: host-{host}}}\n" for rank, host in enumerate(hosts))
    switches = sorted({end for a, b, _ in links for end in (a, b) if not end.startswith("r")})
    lines = "".join(
        f"  - {{ends: [{a}, {b}], type: network, gbytes_per_s: {rate}, latency_us: 10}}\n" for a, b, rate in links
    )
    text = f"name: {name.replace(' ', '-')}\nranks:\n{ranks}switches: [{', '.join(switches)}]\nlinks:\n{lines}"
    return Topology.from_text(text)


def probe(truth: Topology, seconds: float, out: Path) -> Topology:
    """Run the probe in the laboratory of `truth`, one rank a namespace.

    Raises:
        SystemExit: a rank failed.
    """
    hosts = [rank.machine for rank in truth.ranks]
    words = f"-m graphprep.topology.probe --out {out} --backend gloo --seconds {seconds} --replace"
    with laboratory(truth) as lab:
        ranks = []
        for rank, (node, machine) in enumerate(lab.machines):
            rank_info = {
                "RANK": rank,
                "WORLD_SIZE": len(hosts),
                "LOCAL_RANK": hosts[:rank].count(machine.host),
                "LOCAL_WORLD_SIZE": hosts.count(machine.host),
                "MASTER_ADDR": lab.address(0),
                "MASTER_PORT": 29511,
            }
            command = [sys.executable, *words.split()]
            ranks.append(lab.start(node, command, {name: str(value) for name, value in rank_info.items()}))
        ends = [(process.communicate(timeout=seconds * 5 + 120)[1], process.returncode) for process in ranks]
    if any(status for _, status in ends):
        raise SystemExit(f"the ranks ended with {[status for _, status in ends]}: {ends[0][0]}")
    return Topology.from_file(out)


def judged(name: str, seconds: float, tolerance: float, out: Path) -> dict[str, Any]:
    """Probe a case, and compare."""
    case: dict[str, Any] = CASES[name]
    truth = topology_of(name, case["hosts"], case["links"])
    found = probe(truth, seconds, out)
    alone, together = deviations(truth, found)
    return {
        "switches": len(found.switches),
        "true_switches": len(truth.switches),
        "worst_alone": max(alone, key=abs),
        "worst_together": max(together, key=abs),
        "good": max(map(abs, (*alone, *together))) <= tolerance,
    }


def fair_rates(topology: Topology, pairs: Sequence[tuple[int, int]]) -> list[float]:
    """Gigabytes a second of pairs that send at once, both ways: all grow together until a link on their way is full."""
    crossed = [{*topology.routes[p][q], *topology.routes[q][p]} for p, q in pairs]
    room = {hop: topology.links[hop.link].gbytes_per_s for hops in crossed for hop in hops}
    rates, growing = [0.0] * len(pairs), set(range(len(pairs)))
    while growing:
        users = {hop: sum(hop in crossed[flow] for flow in growing) for hop in room}
        step = min(room[hop] / count for hop, count in users.items() if count)
        for flow in growing:
            rates[flow] += step
        room = {hop: left - step * users[hop] for hop, left in room.items()}
        growing -= {flow for flow in growing if any(room[hop] <= 1e-9 for hop in crossed[flow])}
    return rates


def deviations(truth: Topology, found: Topology) -> tuple[list[float], list[float]]:
    """Relative errors of the speed of pairs alone, and of the slowest of several pairs at once."""

    def error(pairs: Sequence[tuple[int, int]]) -> float:
        return min(fair_rates(found, pairs)) / min(fair_rates(truth, pairs)) - 1

    ranks = range(truth.num_ranks)
    alone = [error([pair]) for pair in itertools.combinations(ranks, 2)]
    dice, together = random.Random(0), []
    for _ in range(100):
        order = dice.sample(ranks, len(ranks))
        pairs = list(zip(order[::2], order[1::2], strict=False))
        together.append(error(pairs[: dice.randint(2, len(pairs))]))
    return alone, together


def main() -> int:
    """Returns 1 if a figure is off, 2 where namespaces cannot be had."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each probe")
    parser.add_argument("--tolerance", type=float, default=0.15, help="relative")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--keep", type=Path, help="a folder for the topologies that were found")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    needs.require()
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        keep = arguments.keep or Path(folder)
        for name in arguments.cases:
            rows[name] = judged(name, arguments.seconds, arguments.tolerance, keep / f"{name.replace(' ', '-')}.yaml")
            print(f"{name:32} {json.dumps(rows[name])}", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))
    return int(not all(row["good"] for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
