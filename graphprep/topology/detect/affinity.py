"""Which GPUs share a PCIe switch, a group of switches, a socket: the matrix as nested groups.

Distances on a tree obey d(a, b) <= max(d(a, w), d(w, b)) for every third device w. nvidia-smi names only NVLink for the
pairs that NVLink joins, so what PCIe does between these is taken from witnesses: a NIC or a GPU that is close to both;
and from the NUMA nodes, which say whether two GPUs can be closer than two sockets.
"""

from __future__ import annotations

from itertools import combinations

from graphprep.topology.detect.smi_matrix import NUMA_NODE, SYSTEM, Matrix
from graphprep.topology.routing import joined

Group = tuple[int, ...]
"""Positions of GPUs, ascending."""


def groups(matrix: Matrix, closeness: int) -> tuple[Group, ...]:
    """GPUs that are at most `closeness` apart, in groups by their first GPU; a GPU on its own is a group too."""
    numbers = range(len(matrix.gpus))
    close = [(a, b) for a, b in combinations(numbers, 2) if _distance(matrix, a, b) <= closeness]
    return tuple(tuple(sorted(group)) for group in joined(close, numbers))


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
