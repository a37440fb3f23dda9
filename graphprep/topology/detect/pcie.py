"""PCIe: GPUs to their switches, switches to switches above them, all of these to sockets, and sockets to each other.

GPUs with at most one PCIe bridge between them (PIX) share the switch pcie<i>; several bridges and no processor (PXB)
mean a switch above, bridge<i>. What is not below another switch has its own port at its socket (PHB, NODE). Two
sockets are joined to each other, more than two to a switch `host`. Where all GPUs are below one switch there is no
socket.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphprep.topology.detect.affinity import Group, groups
from graphprep.topology.detect.smi_matrix import BRIDGES, NUMA_NODE, SWITCH, Matrix
from graphprep.topology.link_rates import PCIE_LATENCY_US, SOCKET_GBYTES_PER_S, Generation
from graphprep.topology.network import Link


def pcie_links(matrix: Matrix, kinds: Sequence[Generation], names: Sequence[str]) -> list[Link]:
    """The links of types pcie and qpi.

    Args:
        matrix, kinds, names: of the GPUs, in one order.
    """
    links: list[Link] = []
    tops: dict[Group, str] = {(gpu,): name for gpu, name in enumerate(names)}

    def gather(found: Sequence[Group], word: str, fewest: int) -> None:
        """Join the tops inside each group, if they are not fewer than `fewest`, to a switch that is their top now."""
        switches = 0
        for group in found:
            inside = sorted(top for top in tops if set(top) <= set(group))
            if len(inside) < fewest:
                continue
            for top in inside:
                # A switch's own port is taken for as fast as those below it.
                rate = max(kinds[gpu].pcie_gbytes_per_s for gpu in top)
                links.append(_link("pcie", tops.pop(top), f"{word}{switches}", rate))
            tops[group] = f"{word}{switches}"
            switches += 1

    gather(groups(matrix, SWITCH), "pcie", 2)
    gather(groups(matrix, BRIDGES), "bridge", 2)
    sockets = groups(matrix, NUMA_NODE)
    gather(sockets, "socket", 1 if len(sockets) > 1 else 2)
    left = [name for _, name in sorted(tops.items())]
    if len(left) == 2:
        links.append(_link("qpi", left[0], left[1], SOCKET_GBYTES_PER_S))
    elif len(left) > 2:
        links += [_link("qpi", name, "host", SOCKET_GBYTES_PER_S) for name in left]
    return links


def _link(type: str, a: str, b: str, gbytes_per_s: float) -> Link:
    return Link(ends=(a, b), type=type, gbytes_per_s=gbytes_per_s, latency_us=PCIE_LATENCY_US)
