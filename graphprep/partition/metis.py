"""METIS through pymetis, in a process of its own.

METIS is native code that kills its process on input it does not like, holds the interpreter for the whole call, and
may be shot by the kernel when memory runs out. So it gets a clean graph (symmetric, no loops, no duplicates, small
weights) in files, runs in a child, and what it returns is checked before it is believed.

Karypis, Kumar: A fast and high quality multilevel scheme for partitioning irregular graphs, SIAM J. Sci. Comput. 1998.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphprep import progress
from graphprep.errors import PartitionError
from graphprep.graph import Csr

BYTES_PER_EDGE = 110
BYTES_PER_NODE = 150
"""Resident memory of a k-way run over a clean graph, measured on graphs of 4 to 40 million directed edges."""
POLL_SECONDS = 0.05


def expected_bytes(num_nodes: int, num_edges: int) -> int:
    """Memory that METIS will need for a clean graph of this size."""
    return BYTES_PER_EDGE * num_edges + BYTES_PER_NODE * num_nodes


def metis(
    graph: Csr, *, shares_P: NDArray[np.float64], recursive: bool, seed: int, imbalance: float, scratch: Path
) -> NDArray[np.int32]:
    """Partition a clean graph.

    Args:
        graph: square, symmetric, no self-loops, no duplicates; data counts the directed edges behind each.
        shares_P: the share of nodes that each part should get; sums to 1.
        recursive: bisect again and again instead of k-way at once.
        seed: of METIS's own generator; the same seed gives the same parts on the same machine.
        imbalance: largest share over target share that METIS may leave.
        scratch: folder for the files that go to and from the child.

    Returns:
        int32 [N], the part of each node.

    Raises:
        PartitionError: the child died, or what it returned is not a partition.
    """
    with tempfile.TemporaryDirectory(prefix=".partial-metis-", dir=scratch) as name:
        folder = Path(name)
        np.save(folder / "xadj.npy", graph.indptr)
        np.save(folder / "adjncy.npy", graph.indices.astype(np.int64))
        weights = graph.data
        if weights is not None and len(weights) and weights.min() != weights.max():
            np.save(folder / "eweights.npy", weights.astype(np.int64))
        request = {
            "nparts": len(shares_P),
            "tpwgts": None if np.ptp(shares_P) < 1e-12 else shares_P.tolist(),
            "recursive": recursive,
            "seed": seed,
            "ufactor": max(1, round((imbalance - 1) * 1000)),
        }
        (folder / "request.json").write_text(json.dumps(request))
        _run(folder, recursive)
        assignment = np.load(folder / "assignment.npy")
    return _checked(assignment, graph.num_rows, len(shares_P))


def _run(folder: Path, recursive: bool) -> None:
    command = [sys.executable, "-m", "graphprep.partition.metis_process", str(folder)]
    with (
        (folder / "log").open("wb") as log,
        progress.task(f"METIS {'recursive bisection' if recursive else 'k-way'}") as task,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as child,
    ):
        try:
            while child.poll() is None:
                time.sleep(POLL_SECONDS)
                task.advance(0)
        except BaseException:
            child.kill()
            raise
    if child.returncode == 0:
        return
    if child.returncode < 0:
        cause = f"was ended by {signal.Signals(-child.returncode).name}"
        cause += ", as the kernel does when memory runs out" if -child.returncode == signal.SIGKILL else ""
    else:
        words = (folder / "log").read_text(errors="replace").strip().splitlines()
        cause = f"failed: {words[-1] if words else f'exit status {child.returncode}'}"
    raise PartitionError(f"METIS {cause}")


def _checked(assignment: NDArray[np.int64], num_nodes: int, num_parts: int) -> NDArray[np.int32]:
    if assignment.shape != (num_nodes,):
        raise PartitionError(f"METIS returned {assignment.shape[0]} part numbers for {num_nodes} nodes")
    if num_nodes and (assignment.min() < 0 or assignment.max() >= num_parts):
        raise PartitionError(f"METIS returned part numbers outside 0 .. {num_parts - 1}")
    return assignment.astype(np.int32)
