"""The machines of a topology as namespaces, their cables throttled; gone when the block ends, however it ends.

Both ends of a cable are held to the link's bandwidth by `tc tbf`, so a cable is full duplex: what a machine sends and
what it receives each have the bandwidth. The bucket is small, since a full one lets the first bytes of a message
through at once, and the queue behind it is short, as a switch's is: more is dropped, and TCP slows down. Cables with a
latency worth speaking of, jitter or loss go through a `delay_line`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.network.cabling import Cabling, Node, cabling_of
from benchmarks.network.namespaces import end_processes, inside, ip, namespaces, tool
from graphprep.topology import Topology

ROOT = Path(__file__).parents[2]
SUBNET = "10.231.0"
LEAST_DELAY_S = 0.5e-3
"""Below it a plain cable's own latency (some 50 us) is taken for the topology's."""
BUCKET_S, LEAST_BUCKET = 1e-3, 4 * 1024
QUEUE_S, LEAST_QUEUE = 0.05, 128 * 1024
"""Bytes of tbf's bucket and queue: so many seconds of the bandwidth, and at least so many."""
CONGESTION = "reno"
"""Of TCP, whatever the machine's own is: any namespace may choose it, and on so short ways cubic does the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """What happens to frames on a cable, besides its bandwidth."""

    delay_s: float = 0.0
    jitter_s: float = 0.0
    """At most so many seconds more, drawn for each frame."""
    loss: float = 0.0
    """Probability that a frame is lost."""


class Laboratory:
    """Namespaces that are up."""

    def __init__(self, cabling: Cabling, names: Sequence[str]) -> None:
        self.cabling, self.names = cabling, tuple(names)
        """Full names of the namespaces, one a node."""
        self.processes: list[subprocess.Popen[str]] = []
        """All that were started, delay lines too."""

    @property
    def machines(self) -> list[tuple[int, Node]]:
        """The nodes with ranks, with their numbers."""
        return [(number, node) for number, node in enumerate(self.cabling.nodes) if node.ranks]

    def address(self, node: int) -> str:
        """A machine's IP address."""
        return f"{SUBNET}.{node + 1}" if self.cabling.cables else "127.0.0.1"

    def interface(self, node: int) -> str:
        """The device that a machine talks to others by."""
        return _device(self.cabling.cable_of(node)) if self.cabling.cables else "lo"

    def start(
        self, node: int, words: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a program on a machine, in the repository's root and under the machine's host name.

        Its gloo is told the right interface. Output and errors are pipes.
        """
        settings = {"GLOO_SOCKET_IFNAME": self.interface(node), "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
        process = subprocess.Popen(
            inside(self.names[node], *words, host=self.cabling.nodes[node].host),
            cwd=ROOT,
            env={**os.environ, **settings, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is the harness's alone, which then ends them
        )
        self.processes.append(process)
        return process

    def unplug(self, cable: int) -> None:
        """Take a cable down at its second end: frames are lost until it is plugged again."""
        self._set(cable, "down")

    def plug(self, cable: int) -> None:
        """Bring it up again."""
        self._set(cable, "up")

    def end_programs(self) -> None:
        """Kill what still runs on the machines. Their network stays."""
        end_processes([self.names[node] for node, _ in self.machines], signal.SIGKILL, 5.0)

    def reap(self) -> None:
        """Let go of what was started, when it has ended."""
        for process in self.processes:
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    def _set(self, cable: int, state: str) -> None:
        end = self.cabling.cables[cable].ends[1]
        ip("-n", self.names[end], "link", "set", "dev", _device(cable), state)


@contextlib.contextmanager
def laboratory(topology: Topology, weather: Mapping[int, Weather] | None = None) -> Iterator[Laboratory]:
    """Build what a topology says.

    Args:
        topology: a tree of cables, with machines at its ends; see `cabling`.
        weather: of some cables, by their number.

    Raises:
        TopologyError: it is no such tree.
        RuntimeError: the kernel refused something; the message has what was asked and what it said.
    """
    cabling = cabling_of(topology)
    skies = [_weather(cable.latency_s, (weather or {}).get(number)) for number, cable in enumerate(cabling.cables)]
    lines = {number: f"line{number}" for number, sky in enumerate(skies) if sky is not None}
    wanted = [*(f"node{number}" for number in range(len(cabling.nodes))), *lines.values()]
    lab: Laboratory | None = None
    try:
        with namespaces(wanted) as made:
            lab = Laboratory(cabling, made[: len(cabling.nodes)])
            homes = dict(zip(lines, made[len(cabling.nodes) :], strict=True))
            for number, node in enumerate(cabling.nodes):
                tool(*inside(lab.names[number], "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={CONGESTION}"))
                if not node.ranks:
                    ip("-n", lab.names[number], "link", "add", "dev", "bridge", "type", "bridge")
                    ip("-n", lab.names[number], "link", "set", "dev", "bridge", "up")
            for number, sky in enumerate(skies):
                _lay(lab, number, sky, homes.get(number))
            yield lab
    finally:
        if lab is not None:
            lab.reap()  # all are gone: their namespaces are


def _weather(latency_s: float, given: Weather | None) -> Weather | None:
    """What a delay line has to do; None for a plain cable."""
    weather = given or Weather()
    if latency_s >= LEAST_DELAY_S:
        weather = Weather(delay_s=weather.delay_s + latency_s, jitter_s=weather.jitter_s, loss=weather.loss)
    return None if weather == Weather() else weather


def _device(cable: int) -> str:
    return f"cable{cable}"


def _lay(lab: Laboratory, number: int, weather: Weather | None, home: str | None) -> None:
    """Lay a cable, throttle both ends, give machines their address and switches their port."""
    cable, device = lab.cabling.cables[number], _device(number)
    spaces = [lab.names[end] for end in cable.ends]
    if weather is None or home is None:
        ip("-n", spaces[0], "link", "add", "dev", device, "type", "veth", "peer", "name", device, "netns", spaces[1])
    else:
        line = ["benchmarks.network.delay_line", "tap0", "tap1", weather.delay_s, weather.jitter_s, weather.loss, 7]
        carrier = subprocess.Popen(
            inside(home, sys.executable, "-m", *map(str, line)), cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        lab.processes.append(carrier)
        if carrier.stdout is None or carrier.stdout.readline() != "ready\n":
            raise RuntimeError("no delay line could be made; is there /dev/net/tun?")
        for tap, space in zip(("tap0", "tap1"), spaces, strict=True):
            ip("-n", home, "link", "set", "dev", tap, "netns", space, "name", device)
    rate = cable.bits_per_s
    bucket = max(LEAST_BUCKET, int(rate / 8 * BUCKET_S))
    queue = max(LEAST_QUEUE, int(rate / 8 * QUEUE_S))
    for end, space in zip(cable.ends, spaces, strict=True):
        throttle = f"tbf rate {int(rate)}bit burst {bucket} limit {queue}"
        tool("tc", "-n", space, "qdisc", "add", "dev", device, "root", *throttle.split())
        if lab.cabling.nodes[end].ranks:
            ip("-n", space, "addr", "add", f"{lab.address(end)}/24", "dev", device)
        else:
            ip("-n", space, "link", "set", "dev", device, "master", "bridge")
        ip("-n", space, "link", "set", "dev", device, "up")
