"""The child process that calls METIS: `python -m graphprep.partition.methods.metis_worker FOLDER`.

Reads xadj.npy, adjncy.npy, edge_weights.npy and node_weights.npy (both optional) and the request from FOLDER.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphprep.partition.methods.hierarchy import divide_along
from graphprep.partition.methods.metis_constraints import partition_within
from graphprep.partition.methods.metis_ctypes import MetisGraph, MetisLibrary
from graphprep.partition.methods.worker import Parts, Task, main
from graphprep.system import memory


def plain(task: Task) -> Parts:
    """One constraint, through pymetis."""
    import pymetis

    request = task.request
    options = pymetis.Options(seed=request["seed"], ufactor=request["ufactor"])
    if request["volume"]:
        options.objtype = int(pymetis.ObjType.VOL)
    found = pymetis.part_graph(
        len(request["shares"]),
        adjacency=pymetis.CSRAdjacency(task.array("xadj"), task.array("adjncy")),
        eweights=task.array_if_any("edge_weights"),
        tpwgts=None if request["equal"] else request["shares"],
        recursive=request["recursive"],
        options=options,
    )
    return Parts(found.vertex_part, found.edge_cuts)


def within_limits(task: Task) -> Parts:
    """Several constraints, all at once or along nested groups of ranks."""
    request, metis = task.request, MetisLibrary()
    graph = MetisGraph(
        task.array("xadj"), task.array("adjncy"), task.array_if_any("edge_weights"), task.array("node_weights")
    )
    shares_P, limits_C = np.array(request["shares"]), np.array(request["limits"])
    if request["groups"] is None:
        found = partition_within(metis, graph, shares_P, limits_C, seed=request["seed"])
        return Parts(found.part_N, found.cut)
    cuts: list[int] = []

    def divide(part: MetisGraph, shares_G: NDArray[np.float64], limits_C: NDArray[np.float64]) -> NDArray[np.int64]:
        found = partition_within(metis, part, shares_G, limits_C, seed=(request["seed"] + len(cuts)) % 2**31)
        cuts.append(found.cut)
        return found.part_N

    rank_N = divide_along(request["groups"], graph, shares_P, limits_C, divide)
    return Parts(rank_N, sum(cuts) if min(cuts, default=0) >= 0 else min(cuts))


def run(task: Task) -> Parts:
    """What the request asks for. METIS's levels leave gaps of up to a tenth of its memory if freed blocks are kept."""
    memory.return_freed_blocks()
    return plain(task) if task.request["limits"] is None else within_limits(task)


if __name__ == "__main__":
    main(run)
