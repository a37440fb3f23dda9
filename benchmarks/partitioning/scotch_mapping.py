"""Scotch's static mapping, as a baseline: the program `scotch_gmap` (or `gmap`) of the Debian package `scotch`.

The target is a decomposition-defined architecture (Scotch 7 user's guide, section 5.3): the ranks as leaves of a binary
tree, halved along the topology's groups, and the distance of every pair, which is the link seconds of its route.

Pellegrini, Roman: SCOTCH: a software package for static mapping by dual recursive bipartitioning, HPCN 1996.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from graphprep.core.types import Csr
from graphprep.errors import PartitionError
from graphprep.partition.methods.integer_weights import edge_weights
from graphprep.partition.methods.mtkahypar import distances
from graphprep.topology import Topology
from graphprep.topology.groups import rank_groups
from graphprep.topology.rank_groups import RankGroup

PROGRAMS = ("scotch_gmap", "gmap")
SPEED_STEPS = 100
ROWS_AT_A_TIME = 1 << 16


def program() -> str | None:
    """The path of Scotch's mapping program, None where it is not installed."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


def map_onto(graph: Csr, topology: Topology, *, imbalance: float, time_limit_s: float | None = None) -> np.ndarray:
    """The rank of each node, int32 [N].

    Args:
        graph: clean, as for the candidates.
        imbalance: greatest share over target share.

    Raises:
        PartitionError: the program is not there, failed or took too long.
    """
    gmap = program()
    if gmap is None:
        raise PartitionError("Scotch is not installed; apt-get install scotch")
    with tempfile.TemporaryDirectory() as name:
        source, target, mapping = (Path(name) / file for file in ("graph.grf", "target.tgt", "parts.map"))
        _write_graph(source, graph)
        target.write_text(architecture(topology))
        command = [gmap, f"-b{imbalance - 1:.4f}", "-Cf", str(source), str(target), str(mapping)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=time_limit_s, check=False)
        except subprocess.TimeoutExpired as error:
            raise PartitionError(f"Scotch was not done within {time_limit_s:.0f} s") from error
        if done.returncode:
            raise PartitionError(f"Scotch failed: {(done.stderr or done.stdout).strip()[-200:]}")
        pairs = np.loadtxt(mapping, dtype=np.int64, skiprows=1, ndmin=2)
    rank_N = np.empty(graph.num_rows, np.int32)
    rank_N[pairs[:, 0]] = pairs[:, 1]
    return rank_N


def architecture(topology: Topology) -> str:
    """The topology as the text of a target file."""
    leaf_P: dict[int, int] = {}
    _number_leaves(rank_groups(topology), 1, leaf_P)
    lines = ["deco", "0", f"{topology.num_ranks} {max(leaf_P.values())}"]
    for p, rank in enumerate(topology.ranks):
        lines.append(f"{p} {max(1, round(rank.speed * SPEED_STEPS))} {leaf_P[p]}")
    distance_PP = distances(topology) if topology.num_ranks > 1 else np.zeros((1, 1), np.int64)
    lines += [" ".join(map(str, distance_PP[p, :p])) for p in range(1, topology.num_ranks)]
    return "\n".join(lines) + "\n"


def _number_leaves(group: RankGroup, domain: int, leaf_P: dict[int, int]) -> None:
    """Halve a group into the domains 2d and 2d + 1 of domain d, until ranks are left."""
    if isinstance(group, int):
        leaf_P[group] = domain
        return
    if len(group) == 1:
        _number_leaves(group[0], domain, leaf_P)
        return
    half = len(group) // 2
    _number_leaves(group[:half], 2 * domain, leaf_P)
    _number_leaves(group[half:], 2 * domain + 1, leaf_P)


def _write_graph(path: Path, graph: Csr) -> None:
    weights = edge_weights(graph.data)
    with path.open("wb") as file:
        flags = "000" if weights is None else "010"
        file.write(f"0\n{graph.num_rows} {graph.num_edges}\n0 {flags}\n".encode())
        for row in range(0, graph.num_rows, ROWS_AT_A_TIME):
            rows = slice(row, min(row + ROWS_AT_A_TIME, graph.num_rows))
            file.write(_rows_as_text(graph, rows, weights))


def _rows_as_text(graph: Csr, rows: slice, weights: np.ndarray | None) -> bytes:
    """Each row as its degree and its neighbours (after the weights of their edges)."""
    starts = graph.indptr[rows.start : rows.stop + 1]
    edges = slice(int(starts[0]), int(starts[-1]))
    numbers = graph.indices[edges].astype(np.int64)
    if weights is not None:
        numbers = np.stack([weights[edges], numbers], axis=1).ravel()
    width = 1 if weights is None else 2
    ends = (starts - starts[0]) * width
    degrees = np.diff(starts)
    with_degrees = np.insert(numbers, ends[:-1], degrees)
    text = np.char.mod("%d", with_degrees)
    separators = np.full(len(text), " ")
    separators[ends[1:] + np.arange(1, len(ends)) - 1] = "\n"
    return "".join(np.char.add(text, separators).tolist()).encode()
