"""A topology of the first ranks of another one, for plans with fewer ranks on the same machines."""

from __future__ import annotations

from graphprep.errors import TopologyError
from graphprep.topology.network import Topology
from graphprep.topology.routing import Hop


def first_ranks(topology: Topology, count: int) -> Topology:
    """The first `count` ranks with the switches, links and routes that are between them.

    Raises:
        TopologyError: there are not as many, or only ranks that are left out join them.
    """
    if not 1 <= count <= topology.num_ranks:
        raise TopologyError(f"{topology.name} has {topology.num_ranks} ranks, not {count}")
    if count == topology.num_ranks:
        return topology
    absent = {rank.name for rank in topology.ranks[count:]}
    numbers = [number for number, link in enumerate(topology.links) if absent.isdisjoint(link.ends)]
    new = {old: number for number, old in enumerate(numbers)}
    fixed = {
        (p, q): tuple(Hop(new[hop.link], hop.direction) for hop in topology.routes[p][q])
        for p in range(count)
        for q in range(count)
        if p != q and all(hop.link in new for hop in topology.routes[p][q])
    }
    return Topology.build(
        name=f"{topology.name}-first-{count}",
        ranks=topology.ranks[:count],
        switches=topology.switches,
        links=tuple(topology.links[number] for number in numbers),
        fixed=fixed,
    )


def smaller_counts(topology: Topology) -> list[int]:
    """Numbers of first ranks that are worth a plan: 1, 2, 4 .. of the first machine, then whole machines, all."""
    machines = [rank.machine for rank in topology.ranks]
    ends = [number for number in range(1, len(machines)) if machines[number] != machines[number - 1]]
    first = (ends or [len(machines)])[0]
    doubled = [1 << power for power in range(first.bit_length()) if 1 << power <= first]
    return sorted({*doubled, *ends, len(machines)})
