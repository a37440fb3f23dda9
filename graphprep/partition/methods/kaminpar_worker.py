"""The child process that calls KaMinPar: `python -m graphprep.partition.methods.kaminpar_worker FOLDER`.

Reads graph.parhip and the request from FOLDER.
"""

from __future__ import annotations

import kaminpar

from graphprep.partition.methods.worker import Parts, Task, main


def run(task: Task) -> Parts:
    """Partition on one thread."""
    request = task.request
    kaminpar.reseed(request["seed"])
    partitioner = kaminpar.KaMinPar(1, kaminpar.eco_context())
    # The presets called terapart crash on a graph that is not compressed; this one does not need it.
    graph = kaminpar.load_graph(str(task.folder / "graph.parhip"), kaminpar.GraphFileFormat.PARHIP, False)
    if request["allowance"] is None:
        found = partitioner.compute_partition(graph, request["most_nodes"])
    else:
        found = partitioner.compute_partition(graph, len(request["most_nodes"]), request["allowance"])
    return Parts(found, kaminpar.edge_cut(graph, found))


if __name__ == "__main__":
    main(run)
