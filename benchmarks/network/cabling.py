"""Which namespaces and cables a topology becomes.

Links of type `network` are cables. Ranks and switches that other links join share a machine: there is one network
namespace for them, inside which traffic costs next to nothing. What is left are switches between cables.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from graphprep.errors import TopologyError
from graphprep.topology import Topology

CABLE = "network"
"""The type of the links that become cables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A namespace: a machine with ranks, or a switch without."""

    name: str
    """Its first rank's or its own, from the topology."""
    ranks: tuple[int, ...] = ()
    """Consecutive numbers."""
    host: str = ""
    """A machine's host name. Ranks of one machine of the topology share it, also where cables lie between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cable:
    """Between two nodes."""

    ends: tuple[int, int]
    """Numbers of nodes."""
    bits_per_s: float
    """In each direction, frames and all."""
    latency_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cabling:
    """What is to be built."""

    nodes: tuple[Node, ...]
    """Machines in the order of their ranks, then switches."""
    cables: tuple[Cable, ...]

    @property
    def machines(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.ranks)

    def cable_of(self, node: int) -> int:
        """The number of the one cable of a machine."""
        return next(number for number, cable in enumerate(self.cables) if node in cable.ends)


def cabling_of(topology: Topology) -> Cabling:
    """Namespaces and cables for a topology.

    Raises:
        TopologyError: cables make a circle, a machine has more than one or ranks that do not follow each other, or
            links other than cables join ranks of two machines.
    """
    number_of, names = topology.nodes, list(topology.nodes)
    group = list(range(len(names)))

    def root(node: int) -> int:
        while group[node] != node:
            node = group[node]
        return node

    for link in topology.links:
        if link.type != CABLE:
            a, b = (root(number_of[end]) for end in link.ends)
            group[max(a, b)] = min(a, b)  # ranks come first, so a machine's root is its first rank
    ranks_of: defaultdict[int, list[int]] = defaultdict(list)
    for rank in range(topology.num_ranks):
        ranks_of[root(rank)].append(rank)
    nodes: list[Node] = []
    place: dict[int, int] = {}
    for first in sorted({root(node) for node in range(len(names))}):
        ranks = ranks_of[first]
        hosts = {topology.ranks[rank].machine for rank in ranks}
        if len(hosts) > 1:
            raise _refused(topology, f"joins the machines {', '.join(sorted(hosts))} by links of other types")
        if ranks and ranks != list(range(ranks[0], ranks[0] + len(ranks))):
            raise _refused(topology, f"has ranks of other machines between those of {hosts.pop()}")
        place[first] = len(nodes)
        nodes.append(Node(name=names[first], ranks=tuple(ranks), host=hosts.pop() if hosts else ""))
    cables = tuple(
        Cable(
            ends=(place[root(number_of[link.ends[0]])], place[root(number_of[link.ends[1]])]),
            bits_per_s=link.gbytes_per_s * 8e9,
            latency_s=link.latency_us * 1e-6,
        )
        for link in topology.links
        if link.type == CABLE
    )
    # All ranks are joined, so a tree is what has one cable fewer than nodes.
    if len(cables) != len(nodes) - 1:
        raise _refused(topology, f"has {len(cables)} cables between {len(nodes)} namespaces, which is no tree")
    for number, node in enumerate(nodes):
        plugs = sum(number in cable.ends for cable in cables)
        if node.ranks and plugs > 1:
            raise _refused(topology, f"gives the machine of {node.name} {plugs} cables, and gloo uses one")
    return Cabling(nodes=tuple(nodes), cables=cables)


def _refused(topology: Topology, problem: str) -> TopologyError:
    return TopologyError(
        f"{topology.name} {problem}; a laboratory is a tree of links of type {CABLE} with machines at its ends"
    )
