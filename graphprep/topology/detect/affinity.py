"""Which GPUs share a PCIe switch, a group of switches, a socket: the matrix as nested groups.

Distances on a tree obey d(a, b) <= max(d(a, w), d(w, b)) for every third device w. nvidia-smi names only NVLink for the
pairs that NVLink joins, so what PCIe does between these is taken from witnesses: a NIC or a GPU that is close to both;
and from the NUMA nodes, which say whether two GPUs can be closer than two sockets.
"""

from __future__ import annotations

from graphprep.topology.detect.smi_matrix import NUMA_NODE, SYSTEM, Matrix

Group = tuple[int, ...]
"""Positions of GPUs, ascending."""


def groups(matrix: Matrix, closeness: int) -> tuple[Group, ...]:
    """GPUs that are at most `closeness` apart, in groups by their first GPU; a GPU on its own is a group too."""
    leader = list(range(len(matrix.gpus)))

    def find(gpu: int) -> int:
        while leader[gpu] != gpu:
            gpu = leader[gpu]
        return gpu

    for a in range(len(leader)):
        for b in range(a + 1, len(leader)):
            if _distance(matrix, a, b) <= closeness:
                first, second = sorted((find(a), find(b)))
                leader[second] = first
    members: dict[int, list[int]] = {}
    for gpu in range(len(leader)):
        members.setdefault(find(gpu), []).append(gpu)
    return tuple(tuple(group) for group in members.values())


def _distance(matrix: Matrix, a: int, b: int) -> int:
    named = matrix.cells[a, b].closeness
    if named is not None:
        return named
    here, there = matrix.affinity[a], matrix.affinity[b]
    bound = NUMA_NODE if here is not None and here == there else SYSTEM
    for witness in range(len(matrix.gpus) + len(matrix.nics)):
        if witness not in (a, b):
            first, second = matrix.cells[a, witness].closeness, matrix.cells[b, witness].closeness
            if first is not None and second is not None:
                bound = min(bound, max(first, second))
    return bound
