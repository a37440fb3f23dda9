"""Out-of-core multilevel partitioning: a few numbers a node in memory, edges in files.

    mapped_graph    a store as files that are read by ranges of rows
    propagation     clusters of bounded weight by label propagation
    contraction     clusters become nodes; edges between them are sorted and summed in files
    levels          propagation and contraction, level after level, until the graph is small enough for METIS
    coarsest        METIS partitions the coarsest level; its parts are mapped to ranks and refined in memory
    refinement      on every finer level, nodes move where that lowers the link seconds
    driver          the whole run, and the node order inside parts

Edges are read sequentially, by ranges of rows that do not depend on the number of threads. So a file that does not fit
in memory is read at the disk's speed, and the result is the same for any number of threads.

Meyerhenke, Sanders, Schulz: Partitioning complex networks via size-constrained clustering, SEA 2014; Akhremtsev,
Sanders, Schulz: (Semi-)external algorithms for graph partitioning and clustering, ALENEX 2015.
"""
