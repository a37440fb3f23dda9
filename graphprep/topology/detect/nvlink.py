"""NVLink: cables between two GPUs, or from each GPU to NVSwitch.

nvidia-smi prints NV# for a pair in both cases. GPUs that are all joined with each other are behind NVSwitch if one of
them would need more links than it has to be cabled to all others: eight A100 of twelve links each, with NV12 between
any two, would need 84.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from graphprep.topology.detect.smi_matrix import Matrix
from graphprep.topology.link_rates import NVLINK_LATENCY_US, NVSWITCH_LATENCY_US, Generation
from graphprep.topology.network import Link
from graphprep.topology.routing import joined


def nvlink_links(matrix: Matrix, kinds: Sequence[Generation], names: Sequence[str]) -> Iterator[Link]:
    """The links of type nvlink.

    Args:
        matrix, kinds, names: of the GPUs, in one order.
    """
    pairs = [pair for pair in combinations(range(len(names)), 2) if matrix.cells[pair].nvlinks]
    fabrics = [group for group in map(sorted, joined(pairs)) if _is_switched(matrix, kinds, group)]
    fabric_of = {gpu: number for number, group in enumerate(fabrics) for gpu in group}
    for gpu, number in sorted(fabric_of.items()):
        switch = "nvswitch" if len(fabrics) == 1 else f"nvswitch{number}"
        bonded = max(matrix.cells[gpu, other].nvlinks for other in fabrics[number] if other != gpu)
        yield _link(names[gpu], switch, bonded * kinds[gpu].nvlink, NVSWITCH_LATENCY_US)
    for a, b in pairs:
        if a not in fabric_of:
            rate = matrix.cells[a, b].nvlinks * min(kinds[a].nvlink, kinds[b].nvlink)
            yield _link(names[a], names[b], rate, NVLINK_LATENCY_US)


def _is_switched(matrix: Matrix, kinds: Sequence[Generation], group: Sequence[int]) -> bool:
    bonded = {gpu: [matrix.cells[gpu, other].nvlinks for other in group if other != gpu] for gpu in group}
    return all(map(all, bonded.values())) and any(sum(links) > kinds[gpu].nvlinks for gpu, links in bonded.items())


def _link(a: str, b: str, gbytes_per_s: float, latency_us: float) -> Link:
    return Link(ends=(a, b), type="nvlink", gbytes_per_s=gbytes_per_s, latency_us=latency_us)
