"""Does the probe find links that are really there? Network namespaces as ranks, veth pairs throttled by tc as links.

Each case is a tree: ranks join switches, switches join each other, each link with its bandwidth. A rank is a network
namespace with one cable, a switch is a namespace with a bridge; tc (token bucket) limits both ends of a cable. Ranks of
one machine share a host name (a UTS namespace), as far as the case lets the probe know of machines. The probe runs with
gloo in all of them, and what it writes is compared with the case: the speed of every pair alone, and of sets of pairs
at once, by max-min fairness on both topologies.

Needs Linux, root, iproute2. Prints a table, writes JSON with --out, and returns 1 if a figure is off by more than
--tolerance.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from graphprep.topology import Topology

PREFIX = "gpprobe"
NETWORK = "10.231.0"
BURST_BYTES = 128 * 1024
PORT, UPLINK = 0.1, 0.05  # gigabytes a second: little enough for a processor that plays all parts
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


def topology_of(name: str, links: Sequence[tuple[str, str, float]], num_ranks: int) -> Topology:
    """The case as a topology, to compare with."""
    ranks = "".join(f"  - {{name: r{rank}, machine: m0}}\n" for rank in range(num_ranks))
    switches = sorted({end for a, b, _ in links for end in (a, b) if not end.startswith("r")})
    lines = "".join(
        f"  - {{ends: [{a}, {b}], type: cable, gbytes_per_s: {rate}, latency_us: 10}}\n" for a, b, rate in links
    )
    text = f"name: {name.replace(' ', '-')}\nranks:\n{ranks}switches: [{', '.join(switches)}]\nlinks:\n{lines}"
    return Topology.from_text(text)


def sh(command: str) -> None:
    """Run a command that must succeed."""
    subprocess.run(command.split(), check=True)


@contextmanager
def network(links: Sequence[tuple[str, str, float]]) -> Iterator[None]:
    """The namespaces and throttled cables of a case; gone when the block ends."""
    nodes = sorted({end for a, b, _ in links for end in (a, b)})
    try:
        for node in nodes:
            sh(f"ip netns add {PREFIX}-{node}")
            sh(f"ip -n {PREFIX}-{node} link set lo up")
            if not node.startswith("r"):
                sh(f"ip -n {PREFIX}-{node} link add bridge type bridge")
                sh(f"ip -n {PREFIX}-{node} link set bridge up")
        for a, b, rate in links:
            sh(f"ip -n {PREFIX}-{a} link add to-{b} type veth peer name to-{a} netns {PREFIX}-{b}")
            for here, there in ((a, b), (b, a)):
                bits = int(rate * 8e9)
                shape = f"tbf rate {bits}bit burst {BURST_BYTES} latency 20ms"
                sh(f"ip netns exec {PREFIX}-{here} tc qdisc add dev to-{there} root {shape}")
                sh(f"ip -n {PREFIX}-{here} link set to-{there} up")
                if here.startswith("r"):
                    sh(f"ip -n {PREFIX}-{here} addr add {NETWORK}.{int(here[1:]) + 1}/24 dev to-{there}")
                else:
                    sh(f"ip -n {PREFIX}-{here} link set to-{there} master bridge")
        yield
    finally:
        for node in nodes:
            subprocess.run(["ip", "netns", "del", f"{PREFIX}-{node}"], check=False, stderr=subprocess.DEVNULL)


def probe(hosts: str, links: Sequence[tuple[str, str, float]], seconds: float, out: Path) -> Topology:
    """Run the probe, one rank a namespace."""
    cable = {a: f"to-{b}" for a, b, _ in links}
    ranks = []
    for rank, host in enumerate(hosts):
        environment = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(len(hosts)),
            "LOCAL_RANK": str(hosts[:rank].count(host)),
            "LOCAL_WORLD_SIZE": str(hosts.count(host)),
            "MASTER_ADDR": f"{NETWORK}.1",
            "MASTER_PORT": "29511",
            "GLOO_SOCKET_IFNAME": cable[f"r{rank}"],
            "OMP_NUM_THREADS": "1",
        }
        python = (
            f"{sys.executable} -m graphprep.topology.probe --out {out} --backend gloo --seconds {seconds} --replace"
        )
        command = ["ip", "netns", "exec", f"{PREFIX}-r{rank}", "unshare", "--uts", "sh", "-c"]
        ranks.append(subprocess.Popen([*command, f"hostname host-{host} && exec {python}"], env=environment))
    statuses = [process.wait(timeout=seconds * 5 + 120) for process in ranks]
    if any(statuses):
        raise SystemExit(f"the ranks ended with {statuses}")
    return Topology.from_file(out)


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
    """Returns 1 if a figure is off."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each probe")
    parser.add_argument("--tolerance", type=float, default=0.25, help="relative")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--keep", type=Path, help="a folder for the topologies that were found")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    missing = [tool for tool in ("ip", "tc", "unshare") if shutil.which(tool) is None]
    if missing or os.geteuid():
        raise SystemExit(f"needs root and iproute2{f'; missing: {missing}' if missing else ''}")
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        keep = arguments.keep or Path(folder)
        for name in arguments.cases:
            case = CASES[name]
            hosts, links = str(case["hosts"]), list(case["links"])
            with network(links):
                found = probe(hosts, links, arguments.seconds, keep / f"{name.replace(' ', '-')}.yaml")
            alone, together = deviations(topology_of(name, links, len(hosts)), found)
            worst = max(map(abs, (*alone, *together)))
            rows[name] = {
                "switches": len(found.switches),
                "true_switches": len({end for a, b, _ in links for end in (a, b) if not end.startswith("r")}),
                "worst_alone": max(alone, key=abs),
                "worst_together": max(together, key=abs),
                "good": worst <= arguments.tolerance,
            }
            print(f"{name:32} {json.dumps(rows[name])}", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))
    return int(not all(row["good"] for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
