"""The child process that calls Mt-KaHyPar: `python -m graphprep.partition.methods.mtkahypar_worker FOLDER`.

Reads the file `graph` (METIS, or hMETIS when rows count) and the request from FOLDER.
"""

from __future__ import annotations

import mtkahypar

from graphprep.partition.methods.worker import Parts, Task, main


def run(task: Task) -> Parts:
    """Partition on one thread."""
    request, file = task.request, str(task.folder / "graph")
    library = mtkahypar.initialize(1, False)
    mtkahypar.set_seed(request["seed"])
    context = library.context_from_preset(mtkahypar.PresetType.DEFAULT)
    context.logging = False
    by_rows = request["objective"] == "rows"
    if request["objective"] == "steiner":
        context.set_mapping_parameters(request["parts"], request["allowance"])
    else:
        objective = mtkahypar.Objective.KM1 if by_rows else mtkahypar.Objective.CUT
        context.set_partitioning_parameters(request["parts"], request["allowance"], objective)
    if request["most_nodes"] is not None:
        context.set_individual_target_block_weights(request["most_nodes"])
    if by_rows:
        graph = library.hypergraph_from_file(file, context, mtkahypar.FileFormat.HMETIS)
    else:
        graph = library.graph_from_file(file, context, mtkahypar.FileFormat.METIS)
    if request["objective"] == "steiner":
        found = graph.map_onto_graph(_target_graph(library, context, request["distances"]), context)
    else:
        found = graph.partition(context)
    return Parts(found.get_partition(), found.cut())


def _target_graph(
    library: mtkahypar.Initializer, context: mtkahypar.Context, distances: list[list[int]]
) -> mtkahypar.TargetGraph:
    """All pairs of ranks as edges, as long as their distances."""
    ranks = range(len(distances))
    pairs = [(p, q) for p in ranks for q in ranks if p < q]
    return library.create_target_graph(context, len(distances), len(pairs), pairs, [distances[p][q] for p, q in pairs])


if __name__ == "__main__":
    main(run)
